"""`python -m benchmarks memory`: peak memory of a dense float32 fit beyond its data, in its own process."""

import argparse
import json
import re
from pathlib import Path

import numpy as np

from . import children, results

GOAL = 0.2  # times the data, beyond data, W and duals


def status(field: str) -> int:
    """A field of /proc/self/status, in bytes (ru_maxrss would not do: a child inherits its parent's peak)."""
    text = Path("/proc/self/status").read_text()
    [kilobytes] = re.findall(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)
    return 1024 * int(kilobytes)


def make_in_place(n: int, d: int, c: int) -> tuple[np.ndarray, np.ndarray]:
    """Blobs in float32, filled piece by piece: making them must not set the peak the fit is judged by."""
    rng = np.random.default_rng(0)
    y = rng.integers(c, size=n)
    centres = rng.random((c, d), dtype=np.float32)
    X = np.empty((n, d), dtype=np.float32)
    for start in range(0, n, 4096):
        part = X[start : start + 4096]
        rng.random(part.shape, dtype=np.float32, out=part)
        part += centres[y[start : start + 4096]]
    return X, y


def child(n: int, d: int, c: int) -> None:
    """Runs in the fresh process: print the sizes as JSON."""
    from polymargin import CrammerSingerSVC

    X, y = make_in_place(n, d, c)
    # What is imported on first use is not the fit's.
    CrammerSingerSVC(C=1e-3, fit_intercept=False, tol=1e-2).fit(X[:1000], y[:1000])
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # 5: the peak starts again from here
    model = CrammerSingerSVC(C=1e-3, fit_intercept=False, tol=1e-2).fit(X, y)
    extra = status("VmHWM") - before
    sizes = {"extra": extra, "X": X.nbytes, "W": model.class_vectors_.nbytes, "dense_duals": 8 * n * c}
    print(json.dumps(sizes))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--classes", type=int, default=10)


def main(args: argparse.Namespace) -> None:
    n, d, c = (50_000, 100, 10) if args.quick else (args.rows, args.features, args.classes)
    if not Path("/proc/self/clear_refs").exists():
        raise SystemExit("memory: needs Linux's /proc")
    m = json.loads(children.last_line(f"from benchmarks.memory import child; child({n}, {d}, {c})"))
    ratio = m["extra"] / m["X"]
    without = (m["extra"] - m["W"] - m["dense_duals"]) / m["X"]
    print(f"dense float32 {n} x {d}, {c} classes: {m['X'] / 1e6:.1f} MB of data")
    print(f"peak beyond it during fit                 {m['extra'] / 1e6:8.1f} MB = {ratio:.3f} x the data")
    print(f"less W and a dense float64 dual           {'':8s}      {without:.3f} x the data")
    word = (
        "PASS with the duals" if ratio <= GOAL else "PASS beyond W and duals" if without <= GOAL else "FAIL"
    )
    print(f"{word} (goal: at most {GOAL:g} x the data beyond data, W and duals)")
    content = {"shape": [n, d, c], **m, "ratio": ratio, "ratio_beyond_duals": without, "verdict": word}
    print(f"\nwritten: {results.write_run('memory', content)}")
