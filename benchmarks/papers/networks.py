"""ISM3 in a small network (the M3SVM paper, appendix, Table 4): lambda tuned, with as many trials for the cross-entropy.

Lambda stands beside the mean loss, as in the authors' program. Their Eq. 32 has it beside the sum over n rows, where the
same number is n times weaker: both readings of the advised 0.001 are among the values, others lie between and beyond. The
cross-entropy has as many trials, of lambda |W|^2 of the last layer, 0 among them: it shows whether distances between class
vectors do more than their lengths. All trials of a seed see the same rows in the same order from the same weights; the best
one on other rows is tested.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from polymargin import datasets
from polymargin.comparison.statistics import corrected_t_test

from .reading import LEVEL, TESTED_SPLITS, listed
from .records import DIRECTORY, Record, read

FILE, PAGE = "networks.jsonl", "ism3-tuned.md"
SETS = {"fashion_mnist": 28, "mnist": 28, "usps": 16}  # pixels of a side
ROWS, CHOOSING, TEST = 2000, 2000, 5000  # to train, to choose lambda, at most to test
EPOCHS, BATCH, RATE, SEEDS = 16, 32, 1e-3, 3
FILTERS = (8, 16, 32, 32, 32)  # half of the paper's
ADVICE = 1e-3
BESIDE_SUM = ADVICE / ROWS
MARGINS = (0.0, BESIDE_SUM, 1e-5, 1e-4, ADVICE, 1e-2)
LOSSES: dict[str, tuple[float, ...]] = {
    "softmax": (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
    "ISM3": MARGINS,
    "ISM3, pairwise logistic": MARGINS,
}
PRINTED = {"fashion_mnist": "printed on all rows, with a network twice as wide: softmax 88.6, ISM³ 92.2"}
SETTINGS = f"{ROWS} rows, {EPOCHS} epochs, batches of {BATCH}, Adam {RATE:g}, {CHOOSING} and {TEST} rows to choose and test"


class Trial(NamedTuple):
    data: str
    seed: int
    loss: str
    lam: float


def trials() -> Iterator[Trial]:
    """Seed by seed, all data sets before the next."""
    for seed in range(SEEDS):
        for data in SETS:
            for loss, values in LOSSES.items():
                for lam in values:
                    yield Trial(data, seed, loss, lam)


def found_in(directory: Path = DIRECTORY) -> dict[Trial, Record]:
    """What has been run with these settings, of the trials above."""
    records = [record for record in read(directory / FILE) if record["settings"] == SETTINGS]
    known = {Trial(*(record[name] for name in Trial._fields)): record for record in records}
    return {trial: known[trial] for trial in trials() if trial in known}


def run(directory: Path = DIRECTORY, seconds: float = float("inf"), echo: Callable[[str], None] = print) -> int:
    """Runs what is missing, one trial after the other, until the time is up; counts new records."""
    import torch

    torch.set_num_threads(1)
    done, began, new = found_in(directory), time.monotonic(), 0
    for trial in trials():
        if trial in done:
            continue
        if time.monotonic() - began > seconds:
            break
        values = train(trial, *rows_of(trial.data, trial.seed))
        record = {**trial._asdict(), "settings": SETTINGS, **values, "torch": torch.__version__.split("+")[0]}
        with (directory / FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
        new += 1
        echo(
            f"{trial.data}, seed {trial.seed}, {trial.loss}, {trial.lam:.2g}: {values['test']:.4f} in {values['seconds']} s"
        )
    return new


Part = tuple[Any, Any]  # images and classes


def rows_of(name: str, seed: int) -> tuple[Part, Part, Part]:
    """Rows to train, to choose and to test, in [0, 1]; the last from the official test rows where there are such."""
    found = datasets.load(name)
    X, y = np.asarray(found.X, dtype=np.float32), np.unique(found.y, return_inverse=True)[1]
    X = (X - X.min()) / (X.max() - X.min())
    official = found.n_train or len(y) - TEST // 5
    rng = np.random.default_rng(seed)
    inside, outside = rng.permutation(official), official + rng.permutation(len(y) - official)
    picked = inside[:ROWS], inside[ROWS : ROWS + CHOOSING], outside[:TEST]
    first, second, third = ((X[rows], y[rows]) for rows in picked)
    return first, second, third


def train(trial: Trial, rows: Part, choosing: Part, test: Part) -> Record:
    """One network: its accuracies after the last epoch, and the smallest margin of its last layer."""
    import torch
    from torch import nn

    from polymargin.torch import ISM3Loss

    def tensors(part: Part) -> tuple[Any, Any]:
        return torch.from_numpy(part[0]).reshape(len(part[0]), 1, side, side), torch.from_numpy(part[1].astype(np.int64))

    def accuracy(part: Part) -> float:
        X, y = tensors(part)
        with torch.no_grad():
            right = sum(int((network(a).argmax(1) == b).sum()) for a, b in zip(X.split(500), y.split(500), strict=True))
        return round(right / len(y), 5)

    side, began = round(rows[0].shape[1] ** 0.5), time.process_time()
    torch.manual_seed(trial.seed)
    network, head = _network(side, int(rows[1].max()) + 1)
    plain = nn.CrossEntropyLoss()
    kind = "softmax" if trial.loss == "ISM3" else "logistic"
    wide = None if trial.loss == "softmax" else ISM3Loss(head, loss=kind, p=4, lam=trial.lam)
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    order = torch.Generator().manual_seed(trial.seed)
    X, y = tensors(rows)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(y), generator=order).split(BATCH):
            optimizer.zero_grad()
            scores = network(X[batch])
            value = wide(scores, y[batch]) if wide else plain(scores, y[batch]) + trial.lam * head.weight.square().sum()
            value.backward()
            optimizer.step()
    return {
        "training": accuracy(rows),
        "choosing": accuracy(choosing),
        "test": accuracy(test),
        "margin": float(f"{2.0 / float(torch.pdist(head.weight.detach()).max()):.4g}"),
        "seconds": round(time.process_time() - began, 1),
    }


def _network(side: int, n_classes: int) -> tuple[Any, Any]:
    """The paper's Table 3, half as wide: 5 x 5 convolutions, halved after the first, the second and the last."""
    from torch import nn

    layers, n_in = [], 1
    for k, n_out in enumerate(FILTERS):
        layers += [nn.Conv2d(n_in, n_out, 5, padding=2), nn.ReLU()] + [nn.MaxPool2d(2)] * (k in (0, 1, len(FILTERS) - 1))
        n_in = n_out
    head = nn.Linear(n_in * (side // 8) ** 2, n_classes)
    return nn.Sequential(*layers, nn.Flatten(), head), head


# -- the page ------------------------------------------------------------------------------------------------------------


class Line(NamedTuple):
    """A line of the table: a loss with a lambda, or with the chosen one, over the seeds."""

    name: str
    runs: list[Record]

    @property
    def tests(self) -> list[float]:
        return [100 * r["test"] for r in self.runs]


def page(directory: Path = DIRECTORY) -> str:
    """The page, from the records; empty without any."""
    found = found_in(directory)
    sets = {data: seeds for data in SETS if (seeds := _complete(found, data))}
    if not sets:
        return ""
    tables = [_of_set(found, data, seeds) for data, seeds in sets.items()]
    chosen = [_chosen(found, data, seed, loss) for data, seeds in sets.items() for loss in LOSSES for seed in seeds]
    edges = sum(r["lam"] in (LOSSES[r["loss"]][0], LOSSES[r["loss"]][-1]) and r["lam"] > 0 for r in chosen)
    none = sum(r["lam"] == 0 for r in chosen)
    seconds = sum(r["seconds"] for r in found.values())
    return "\n\n".join([
        "# ISM³ with λ tuned, on three sets of images",
        "The M³SVM paper, appendix, Table 4. Written by `python -m benchmarks papers pages` from [recorded "
        f"runs](../../benchmarks/results/papers/{FILE}) of `python -m benchmarks papers networks`; do not edit it by hand.",
        "\n".join(f"- {_verdict(found, data, seeds)}" for data, seeds in sets.items()),
        *tables,
        f"**What was done.** The paper's network (its Table 3) with half as many filters ({', '.join(map(str, FILTERS))}), "
        f"trained by Adam (rate {RATE:g}, batches of {BATCH}) for {EPOCHS} epochs on {ROWS:,} rows, drawn for each seed. "
        f"Every loss has {len(MARGINS)} trials a seed: ISM³ with λ of {', '.join(f'{lam:.2g}' for lam in MARGINS)} beside "
        "the mean loss, the cross-entropy with λ‖W‖² of the last layer, λ of "
        f"{', '.join(f'{lam:g}' for lam in LOSSES['softmax'])}. The trial with the highest accuracy on {CHOOSING:,} other "
        f"training rows (the first of equals) is tested on at most {TEST:,} test rows. The advised λ = {ADVICE:g} stands "
        f"in the table in both scales: beside the mean (the authors' program), and beside the sum over rows (Eq. 32), "
        f"which is {BESIDE_SUM:.1g} beside the mean. p = 4. \"Smallest margin\" is 2 / max ‖w_k − w_l‖.",
        f"Of {len(chosen)} choices {edges} are on an end of the values (λ = 0, chosen {none} times, is none). "
        f"{len(found)} networks, {seconds / 60:.0f} minutes of one processor.",
        "**What it does not say.** The t-tests are plain ones over the seeds, whose training rows hardly overlap "
        "(on usps by a quarter). The paper trains on all rows, and states neither optimiser nor epochs nor λ: its numbers "
        "cannot be compared with these.",
    ]) + "\n"  # fmt: skip


def _complete(found: dict[Trial, Record], data: str) -> list[int]:
    """Seeds of which all trials are there."""
    return [
        seed
        for seed in range(SEEDS)
        if all(Trial(data, seed, loss, lam) in found for loss, values in LOSSES.items() for lam in values)
    ]


def _chosen(found: dict[Trial, Record], data: str, seed: int, loss: str) -> Record:
    return max((found[Trial(data, seed, loss, lam)] for lam in LOSSES[loss]), key=lambda r: r["choosing"])


def _lines(found: dict[Trial, Record], data: str, seeds: Sequence[int]) -> list[Line]:
    lines = [Line("softmax, λ = 0", [found[Trial(data, seed, "softmax", 0.0)] for seed in seeds])]
    for loss in LOSSES:
        if loss != "softmax":
            scales = {f"λ = {ADVICE:g} beside the mean": ADVICE, f"λ = {ADVICE:g} beside the sum": BESIDE_SUM}
            lines += [
                Line(f"{loss}, {how}", [found[Trial(data, s, loss, lam)] for s in seeds]) for how, lam in scales.items()
            ]
        lines.append(Line(f"{loss}, tuned", [_chosen(found, data, seed, loss) for seed in seeds]))
    return lines


def _of_set(found: dict[Trial, Record], data: str, seeds: Sequence[int]) -> str:
    from .pages import markdown

    lines = _lines(found, data, seeds)
    best = max(round(float(np.mean(one.tests)), 1) for one in lines)
    rows = []
    for name, runs in lines:
        tests = Line(name, runs).tests
        mean = f"{np.mean(tests):.1f}"
        rows.append([
            name,
            f"**{mean}**" if float(mean) == best else mean,
            f"{min(tests):.1f} to {max(tests):.1f}",
            f"{100 * np.mean([r['training'] for r in runs]):.1f}",
            f"{np.mean([r['margin'] for r in runs]):.2f}",
            ", ".join(f"{lam:.2g}" for lam in sorted({r["lam"] for r in runs})),
        ])  # fmt: skip
    note = f" ({PRINTED[data]})" if data in PRINTED else ""
    header = ["loss", "test accuracy, %", "lowest to highest", "on its training rows", "smallest margin", "λ"]
    return f"## {data}\n\n{len(seeds)} {'seed' if len(seeds) == 1 else 'seeds'}{note}.\n\n{markdown(header, rows)}"


def _verdict(found: dict[Trial, Record], data: str, seeds: Sequence[int]) -> str:
    """ISM3 against the cross-entropy, both tuned, by the paired t-test over the seeds."""
    lines = {one.name: one.tests for one in _lines(found, data, seeds)}
    base, parts = lines["softmax, tuned"], []
    for loss in list(LOSSES)[1:]:
        tests = lines[f"{loss}, tuned"]
        gains = [a - b for a, b in zip(tests, base, strict=True)]
        said = "too few seeds for a test"
        if len(seeds) >= TESTED_SPLITS:
            p = corrected_t_test(tests, base, 0.0).p_value  # their training rows hardly overlap
            said = f"p = {p:.2f}, {'different' if p < LEVEL else 'not different'}"
        parts.append(
            f"{loss} {np.mean(gains):+z.1f} points (better on {sum(g > 0 for g in gains)} of {len(gains)} seeds; {said})"
        )
    return f"{data}, tuned against the tuned cross-entropy: {listed(parts)}."
