"""`python -m benchmarks many`: thousands of classes and labels: precision, seconds, memory and size beside other libraries.

Every side fits in a process of its own; seconds are those of the processor, one thread, the fit alone (omikuji reads its
rows from a file, which is part of it). Memory is the peak during the fit beyond what the process held before it, rows
included only for those that copy them. With `--repeats` sides take turns, and the quickest fit of each counts. Results are
kept in `results/many.json`, side by side: a second run adds to it.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from .. import children, results
from ..memory import status
from ..table import aligned, number
from . import cases, shortlists
from .picture import draw
from .sides import SIDES, K

PLACES = (1, 3, 5)
OURS = ["flat", "tree"]


def child(case: str, side: str) -> None:
    """Runs in the fresh process: prints what was measured as JSON."""
    import warnings

    from polymargin.metrics import label_propensities, ndcg_at_k, precision_at_k, propensity_scored_precision_at_k

    warnings.simplefilter("ignore")
    split = cases.load(case)
    SIDES[side](cases.zipf(9))  # what is imported on first use is not the fit's
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    start = time.process_time()
    fitted = SIDES[side](split)
    seconds, extra = time.process_time() - start, status("VmHWM") - before
    start = time.process_time()
    top = fitted.top(split.X_test)
    spent = time.process_time() - start
    Y, trained = split.label_matrix(split.y_test), split.label_matrix(split.y)
    measured = {f"P@{k}": precision_at_k(Y, top, k) for k in PLACES} | {"nDCG@5": ndcg_at_k(Y, top, K)}
    measured["PSP@5"] = propensity_scored_precision_at_k(Y, top, label_propensities(trained), K)
    right = "".join("01"[int(Y[i, label])] for i, label in enumerate(top[:, 0]))  # the best label, row by row
    about = {"rows": split.X.shape[0], "columns": split.X.shape[1], "labels": len(set(trained.indices.tolist()))}
    costs = {"seconds": seconds, "seconds_predict": spent, "extra": extra, "size": fitted.size()}
    print(json.dumps({**about, **measured, "right": right, **costs, **fitted.notes}))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cases", nargs="+", choices=cases.NAMES, default=list(cases.NAMES))
    parser.add_argument("--sides", nargs="+", choices=tuple(SIDES), default=list(SIDES))
    parser.add_argument("--repeats", type=int, default=1, help="fits of each side; the quickest counts (default 1)")
    parser.add_argument("--show", action="store_true", help="show what has been measured, and run nothing")
    parser.add_argument("--shortlist", action="store_true", help="how many scores bounds could spare, and no more")
    parser.add_argument("--picture", metavar="PNG", help="draw how seconds and memory grow with the classes")


def main(args: argparse.Namespace) -> None:
    if args.shortlist:
        return shortlists.show(list(args.cases))
    kept: dict[str, Any] = results.read("many")
    names = cases.QUICK if args.quick else args.cases
    sides = OURS if args.quick else args.sides
    for case in () if args.show else names:
        for side, measured in quickest(case, sides, args.repeats).items():
            kept = results.read("many")  # another run may have added to it
            kept.setdefault(case, {})[side] = {**measured, "load": results.environment()["load"]}
            results.write("many", kept)
    header = ["case", "side", *(f"P@{k}" for k in PLACES), "seconds", "predict", "peak MB", "model MB"]
    rows = [cells(case, side, kept[case][side]) for case in names if case in kept for side in SIDES if side in kept[case]]
    print(f"\n{results.processor()}, one thread\n{aligned(header, rows, left=2)}")
    for case in names:
        print_differences(case, kept.get(case, {}))
    if args.picture and draw(kept, Path(args.picture)):
        print(f"\npicture: {args.picture}")


def print_differences(case: str, sides: dict[str, Any]) -> None:
    """P@1 of ours less that of the others on the same test rows, with its standard error."""
    right = {side: np.array(list(m["right"]), dtype=float) for side, m in sides.items() if "right" in m}
    for ours in OURS:
        for other in right if ours in right else ():
            if other in OURS:
                continue
            less = 100 * (right[ours] - right[other])
            error = less.std() / np.sqrt(len(less))
            print(f"{case}: P@1 of {ours} less that of {other}: {less.mean():+.2f} ± {error:.2f}")


def quickest(case: str, sides: list[str], repeats: int) -> dict[str, dict[str, Any]]:
    """What was measured of each side in its quickest fit; who fails says why, and is left out."""
    found: dict[str, dict[str, Any]] = {}
    for side in sides * repeats:
        try:
            measured = json.loads(children.last_line(f"from benchmarks.many import child; child({case!r}, {side!r})"))
        except RuntimeError as error:
            print(f"{case}, {side}: {error}", flush=True)
            continue
        print(line(case, side, measured), flush=True)
        found[side] = min(found.get(side, measured), measured, key=lambda one: one["seconds"])
    return found


def cells(case: str, side: str, m: dict[str, Any]) -> list[str]:
    costs = [number(m["seconds"]), number(m["seconds_predict"]), f"{m['extra'] / 1e6:.0f}", f"{m['size'] / 1e6:.1f}"]
    return [case, side, *(f"{100 * m[f'P@{k}']:.1f}" for k in PLACES), *costs]


def line(case: str, side: str, m: dict[str, Any]) -> str:
    return "  ".join(cells(case, side, m))
