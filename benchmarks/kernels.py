"""`python -m benchmarks kernels`: exact RBF machines and Nystroem curves beside scikit-learn's SVC."""

import argparse
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from . import children, datasets, results
from .memory import status
from .table import aligned, number

C, TOL = 10.0, 1e-4
# rows to learn from; None: the official ones
EXACT = {"usps": None, "letter": 10_000, "pendigits": None, "shuttle": 10_000, "connect4": 15_000}
QUICK = {"digits": None}
RANKS = (100, 200, 400, 800, 1600)
MNIST_RANKS = (500, 1000, 2000, 4000)
GOAL_CLASSICAL, GOAL_OTHERS = 3.0, 10.0  # times SVC's seconds, at most
GOAL_MNIST, POINTS = 5.0, 0.5  # times faster than SVC within so many points of its accuracy
GOAL_MEMORY = 4e9  # bytes beyond the data, rank 2,000
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", nargs="+", choices=tuple(EXACT), default=list(EXACT), help="for the exact machines")
    parser.add_argument("--exact", action="store_true", help="no curves over the rank")
    parser.add_argument("--machines", nargs="+", choices=(*machines(), *others()), default=[*machines(), *others()])
    parser.add_argument("--repeats", type=int, default=3, help="best of so many (default 3)")
    parser.add_argument("--full", action="store_true", help="mnist, 60,000 rows, too: SVC alone takes many minutes")
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="wall", help="cpu: for a machine others are using too")


def arrays(name: str, n: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, bool]:
    """Rows to learn from and to test on, dense, in [0, 1]; the last says whether they are a stand-in."""
    if name == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        return X[:1400] / 16.0, y[:1400], X[1400:] / 16.0, y[1400:], True
    data = datasets.load(name)
    n = n or data.X.shape[0]
    X, X_test = (x.toarray() if hasattr(x, "toarray") else x for x in (data.X[:n], data.X_test))
    return X, data.y[:n], X_test, data.y_test, data.stand_in


def machines() -> dict[str, Any]:
    """Makers of a machine of a given rank (None: exact)."""
    from polymargin import CrammerSingerSVC, WestonWatkinsSVC

    def maker(machine: Any) -> Any:
        return lambda rank=None: machine(C=C, kernel="rbf", n_components=rank, tol=TOL, random_state=0)

    return {"Crammer-Singer": maker(CrammerSingerSVC), "Weston-Watkins": maker(WestonWatkinsSVC)}


def others() -> dict[str, Any]:
    """Makers of the exact machines without a loop for kernels of their own."""
    from polymargin import M3SVC, LpNormSVC, MarginDistributionSVC, OneVsNoneSVC

    kinds = {"lp-norm": LpNormSVC, "M3": M3SVC, "One versus None": OneVsNoneSVC, "mcODM": MarginDistributionSVC}
    return {name: partial(kind, C=C, kernel="rbf", tol=TOL, random_state=0) for name, kind in kinds.items()}


def svc() -> Any:
    from sklearn.svm import SVC

    return SVC(C=C, kernel="rbf", gamma="scale", cache_size=1000)


def measure(model: Any, data: tuple[Any, ...], clock: str) -> dict[str, Any]:
    """One fit: its seconds, accuracy on the test rows, support rows and, for ours, the certified gap."""
    X, y, X_test, y_test = data
    now = CLOCKS[clock]
    start = now()
    model.fit(X, y)
    seconds = now() - start
    found = {"seconds": seconds, "accuracy": 100.0 * model.score(X_test, y_test), "support": len(model.support_)}
    if hasattr(model, "certificate_"):
        found |= {"rel_gap": model.certificate_.rel_gap, "status": model.certificate_.status}
    return found


def best_of(makers: dict[str, Any], data: tuple[Any, ...], clock: str, repeats: int) -> dict[str, dict[str, Any]]:
    """The fastest run of each; they take turns, so that noise hits all."""
    best: dict[str, dict[str, Any]] = {}
    for _ in range(repeats):
        for name, make in makers.items():
            run = measure(make(), data, clock)
            if name not in best or run["seconds"] < best[name]["seconds"]:
                best[name] = run
    return best


def exact(name: str, n: int | None, kinds: list[str], clock: str, repeats: int, ranks: tuple[int, ...]) -> dict[str, Any]:
    """SVC, the exact machines, and the curves of the classical ones over the rank, on one data set."""
    *rows, stand_in = arrays(name, n)
    data = tuple(rows)
    print(f"  {name}: {len(data[1])} rows", flush=True)
    makers = {label: make for label, make in (machines() | others()).items() if label in kinds}
    runs = best_of({"SVC": svc, **makers}, data, clock, repeats)
    classical = {label: make for label, make in machines().items() if label in kinds}
    curves: dict[str, dict[int, Any]] = {label: {} for label in classical}
    for rank in ranks:
        makers = {label: partial(make, rank) for label, make in classical.items()}
        for label, run in best_of(makers, data, clock, repeats).items():
            curves[label][rank] = run
    return {"rows": len(data[1]), "stand_in": stand_in, "exact": runs, "nystroem": curves}


def lines(name: str, record: dict[str, Any]) -> list[list[str]]:
    label = name + ("*" if record["stand_in"] else "")
    base = record["exact"]["SVC"]["seconds"] if "SVC" in record["exact"] else float("nan")
    runs = [(kind, "exact", run) for kind, run in record["exact"].items()]
    runs += [(kind, str(rank), run) for kind, curve in record["nystroem"].items() for rank, run in curve.items()]
    return [
        [label, kind, rank, number(run["seconds"]), f"{run['seconds'] / base:.2f}", f"{run['accuracy']:.2f}",
         str(run["support"]), f"{run['rel_gap']:.1e}" if "rel_gap" in run else ""]
        for kind, rank, run in runs
    ]  # fmt: skip


def child_of_mnist(what: str, rank: int, clock: str) -> None:
    """Runs in a fresh process, so that its peak of memory is its own: print the run as JSON."""
    *data, stand_in = arrays("mnist", None)
    single = tuple(part.astype(np.float32) if part.ndim == 2 else part for part in data)
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    run = measure(svc() if what == "SVC" else machines()[what](rank), single, clock)
    run |= {"extra": status("VmHWM") - before, "stand_in": stand_in, "rows": len(data[1])}
    print(json.dumps(run))


def mnist(clock: str) -> dict[str, Any]:
    """SVC once, and the curve of the Crammer-Singer machine over the rank, on float32 rows."""

    def run(what: str, rank: int) -> dict[str, Any]:
        code = f"from benchmarks.kernels import child_of_mnist; child_of_mnist({what!r}, {rank}, {clock!r})"
        found: dict[str, Any] = json.loads(children.last_line(code))
        print(f"  mnist {what} {rank or 'exact'}: {number(found['seconds'])} s, {found['accuracy']:.2f} %", flush=True)
        return found

    curve = {rank: run("Crammer-Singer", rank) for rank in MNIST_RANKS}
    svc = run("SVC", 0)
    record = {"exact": {"SVC": svc}, "nystroem": {"Crammer-Singer": curve}}
    return {"rows": svc["rows"], "stand_in": svc["stand_in"], **record}


def verdicts(record: dict[str, Any]) -> list[str]:
    """What was to be reached, and whether it was."""
    said = []
    for name, found in record.items():
        reference = found["exact"]["SVC"]
        ours = {kind: run for kind, run in found["exact"].items() if kind != "SVC"}
        for kind, run in ours.items():
            ratio = run["seconds"] / reference["seconds"]
            most = GOAL_CLASSICAL if kind in machines() else GOAL_OTHERS
            word = "PASS" if ratio <= most else "FAIL"
            said.append(f"{word} {name}, exact {kind}: {ratio:.2f} x SVC (goal: at most {most:g})")
        if not ours:  # mnist
            runs = [(rank, run) for curve in found["nystroem"].values() for rank, run in curve.items()]
            near = [(rank, run) for rank, run in runs if run["accuracy"] >= reference["accuracy"] - POINTS]
            rank, run = min(near, key=lambda pair: pair[1]["seconds"], default=runs[-1])
            ratio = reference["seconds"] / run["seconds"]
            word = "PASS" if near and ratio >= GOAL_MNIST else "FAIL"
            points = reference["accuracy"] - run["accuracy"]
            goal = f"(goal: {GOAL_MNIST:g} x within {POINTS:g})"
            said.append(f"{word} {name}, rank {rank}: {ratio:.1f} x faster than SVC, {points:.2f} points below it {goal}")
            for rank, run in runs:
                if rank == 2000:
                    word = "PASS" if run["extra"] < GOAL_MEMORY else "FAIL"
                    goal = f"(goal: under {GOAL_MEMORY / 1e9:g} GB)"
                    said.append(f"{word} {name}, rank {rank}: {run['extra'] / 1e9:.2f} GB beyond the data {goal}")
    return said


def plot(record: dict[str, Any]) -> str | None:
    """Accuracy against seconds over the rank, the exact machines and SVC as points; None without matplotlib."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import NullFormatter
    except ImportError:
        return None
    figure = Figure(figsize=(3.6 * len(record), 3.6), layout="constrained")
    for axis, (name, found) in zip(np.ravel(figure.subplots(1, len(record))), record.items(), strict=True):
        colours = {"SVC": "black", **{kind: f"C{k}" for k, kind in enumerate((*machines(), *others()))}}
        for kind, curve in found["nystroem"].items():
            points = [(run["seconds"], run["accuracy"]) for run in curve.values()]
            axis.plot(*np.transpose(points), "o-", ms=3, color=colours[kind], label=f"{kind}, Nyström")
            axis.annotate(f"{min(curve, key=int)}", points[0], fontsize=7)
            axis.annotate(f"{max(curve, key=int)}", points[-1], fontsize=7)
        for kind, run in found["exact"].items():
            axis.plot(run["seconds"], run["accuracy"], "*", ms=11, color=colours[kind], label=f"{kind}, exact")
        axis.set(xscale="log", xlabel="seconds to fit", ylabel="accuracy (%)", title=f"{name}, {found['rows']} rows")
        axis.margins(0.08)
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_formatter(NullFormatter())
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8)
    results.DIRECTORY.mkdir(exist_ok=True)
    path = results.DIRECTORY / "kernels.png"
    figure.savefig(path, dpi=150)
    return str(path.relative_to(results.ROOT))


def main(args: argparse.Namespace) -> None:
    cases = QUICK if args.quick else {name: EXACT[name] for name in args.data}
    ranks, repeats = (RANKS[:2], 1) if args.quick else (() if args.exact else RANKS, args.repeats)
    record = {name: exact(name, n, args.machines, args.clock, repeats, ranks) for name, n in cases.items()}
    if args.full and not args.quick:
        record["mnist"] = mnist(args.clock)
    print(f"RBF kernel, C = {C:g}, gamma = 'scale', tol = {TOL:g}, {args.clock} seconds, best of {repeats}")
    header = ["data", "machine", "rank", "seconds", "x SVC", "accuracy", "support rows", "rel. gap"]
    print(aligned(header, [line for name, found in record.items() for line in lines(name, found)], left=2))
    said = verdicts(record)
    print("\n" + "\n".join(said))
    if ranks:
        print(f"\npicture: {plot(record) or 'none, matplotlib is not installed'}")
    content = {"C": C, "tol": TOL, "clock": args.clock, "repeats": repeats, "data": record, "verdicts": said}
    print(f"written: {results.write_run('kernels', content)}")
