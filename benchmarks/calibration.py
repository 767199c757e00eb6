"""`python -m benchmarks calibration`: probabilities against CalibratedClassifierCV, and promises of RejectOption.

Both sides calibrate the same machine, CrammerSingerSVC or WestonWatkinsSVC, with the same C: ours by ``probability=True``,
scikit-learn's by five folds with each of its methods. Log loss, expected calibration error (15 bins) and Brier score are of
the test rows. Seconds are of the processor, the sides take turns, and the least of some repetitions counts; "fits" are
multiples of the time of a fit without probabilities. Data without a split of its own (digits) is split at random several
times.

`--splits 6` draws so many random splits of the others, too, instead of their own, whose test rows may be from another time:
what training rows tell about probabilities does not hold for them then. "+-" is the standard error of the mean ECE, "ECE -
best" is the mean difference to the rival of least ECE with its standard error, split by split. "ECE if right" is what would
be expected on so many rows of probabilities without any error; "over-confidence" is the mean probability of the most
probable class less the share of rows where it is right.

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
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedKFold

from polymargin import CrammerSingerSVC, RejectOption, WestonWatkinsSVC
from polymargin.calibration import measures
from polymargin.metrics import expected_calibration_error

from . import results
from .datasets import base, judged
from .table import aligned

MACHINES = (CrammerSingerSVC, WestonWatkinsSVC)
METHODS = ("sigmoid", "isotonic", "temperature")  # the last one since scikit-learn 1.8
AVERAGED = "ours, averaged"
ALONE = "temperature, one machine"  # ensemble=False, as ours: the others average five machines
C = {"mnist": 0.1}
REPETITIONS = 3  # of times; with several splits one each
PARTS = ("calibration", "rejection", "limits")
HEADER = ["data", "machine", "side", "log loss", "ECE", "+-", "ECE if right", "over-confidence", "Brier", "seconds", "fits"]
HEADER += ["log loss/best", "ECE/best", "seconds/best", "ECE - best"]
DRAWS = 20  # of what happens, if probabilities are right
RISKS = {"digits": 0.03, "banking77": 0.05, "letter": 0.15, "mnist": 0.05, "news20": 0.10, "blobs": 0.10}


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
    by_probability = float((P.argmax(axis=1) == y).mean())
    values |= {"accuracy_by_probability": by_probability, "over_confidence": float(P.max(axis=1).mean()) - by_probability}
    return values | {"ece_if_right": ece_if_right(P)}


def ece_if_right(P: Any) -> float:
    """Mean ECE of classes drawn from these probabilities: what so many rows leave of it without any error in them."""
    rng, most_probable, other = np.random.default_rng(0), P.argmax(axis=1), P.argmin(axis=1)
    right = rng.random((DRAWS, len(P))) < P.max(axis=1)
    happened = np.where(right, most_probable, other)
    return float(np.mean([expected_calibration_error(y, P, classes=np.arange(P.shape[1])) for y in happened]))


def calibrate(name: str, splits: judged.Splits, repetitions: int) -> tuple[list[list[str]], dict[str, Any]]:
    lines, content = [], {}
    for machine_type in MACHINES:
        machine = machine_type(C=C.get(name, 1.0), random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runs = [measure(machine, splits.of(seed), repetitions) for seed in range(splits.n)]
        content[machine_type.__name__] = runs
        lines += [[name, machine_type.__name__, *cells] for cells in compared(runs)]
        print(f"  {name}: {machine_type.__name__} done", flush=True)
    return lines, content


def compared(runs: list[dict[str, dict[str, float]]]) -> list[list[str]]:
    """Of each side the cells of `HEADER`: means over the splits, and what they are beside the best of the rivals."""
    mean = {side: {key: float(np.mean([run[side][key] for run in runs])) for key in runs[0][side]} for side in runs[0]}
    rivals = [side for side in METHODS if side in mean]
    best = {key: min(mean[side][key] for side in rivals) for key in ("log_loss", "ece", "seconds")}
    steadiest = min(rivals, key=lambda side: mean[side]["ece"])
    lines = []
    for side in ("ours", AVERAGED, *rivals, *([ALONE] if ALONE in mean else [])):
        values, is_ours = mean[side], side in ("ours", AVERAGED)
        errors = np.array([run[side]["ece"] for run in runs])
        ahead = errors - [run[steadiest]["ece"] for run in runs]
        cells = [f"{values['log_loss']:.4f}", f"{values['ece']:.4f}", _standard_error(errors)]
        cells += [f"{values['ece_if_right']:.4f}", f"{values['over_confidence']:+.4f}", f"{values['brier']:.4f}"]
        cells += [f"{values['seconds']:.2f}", f"{values['seconds'] / mean['fit']['seconds']:.2f}"]
        cells += [f"{values[key] / best[key]:.2f}" if is_ours else "" for key in best]
        lines.append([side, *cells, f"{ahead.mean():+.4f} {_standard_error(ahead)}" if is_ours else ""])
    return lines


def _standard_error(values: Any) -> str:
    """Of the mean."""
    return "" if len(values) < 2 else f"+-{np.std(values, ddof=1) / np.sqrt(len(values)):.4f}"


def limits(name: str, splits: judged.Splits) -> tuple[list[list[str]], dict[str, Any]]:
    """How much of the log loss is the machine's, whatever its scores are divided by."""
    lines, content = [], {}
    for machine_type in MACHINES:
        of_splits = [_limits_of_split(machine_type, C.get(name, 1.0), splits.of(seed)) for seed in range(splits.n)]
        found = np.mean(of_splits, axis=0)
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
    parser.add_argument("--data", nargs="+", metavar="NAME", help=f"only these of {', '.join(judged.NAMES)}")
    parser.add_argument("--repetitions", type=int, help=f"of times, which take turns ({REPETITIONS}, of many splits 1)")
    parser.add_argument("--splits", type=int, default=0, help="so many random splits instead of the data's own")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS[:2])


def main(args: argparse.Namespace) -> None:
    sources = judged.QUICK if args.quick else {name: judged.splits(name, args.splits) for name in args.data or judged.NAMES}
    content: dict[str, Any] = {part: {} for part in PARTS}
    if "calibration" in args.parts:
        lines = []
        for name, splits in sources.items():
            repetitions = args.repetitions or (REPETITIONS if splits.n == 1 else 1)
            more, content["calibration"][name] = calibrate(name, splits, repetitions)
            lines += more
        print(f"\n{aligned(HEADER, lines)}")
    if "rejection" in args.parts:
        lines = []
        for name, splits in sources.items():
            line, content["rejection"][name] = promises(name, splits.of(0), 20 if args.quick else 200)
            lines.append(line)
        header = ["data", "held out", "error", "risk promised", "mean risk", "mean coverage", "kept", "truly kept"]
        print(f"\n{aligned(header, lines)}")
    if "limits" in args.parts:
        lines = []
        for name, splits in sources.items():
            more, content["limits"][name] = limits(name, splits)
            lines += more
        header = ["data", "machine", "ours", "best temperature", "five averaged", "mean of five"]
        print(f"\n{aligned(header, lines)}")
    print(f"\nwritten: {results.write_run('calibration', content)}")
