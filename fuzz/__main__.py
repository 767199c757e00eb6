"""`python -m fuzz [machines|readers] [--seconds N | --cases N] [--seed S] [--jobs J] [--machine NAME]`, or `--case SEED`."""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import signal
import sys
from collections.abc import Iterator

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

_A_SIGN_OF_LIFE = 1000  # cases


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.case is not None:
        return show(options.case, options.keep)
    kinds = [options.kind] if options.kind else [kind for kind in ("machines", "readers") if _has(kind)]
    seconds = options.seconds
    if seconds is None and options.cases is None:
        seconds = 60.0
    share = None if seconds is None else seconds / len(kinds)
    return max(_run(kind, share, options) for kind in kinds)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Random cases against the promises of polymargin.")
    parser.add_argument("kind", nargs="?", choices=["machines", "readers"], help="default: all kinds, one after the other")
    parser.add_argument("--seconds", type=float, help="stop after this time (60 if --cases is not given either)")
    parser.add_argument("--cases", type=int, help="stop after so many cases")
    parser.add_argument("--seed", type=int, help="number of the first case; default: at random")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--machine", help="cases of this estimator only")
    parser.add_argument("--case", type=int, help="run this one case and show it")
    parser.add_argument("--keep", action="store_true", help="with --case: store it in the corpus if it fails")
    return parser


def _has(kind: str) -> bool:
    return importlib.util.find_spec(f"fuzz.{kind}") is not None


def _run(kind: str, seconds: float | None, options: argparse.Namespace) -> int:
    if kind == "readers":
        readers = importlib.import_module("fuzz.readers")
        return int(readers.run(60.0 if seconds is None else seconds))
    return run_machines(seconds, options.cases, options.seed, options.jobs, options.machine)


def run_machines(seconds: float | None, cases: int | None, seed: int | None, jobs: int, machine: str | None) -> int:
    """Runs cases and prints what broke; 1 if something did."""
    from fuzz.runner import Tally, outcomes

    first = int.from_bytes(os.urandom(4), "little") if seed is None else seed
    print(f"machines: cases from {first}", flush=True)
    tally = Tally()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which shells make a command in the background ignore
    try:
        for outcome in outcomes(itertools.islice(_seeds(first, machine), cases), seconds, jobs):
            tally.add(outcome)
            if outcome.kind not in ("fine", "refused"):
                print(f"python -m fuzz machines --case {outcome.seed}  # {outcome.machine}, {outcome.kind}", flush=True)
                for invariant, detail in outcome.failures:
                    print(f"    {invariant}: {detail[:400]}", flush=True)
            if (done := tally.kinds.total()) % _A_SIGN_OF_LIFE == 0:
                print(f"{done} cases", flush=True)
    except KeyboardInterrupt:
        print("interrupted; so far:")
    print("\n".join(tally.lines()))
    print("\n".join(f"{count:5d}  refused: {text}" for text, count in tally.refusals.most_common(40)))
    return int(tally.failed > 0)


def _seeds(first: int, machine: str | None) -> Iterator[int]:
    from fuzz.machines import MACHINES, draw

    if machine is not None and machine not in MACHINES:
        raise SystemExit(f"--machine {machine} is not known; choose one of {', '.join(MACHINES)}.")
    return (seed for seed in itertools.count(first) if machine is None or draw(seed)["machine"] == machine)


def show(seed: int, keep_it: bool = False) -> int:
    """One case, in this process: its recipe, what the fit said and what is wrong."""
    from fuzz.corpus import keep
    from fuzz.invariants import judge
    from fuzz.machines import build, draw

    recipe = draw(seed)
    print(json.dumps(recipe))
    failures, trial = judge(build(recipe))
    if trial.error is None:
        print({name: value for name, value in vars(trial.certificate).items() if name != "history"})
        print(f"F of the arrays: {trial.F}")
    else:
        print(f"raised {type(trial.error).__name__}: {trial.error}")
    for text in dict.fromkeys(f"warned {warning.category.__name__}: {warning.message}" for warning in trial.caught):
        print(text)
    for failure in failures:
        print(f"BROKEN {failure.invariant}: {failure.detail}")
    if failures and keep_it:
        found = ", ".join(dict.fromkeys(failure.invariant for failure in failures))
        print(f"stored in {keep(recipe, found)}")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
