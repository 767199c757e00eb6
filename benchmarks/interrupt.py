"""`python -m benchmarks interrupt`: Ctrl-C in the middle of a long fit: how long until Python answers?"""

import argparse
import signal
import subprocess
import time

from . import children, datasets, results

GOAL = 0.2  # seconds
PATIENCE = 60.0  # seconds; a fit that has not answered by then is ended by force


def child(name: str) -> None:
    """Runs in the fresh process: a fit that would take minutes. Both processes read the same system clock."""
    from polymargin import CrammerSingerSVC

    data = datasets.load(name)
    machine = CrammerSingerSVC(C=10.0, fit_intercept=False, tol=1e-13)
    if "max_iter" in machine.get_params():
        machine.set_params(max_iter=1_000_000)
    print("fitting", flush=True)
    try:
        machine.fit(data.X, data.y)
    except KeyboardInterrupt:
        print("interrupted", time.monotonic(), flush=True)
    else:
        print("ended", time.monotonic(), flush=True)


def delay(name: str, after: float) -> float | None:
    """Seconds from the signal to the exception; None if none came (or the fit was over first)."""
    process = children.start(f"from benchmarks.interrupt import child; child({name!r})")
    try:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "fitting":
            raise RuntimeError("the measured process did not start its fit")
        time.sleep(after)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)  # does nothing if the process has ended
        out, _ = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return PATIENCE
    finally:
        process.kill()
    word, _, at = out.strip().partition(" ")
    return float(at) - sent if word == "interrupted" else None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeats", type=int, default=3, help="the slowest counts (default 3)")
    parser.add_argument(
        "--after", type=float, default=1.0, metavar="S", help="seconds of fit before the signal"
    )


def main(args: argparse.Namespace) -> None:
    name, repeats = ("text", 1) if args.quick else ("mnist", args.repeats)
    after = 0.05 if args.quick else args.after
    delays = [delay(name, after) for _ in range(repeats)]
    known = [d for d in delays if d is not None]
    for d in delays:
        answer = "no KeyboardInterrupt" if d is None else f"KeyboardInterrupt {1e3 * d:.1f} ms after SIGINT"
        print(answer)
    word = "no verdict" if not known else "PASS" if max(known) <= GOAL else "FAIL"
    print(f"{word} (goal: at most {1e3 * GOAL:g} ms, the slowest counts)")
    content = {"data": name, "after": after, "delays": delays, "verdict": word}
    print(f"\nwritten: {results.write_run('interrupt', content)}")
