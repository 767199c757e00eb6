"""Where numbers go: `benchmarks/results/*.json`, which git ignores."""

import json
import os
import platform
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DIRECTORY = Path(__file__).resolve().parent / "results"
PACKAGES = ("polymargin", "scikit-learn", "numpy", "scipy", "liblinear-official", "libpecos")


def environment() -> dict[str, Any]:
    """What another reader needs to judge the seconds."""
    versions: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    threads = {k: v for k, v in os.environ.items() if k.endswith("_NUM_THREADS")}
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "processor": processor(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg() if hasattr(os, "getloadavg") else None,  # of the last minutes, this run included
        "versions": versions,
        "threads": threads,
    }


def processor() -> str:
    """The name of this processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def machine() -> str:
    """A line for the tables: the processor and how busy it has been."""
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return f"{processor()}, {os.cpu_count()} processors, load of the last minute {load} (this run included)"


def read(name: str) -> dict[str, Any]:
    """The JSON file `name`, or {} where there is none yet."""
    path = DIRECTORY / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def write(name: str, content: dict[str, Any]) -> Path:
    """Write through a second file, so that an interrupted run leaves the old one whole."""
    DIRECTORY.mkdir(exist_ok=True)
    path = DIRECTORY / f"{name}.json"
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
    draft.replace(path)
    return path


def write_run(command: str, content: dict[str, Any], stamp: str | None = None) -> str:
    """A run's own file, named by command and time; returns where it is, for the reader."""
    name = f"{command}-{stamp or now()}"
    path = write(name, {"command": command, "environment": environment(), **content})
    return str(path.relative_to(ROOT))


def now() -> str:
    return time.strftime("%Y%m%d-%H%M%S")
