"""`python -m benchmarks growth`: doubling series in rows, stored entries a row, and classes."""

import argparse
import time
from dataclasses import dataclass

import numpy as np

from . import results, rivals
from .datasets.base import Data, text
from .table import aligned, number

TOL, C = 1e-3, 1.0


@dataclass(frozen=True)
class Size:
    """One member of a series; rows are those fitted."""

    n: int = 8_000
    d: int = 20_000
    c: int = 20
    words: int = 50

    def data(self) -> Data:
        return text("growth", (5 * self.n) // 4, self.d, self.c, words=self.words)


def series(steps: int) -> dict[str, list[tuple[float, Size]]]:
    """What grows, and for each size the number it is plotted against."""
    two = [2**k for k in range(steps)]
    return {
        "rows": [(1_000 * f, Size(n=1_000 * f)) for f in two],
        "entries a row": [(12 * f, Size(d=5_000 * f, words=12 * f)) for f in two],
        "classes": [(5 * f, Size(c=5 * f)) for f in two],
    }


def time_fit(size: Size, repeats: int) -> dict[str, float]:
    ours, data = rivals.ALL[rivals.OURS], size.data()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        model = ours.fit(data.X, data.y, C, TOL)
        times.append(time.perf_counter() - start)
    return {"seconds": min(times), "stored": data.X.nnz, "iterations": int(model.certificate_.n_iter)}


def exponent(x: list[float], seconds: list[float]) -> float:
    """Slope in the log-log plot over the upper half of the series: 1 is linear. Small sizes are overhead."""
    half = len(x) // 2
    return float(np.polyfit(np.log(x[half:]), np.log(seconds[half:]), 1)[0])


def plot(record: dict[str, list[dict[str, float]]]) -> str | None:
    """One panel a series with the linear slope drawn in; None without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(4 * len(record), 3.6), layout="constrained")
    for axis, (name, points) in zip(figure.subplots(1, len(record)), record.items(), strict=True):
        x, seconds = np.array([p["x"] for p in points]), np.array([p["seconds"] for p in points])
        axis.loglog(x, seconds, "o-", label="CrammerSingerSVC")
        axis.loglog(x, seconds[-1] * x / x[-1], "k:", label="linear")
        axis.set(xlabel=name, ylabel="seconds")
        axis.set_xticks(x, labels=[str(v) for v in x])
        axis.tick_params(axis="x", rotation=45)
        axis.minorticks_off()
        axis.legend()
    results.DIRECTORY.mkdir(exist_ok=True)
    path = results.DIRECTORY / "growth.png"
    figure.savefig(path, dpi=150)
    return str(path.relative_to(results.ROOT))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeats", type=int, default=3, help="best of so many (default 3)")
    parser.add_argument(
        "--steps", type=int, default=7, help="sizes in a series, each twice the last (default 7)"
    )


def main(args: argparse.Namespace) -> None:
    steps, repeats = (4, 1) if args.quick else (args.steps, args.repeats)
    record: dict[str, list[dict[str, float]]] = {}
    rows = []
    for name, sizes in series(steps).items():
        record[name] = points = [{"x": x, **time_fit(size, repeats)} for x, size in sizes]
        for i, p in enumerate(points):
            doubling = f"{p['seconds'] / points[i - 1]['seconds']:.2f}" if i else ""
            rows.append(
                [name, str(p["x"]), str(p["stored"]), number(p["seconds"]), doubling, str(p["iterations"])]
            )
    print(f"CrammerSingerSVC on synthetic text, C = {C:g}, tol = {TOL:g}, best of {repeats}")
    print(aligned(["series", "x", "stored entries", "seconds", "x last", "iterations"], rows))
    slopes = {n: exponent([p["x"] for p in ps], [p["seconds"] for p in ps]) for n, ps in record.items()}
    print("\nexponent over the upper half (1 = linear; goal: at most linear in entries and in classes)")
    for name, slope in slopes.items():
        print(f"  {name:15s} {slope:.2f}")
    picture = plot(record)
    print(f"\npicture: {picture or 'none, matplotlib is not installed'}")
    content = {"tol": TOL, "C": C, "series": record, "exponents": slopes}
    print(f"written: {results.write_run('growth', content)}")
