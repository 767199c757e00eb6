"""`python -m benchmarks calibration`: probabilities against CalibratedClassifierCV, and promises of RejectOption.

Both sides calibrate the same machine, CrammerSingerSVC or WestonWatkinsSVC, with the same C: ours by ``probability=True``,
scikit-learn's by five folds with each of its methods. Log loss, expected calibration error (15 bins) and Brier score are of
the test rows. Seconds are of the processor, the sides take turns, and the least of some repetitions counts; "fits" are
multiples of the time of a fit without probabilities. Data without a split of its own (digits) is split at random several
times.

"limits" asks where a difference comes from: the log loss of our probabilities; of the same machine with the one temperature
that is best for the test rows themselves, which no calibration of its scores by a temperature can beat; of five machines of
four fifths of the rows, each with its temperature, averaged as CalibratedClassifierCV does; and of one machine with the mean
of their class vectors.

RejectOption: one machine, and 200 random splits of the rows that it has not seen into held-out rows (a third) and others,
whose share of errors among accepted rows is the realised risk. That share is an estimate with an error of its own; "truly
kept" draws the held-out rows, with replacement, from a population whose true risk is known, that of all these rows.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedKFold

from polymargin import CrammerSingerSVC, RejectOption, WestonWatkinsSVC
from polymargin.calibration import measures
from polymargin.metrics import expected_calibration_error

from . import datasets, results
from .datasets import base
from .table import aligned

MACHINES = (CrammerSingerSVC, WestonWatkinsSVC)
METHODS = ("sigmoid", "isotonic", "temperature")  # the last one since scikit-learn 1.8
AVERAGED = "ours, averaged"
ALONE = "temperature, one machine"  # ensemble=False, as ours: the others average five machines
C = {"mnist": 0.1}
SPLITS = 10  # of digits
REPETITIONS = 3  # of times
PARTS = ("calibration", "rejection", "limits")
RISKS = {"digits": 0.03, "banking77": 0.05, "letter": 0.15, "mnist": 0.05, "news20": 0.10, "blobs": 0.10}


def digits(seed: int) -> base.Data:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    return base.split("digits", X[order] / 16.0, y[order].astype(np.int64), 1200)


def banking77(seed: int) -> base.Data:
    try:
        X, y, n_train = base.read("banking77_emb")
    except FileNotFoundError:
        return base.blobs("banking77", 4000, 60, 30, spread=2.0)
    return base.split("banking77", X.astype(np.float32), y, n_train)


def mnist(seed: int) -> base.Data:
    """A tenth of the training rows."""
    data = datasets.load("mnist")
    rows = np.random.default_rng(0).permutation(len(data.y))[: len(data.y) // 10]
    return base.Data("mnist", data.X[rows], data.y[rows], data.X_test, data.y_test, data.stand_in)


SOURCES: dict[str, tuple[Callable[[int], base.Data], int]] = {
    "digits": (digits, SPLITS),
    "banking77": (banking77, 1),
    "news20": (lambda seed: datasets.load("news20"), 1),
    "letter": (lambda seed: datasets.load("letter"), 1),
    "mnist": (mnist, 1),
}
QUICK: dict[str, tuple[Callable[[int], base.Data], int]] = {
    "digits": (digits, 2),
    "blobs": (lambda seed: datasets.load("blobs"), 1),
}


def sides(machine: Any) -> dict[str, Callable[[], Any]]:
    """What is fitted, by name; "fit" is the machine without probabilities."""
    found: dict[str, Callable[[], Any]] = {
        "fit": lambda: machine,
        "ours": lambda: type(machine)(**{**machine.get_params(), "probability": True}),
        AVERAGED: lambda: type(machine)(**{**machine.get_params(), "probability": "averaged"}),
    }
    found |= {method: partial(CalibratedClassifierCV, machine, method=method) for method in METHODS}
    return found | {ALONE: partial(CalibratedClassifierCV, machine, method="temperature", ensemble=False)}


def measure(machine: Any, data: base.Data, repetitions: int) -> dict[str, dict[str, float]]:
    """Seconds of each side, and what its probabilities are worth on the test rows."""
    found: dict[str, dict[str, float]] = {}
    for _ in range(repetitions):
        for name, make in sides(machine).items():
            began = time.process_time()
            try:
                model = make().fit(data.X, data.y)
            except ValueError as error:  # a method that this scikit-learn does not have
                print(f"  {name}: {error}")
                continue
            seconds = time.process_time() - began
            known = found.setdefault(name, {"seconds": np.inf} | (quality(model, data) if name != "fit" else {}))
            known["seconds"] = min(known["seconds"], seconds)
    return found


def quality(model: Any, data: base.Data) -> dict[str, float]:
    P = model.predict_proba(data.X_test).astype(np.float64)
    P /= P.sum(axis=1, keepdims=True)  # single precision
    y, P = measures.checked_probabilities(data.y_test, P, model.classes_)
    error = expected_calibration_error(data.y_test, P, classes=model.classes_)
    accuracy = float((model.predict(data.X_test) == data.y_test).mean())
    values = {"log_loss": measures.log_loss(y, P), "ece": error, "brier": measures.brier(y, P), "accuracy": accuracy}
    return values | {"accuracy_by_probability": float((P.argmax(axis=1) == y).mean())}


def calibrate(
    name: str, source: Callable[[int], base.Data], n_splits: int, repetitions: int
) -> tuple[list[list[str]], dict[str, Any]]:
    lines, content = [], {}
    for machine_type in MACHINES:
        machine = machine_type(C=C.get(name, 1.0), random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runs = [measure(machine, source(seed), repetitions if n_splits == 1 else 1) for seed in range(n_splits)]
        mean = {side: {key: float(np.mean([run[side][key] for run in runs])) for key in runs[0][side]} for side in runs[0]}
        content[machine_type.__name__] = {"mean": mean, "runs": runs}
        rivals = [side for side in METHODS if side in mean]
        best = {key: min(mean[side][key] for side in rivals) for key in ("log_loss", "ece", "seconds")}
        for side in ("ours", AVERAGED, *rivals, *([ALONE] if ALONE in mean else [])):
            values = mean[side]
            cells = [f"{values[key]:.4f}" for key in ("log_loss", "ece", "brier")]
            against = [f"{values[key] / best[key]:.2f}" if side in ("ours", AVERAGED) else "" for key in best]
            fits = values["seconds"] / mean["fit"]["seconds"]
            lines.append([name, machine_type.__name__, side, *cells, f"{values['seconds']:.2f}", f"{fits:.2f}", *against])
        print(f"  {name}: {machine_type.__name__} done", flush=True)
    return lines, content


def limits(name: str, source: Callable[[int], base.Data], n_splits: int) -> tuple[list[list[str]], dict[str, Any]]:
    """How much of the log loss is the machine's, whatever its scores are divided by."""
    lines, content = [], {}
    for machine_type in MACHINES:
        found = np.mean([_limits_of_split(machine_type, C.get(name, 1.0), source(seed)) for seed in range(n_splits)], axis=0)
        lines.append([name, machine_type.__name__, *(f"{value:.4f}" for value in found)])
        content[machine_type.__name__] = found.tolist()
    return lines, content


def _limits_of_split(machine_type: Any, C: float, data: base.Data) -> list[float]:
    """Log losses: ours, by the best temperature there is, of five machines averaged, of the mean of their vectors."""
    whole = machine_type(C=C, probability=True, random_state=0).fit(data.X, data.y)
    tested, scores, left_out = whole.decision_function(data.X_test), [], np.zeros((len(data.y), data.n_classes))
    averaged = np.zeros((len(data.y_test), data.n_classes))
    for train, out in StratifiedKFold(5).split(data.X, data.y):
        part = machine_type(C=C, random_state=0).fit(data.X[train], data.y[train])
        left_out[out] = part.decision_function(data.X[out])
        scores.append(part.decision_function(data.X_test))
        averaged += _softmax(scores[-1] * _best_slope(left_out[out], data.y[out])) / 5
    of_means = _softmax(np.mean(scores, axis=0) * _best_slope(left_out, data.y))
    sides = (whole.predict_proba(data.X_test), _softmax(tested * _best_slope(tested, data.y_test)), averaged, of_means)
    return [measures.log_loss(data.y_test, np.asarray(P, dtype=np.float64)) for P in sides]


def _best_slope(scores: Any, y: Any) -> float:
    """One over the temperature that makes these rows likeliest."""
    found = minimize_scalar(
        lambda x: measures.log_loss(y, _softmax(scores * np.exp(x))), bounds=(-5.0, 5.0), method="bounded"
    )
    return float(np.exp(found.x))


def _softmax(Z: Any) -> Any:
    return softmax(np.asarray(Z, dtype=np.float64), axis=1)


def promises(name: str, data: base.Data, n_splits: int = 200) -> tuple[list[str], dict[str, Any]]:
    """How often the risk was within what was promised."""
    machine = CrammerSingerSVC(C=C.get(name, 1.0), probability=True, random_state=0).fit(data.X, data.y)
    wanted, everything = RISKS[name], np.arange(len(data.y_test))
    realised, true = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where nothing can be proven
        for seed in range(n_splits):
            rng = np.random.default_rng(seed)
            order, size = rng.permutation(everything), len(everything) // 3
            realised.append(risk_and_coverage(machine, data, order[:size], order[size:], wanted, seed))
            true.append(risk_and_coverage(machine, data, rng.choice(everything, size), everything, wanted, seed))
    kept, kept_truly = (float(np.mean([risk <= wanted for risk, _ in found])) for found in (realised, true))
    means = np.mean(realised, axis=0)
    error = float((machine.predict(data.X_test) != data.y_test).mean())
    cells = [f"{error:.4f}", f"{wanted:.2f}", f"{means[0]:.4f}", f"{means[1]:.3f}", f"{kept:.3f}", f"{kept_truly:.3f}"]
    content = {"realised": realised, "true": true, "kept": kept, "kept_by_true_risk": kept_truly, "promised": wanted}
    return [name, str(len(everything) // 3), *cells], content


def risk_and_coverage(machine: Any, data: base.Data, held: Any, rest: Any, wanted: float, seed: int) -> tuple[float, float]:
    """Of a threshold by the held-out rows, on the others."""
    option = RejectOption(FrozenEstimator(machine), risk=wanted, random_state=seed)
    labels, accepted = option.fit(data.X_test[held], data.y_test[held]).predict_or_reject(data.X_test[rest])
    wrong = labels != data.y_test[rest]
    return float(wrong[accepted].mean()) if accepted.any() else 0.0, float(accepted.mean())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", nargs="+", metavar="NAME", help=f"only these of {', '.join(SOURCES)}")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help="of times, which take turns")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS[:2])


def main(args: argparse.Namespace) -> None:
    sources = QUICK if args.quick else {name: SOURCES[name] for name in args.data or SOURCES}
    content: dict[str, Any] = {part: {} for part in PARTS}
    if "calibration" in args.parts:
        lines = []
        for name, (source, n_splits) in sources.items():
            more, content["calibration"][name] = calibrate(name, source, n_splits, args.repetitions)
            lines += more
        header = ["data", "machine", "side", "log loss", "ECE", "Brier", "seconds", "fits", "log loss/best", "ECE/best"]
        print(f"\n{aligned([*header, 'seconds/best'], lines)}")
    if "rejection" in args.parts:
        lines = []
        for name, (source, _) in sources.items():
            line, content["rejection"][name] = promises(name, source(0), 20 if args.quick else 200)
            lines.append(line)
        header = ["data", "held out", "error", "risk promised", "mean risk", "mean coverage", "kept", "truly kept"]
        print(f"\n{aligned(header, lines)}")
    if "limits" in args.parts:
        lines = []
        for name, (source, n_splits) in sources.items():
            more, content["limits"][name] = limits(name, source, n_splits)
            lines += more
        header = ["data", "machine", "ours", "best temperature", "five averaged", "mean of five"]
        print(f"\n{aligned(header, lines)}")
    print(f"\nwritten: {results.write_run('calibration', content)}")
