"""Worker processes that Ctrl-C does not reach: the command itself ends them, without their tracebacks on the terminal."""

from __future__ import annotations

import os
import signal
from typing import Any


def shield_workers() -> None:
    """From now on joblib's processes are started with Ctrl-C blocked from their first instruction on.

    A terminal sends it to them too, and while they are still importing each would print a traceback. A signal mask is
    inherited, and it is set for the moment of the start only. joblib has no door for this: where its inside has changed,
    nothing is done.
    """
    try:
        from joblib.externals.loky.backend import fork_exec as launcher

        start = launcher.fork_exec
    except (ImportError, AttributeError):  # Windows, or another joblib
        return
    if getattr(start, "shielded", False):
        return

    def shielded(*args: Any, **kwargs: Any) -> Any:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return start(*args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    shielded.shielded = True  # type: ignore[attr-defined]
    launcher.fork_exec = shielded
    # what an interrupted start leaves behind is cleaned up by joblib's tracker, which need not tell
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, (os.environ.get("PYTHONWARNINGS"), "ignore:resource_tracker")))
