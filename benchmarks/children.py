"""Fresh Python processes, for what can only be measured in one."""

import subprocess
import sys

from .results import ROOT


def start(code: str) -> subprocess.Popen[str]:
    """Run `code` in a new interpreter at the project's root (so that it can import benchmarks)."""
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def last_line(code: str) -> str:
    """Run `code` to its end and return the last line it printed."""
    child = start(code)
    out, _ = child.communicate()
    if child.returncode:
        raise RuntimeError(f"the measured process ended with code {child.returncode}")
    return out.strip().splitlines()[-1]
