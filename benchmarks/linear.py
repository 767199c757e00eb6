"""`python -m benchmarks linear`: seconds to a given relP, ours against LIBLINEAR, a third of the cases never tuned on."""

import argparse
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from . import datasets, ladder, results, rivals
from .table import aligned, number, short

MUST_REACH = {1e-3: 3.5, 1e-5: 5.0}  # geometric means, times faster than LIBLINEAR
NO_CASE_BELOW = 1.5
HELD_BACK_AT_LEAST = 0.8  # of the mean of the other cases
VARIANTS = {"polymargin-intercept": 1.5, "polymargin-ww": 2.0}  # what they may cost, in seconds of our plain machine

Done = dict[str, list[ladder.Side]]  # by case
Ratios = dict[float, dict[str, float]]  # by target and case


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cases", nargs="+", metavar="CASE", help=f"of {', '.join(datasets.CASES)}")
    parser.add_argument(
        "--rivals",
        nargs="+",
        metavar="RIVAL",
        choices=tuple(rivals.ALL),
        default=[rivals.OURS, rivals.LIBLINEAR],
        help=f"of {', '.join(rivals.ALL)}",
    )
    parser.add_argument("--targets", nargs="+", type=float, default=[1e-3, 1e-5, 1e-6], metavar="RELP")
    parser.add_argument("--repeats", type=int, default=3, help="best of so many (default 3)")
    parser.add_argument(
        "--cap",
        type=float,
        default=60.0,
        metavar="S",
        help="a side's ladder ends after a run longer than this (default 60 s)",
    )
    parser.add_argument(
        "--clock",
        choices=tuple(ladder.CLOCKS),
        default="wall",
        help="cpu: for a machine others are using too",
    )


def pick_cases(names: Sequence[str] | None, quick: bool) -> list[datasets.Case]:
    pool = datasets.QUICK if quick else datasets.CASES
    if not names:
        return list(pool.values())
    picked = [c for c in pool.values() if c.key in names or c.data in names]
    unknown = [n for n in names if not any(n in (c.key, c.data) for c in pool.values())]
    if unknown:
        raise SystemExit(f"--cases {' '.join(unknown)}: not among {', '.join(pool)}")
    return picked


def pick_rivals(names: Sequence[str]) -> list[rivals.Rival]:
    """Those that are installed. Ours must be, even when it is not named: it gives the dual values."""
    if not rivals.ALL[rivals.OURS].installed():
        raise SystemExit("polymargin cannot be imported: install it first (pip install -e .)")
    for name in names:
        if not rivals.ALL[name].installed():
            print(f"{name}: not installed, left out")
    return [rivals.ALL[name] for name in names if rivals.ALL[name].installed()]


def references() -> dict[str, rivals.Rival]:
    """Best known duals come from our own float64 machines: no rival states any."""
    found = (r for name, r in rivals.ALL.items() if r.claims and not name.endswith("-f32"))
    return {r.problem: r for r in found if r.problem}


def seconds_at(side: ladder.Side, target: float) -> tuple[float, str]:
    """Seconds and how to print them; a capped side's are a lower bound, never reached is infinite."""
    run = side.first(target)
    if run is not None:
        return run.seconds, number(run.seconds)
    if side.capped:
        return side.runs[-1].seconds, ">" + number(side.runs[-1].seconds)
    return math.inf, "never"


def ratio_of(ours: ladder.Side, theirs: ladder.Side, target: float) -> float:
    """Times faster (a lower bound where they were capped).

    0 where we did not get there, nan where they never would have: the means and the verdict then show it.
    """
    run, seconds = ours.first(target), seconds_at(theirs, target)[0]
    if run is None:
        return 0.0
    return seconds / run.seconds if math.isfinite(seconds) else math.nan


def geometric_mean(values: Sequence[float]) -> float:
    return 0.0 if 0.0 in values else math.exp(sum(map(math.log, values)) / len(values))


def lowest(values: Sequence[float]) -> float:
    """The minimum, and nan if there is one (min itself might pass over it)."""
    return math.nan if any(map(math.isnan, values)) else min(values)


def by_name(sides: Sequence[ladder.Side]) -> dict[str, ladder.Side]:
    return {s.rival.name: s for s in sides}


def is_held_back(label: str) -> bool:
    return label.rstrip("*") in datasets.HELD_BACK


def groups(ratios: dict[str, float]) -> dict[str, list[float]]:
    """The ratios of the cases that may be tuned on, of those that never are, and of all."""
    held = [ratio for label, ratio in ratios.items() if is_held_back(label)]
    open_ones = [ratio for label, ratio in ratios.items() if not is_held_back(label)]
    found = {"tuned on": open_ones, "held back": held, "all": [*open_ones, *held]}
    return {name: values for name, values in found.items() if values}


def ratio_table(done: Done, targets: Sequence[float]) -> tuple[str, Ratios]:
    """The table of ratios, and the ratios by target; cases that are never tuned on come last and have a mark."""
    header = ["case"] + [h for t in targets for h in (f"{short(t)}: ours", "liblinear", "ratio")]
    ratios: Ratios = {t: {} for t in targets}
    rows = []
    for label, sides in sorted(done.items(), key=lambda case: is_held_back(case[0])):
        ours, theirs = (by_name(sides)[name] for name in (rivals.OURS, rivals.LIBLINEAR))
        row = [f"{label} (held back)" if is_held_back(label) else label]
        for t in targets:
            ratios[t][label] = ratio_of(ours, theirs, t)
            mark = ">" if theirs.first(t) is None and theirs.capped else ""
            row += [seconds_at(ours, t)[1], seconds_at(theirs, t)[1], f"{mark}{ratios[t][label]:.2f}"]
        rows.append(row)
    for group in groups(ratios[targets[0]]):
        for word, summary in (("geometric mean", geometric_mean), ("minimum", lowest)):
            found = (summary(groups(ratios[t])[group]) for t in targets)
            rows.append([f"{word}, {group}"] + [cell for ratio in found for cell in ("", "", f"{ratio:.2f}")])
    return aligned(header, rows), ratios


def variant_lines(done: Done, targets: Sequence[float]) -> list[str]:
    """What an intercept and the sum over rivals cost, in times of our plain machine at the same target."""
    lines = []
    for name, most in VARIANTS.items():
        for t in targets:
            pairs = [(by_name(sides).get(rivals.OURS), by_name(sides).get(name)) for sides in done.values()]
            runs = [(a.first(t), b.first(t)) for a, b in pairs if a is not None and b is not None]
            costs = [b.seconds / a.seconds for a, b in runs if a is not None and b is not None]
            if costs:
                shown = f"mean {geometric_mean(costs):.2f}, most {max(costs):.2f}, {len(costs)} cases (at most {most:g})"
                lines.append(f"{name} at {short(t)}: {shown}")
    return lines


def rival_table(done: Done, targets: Sequence[float]) -> str:
    """Every side's seconds, its nearest relP and its test accuracy at the last run."""
    header = ["case", "rival"] + [f"s to {short(t)}" for t in targets] + ["last tol", "s", "relP", "accuracy"]
    rows = []
    for label, sides in done.items():
        for side in sides:
            run = side.runs[-1]
            other = side.dual is None  # another problem: no relP
            cells = ["" if other else seconds_at(side, t)[1] for t in targets]
            relP = "" if other else f"{run.relP:.1e}"
            last = [f"{run.tol:g}", number(run.seconds), relP, f"{run.accuracy:.4f}"]
            rows.append([label, side.rival.name, *cells, *last])
    return aligned(header, rows, left=2)


def verdict(ratios: Ratios, stand_ins: bool) -> str:
    """PASS or FAIL against the contract, which speaks of all real cases and of no others."""
    parts, passed = [], True
    for target, least in MUST_REACH.items():
        if target not in ratios:
            return f"no verdict: target {short(target)} was not measured"
        by_group = {name: geometric_mean(values) for name, values in groups(ratios[target]).items()}
        mean, least_case = by_group["all"], lowest(list(ratios[target].values()))
        passed &= mean >= least and least_case >= NO_CASE_BELOW
        shown = f"mean {mean:.2f} (>= {least:g}), minimum {least_case:.2f} (>= {NO_CASE_BELOW:g})"
        if {"tuned on", "held back"} <= by_group.keys():
            share = by_group["held back"] / by_group["tuned on"]
            passed &= share >= HELD_BACK_AT_LEAST
            shown += f", held back {share:.2f} of the others (>= {HELD_BACK_AT_LEAST:g})"
        parts.append(f"at {short(target)} {shown}")
    text = f"{'PASS' if passed else 'FAIL'}: {'; '.join(parts)}"
    count = len(next(iter(ratios.values())))
    if stand_ins:
        return f"no verdict, stand-ins (*) were used; by the same rule: {text}"
    whole = len(datasets.CASES)
    return text if count == whole else f"{text} [only {count} of the {whole} cases]"


def as_json(case: datasets.Case, data: datasets.Data, sides: list[ladder.Side], targets: list[float]) -> dict[str, Any]:
    return {
        "data": data.name,
        "C": case.C,
        "shape": data.describe(),
        "stand_in": data.stand_in,
        "held_back": case.key in datasets.HELD_BACK,
        "digest": data.digest,
        "rivals": {
            s.rival.name: {
                "problem": s.rival.problem,
                "best_known_dual": s.dual,
                "capped": s.capped,
                "seconds": {short(t): run.seconds for t in targets if (run := s.first(t))},
                "runs": [asdict(run) for run in s.runs],
            }
            for s in sides
        },
    }


def measure_all(args: argparse.Namespace, targets: list[float], content: dict[str, Any], stamp: str) -> Done:
    """Every case in turn; the file is written after each, so that a long run broken off is not lost."""
    done: Done = {}
    picked, clock = pick_rivals(args.rivals), ladder.CLOCKS[args.clock]
    for case in pick_cases(args.cases, args.quick):
        data = datasets.load(case.data)
        label = case.key + ("*" if data.stand_in else "")
        print(f"{label}: {data.describe()}", flush=True)
        done[label] = ladder.measure(case, data, picked, references(), targets, args.repeats, args.cap, clock)
        content["cases"][case.key] = as_json(case, data, done[label], targets)
        results.write_run("linear", content, stamp)
    return done


def main(args: argparse.Namespace) -> None:
    """Measure, print the tables, write the JSON."""
    targets = sorted(args.targets, reverse=True)
    content: dict[str, Any] = {
        "targets": targets,
        "repeats": args.repeats,
        "cap": args.cap,
        "clock": args.clock,
        "cases": {},
    }
    stamp = results.now()
    print(results.machine())
    done = measure_all(args, targets, content, stamp)
    print(f"\nSeconds ({args.clock}) of a whole fit, best of {args.repeats}\n{rival_table(done, targets)}")
    content["variants"] = variant_lines(done, targets)
    for line in content["variants"]:
        print(line)
    if {rivals.OURS, rivals.LIBLINEAR} <= set(args.rivals):
        text, ratios = ratio_table(done, targets)
        stand_ins = any(label.endswith("*") for label in done)
        content["ratios"] = {short(t): values for t, values in ratios.items()}
        content["verdict"] = verdict(ratios, stand_ins)
        print(f"\nSeconds to relP, and times faster than LIBLINEAR\n{text}\n\n{content['verdict']}")
        if stand_ins:
            print("* stand-in: made from a seed or taken from scikit-learn, NOT the data set of that name")
    print(results.machine())
    print(f"\nwritten: {results.write_run('linear', content, stamp)}")
