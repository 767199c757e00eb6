"""`python -m benchmarks recommend`: what compare recommends on several data sets, and how often repeated runs agree."""

import argparse
from collections import Counter

from polymargin import compare_machines
from polymargin.datasets import load

from . import results
from .table import aligned


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", nargs="+", default=["glass", "vehicle", "satimage", "usps"], help="data sets by name")
    parser.add_argument("--runs", type=int, default=3, help="runs with other folds (default 3)")
    parser.add_argument("--budget", type=float, default=120.0, help="seconds for one run (default 120)")
    parser.add_argument("--jobs", type=int, default=-1, help="processes")


def main(args: argparse.Namespace) -> None:
    names = ["iris"] if args.quick else args.data
    n_runs, budget = (2, 5.0) if args.quick else (args.runs, args.budget)
    rows, record = [], []
    for name in names:
        data = load(name)
        settings = {"budget": budget, "n_jobs": args.jobs}
        runs = [compare_machines(data.X, data.y, random_state=seed, **settings) for seed in range(n_runs)]
        print(f"\n{name}\n{runs[0]}", flush=True)
        winners = Counter(run.winner for run in runs)
        winner, times = winners.most_common(1)[0]
        within = sum(winner == run.winner or winner in run.ties for run in runs)
        rows.append([name, winner, f"{times} of {n_runs}", f"{within} of {n_runs}", ", ".join(winners)])
        record.append({"data": name, "winners": dict(winners), "runs": [run.to_dict() for run in runs]})
    print()
    print(aligned(["data", "most often recommended", "recommended", "recommended or not told apart", "all winners"], rows))
    print(f"\nwritten: {results.write_run('recommend', {'data': record})}")
