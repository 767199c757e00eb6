"""Shared fixtures. One thread per BLAS call, so that times and memory mean the same everywhere."""

import math
import os
import random
import sys
from collections import defaultdict
from pathlib import Path

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # else scikit-learn skips its array API check
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

sys.path.insert(0, str(Path(__file__).parent / "support"))  # registry.py and reference.py, whatever the import mode

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from hypothesis import HealthCheck, Phase, settings  # noqa: E402
from sklearn.datasets import load_iris, load_wine  # noqa: E402

# `--hypothesis-profile nightly` looks further, elsewhere each time, and shrinks what it finds; else there are few examples,
# the same everywhere.
_ALIKE = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": True}
_NO_SHRINKING = (Phase.explicit, Phase.generate)
settings.register_profile("quick", derandomize=True, max_examples=10, database=None, phases=_NO_SHRINKING, **_ALIKE)
settings.register_profile("nightly", max_examples=400, **_ALIKE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# Random problems are a pool: every run takes some of them, others each time. `--pool all` takes all, `--pool 1234` those
# of the run that said so. Workers are told the number by the environment.
_POOL = "POLYMARGIN_TEST_POOL"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pool", default=None, help="which random problems are run: 'all', or the number of an earlier run")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "pool(share): random problems, of which each run takes this share")
    asked = config.getoption("--pool")
    os.environ[_POOL] = asked or os.environ.get(_POOL) or str(random.SystemRandom().randrange(10_000))


def pytest_report_header() -> str:
    return f"random problems: --pool {os.environ[_POOL]}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    number = os.environ[_POOL]
    explicit = any("::" in argument for argument in config.args)  # a test that was asked for by name is run
    if number == "all" or explicit:
        return
    pools: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("pool") is not None:
            pools[item.nodeid.partition("[")[0]].append(item)
    left_out: set[pytest.Item] = set()
    for name, pool in pools.items():
        share = pool[0].get_closest_marker("pool").args[0]  # type: ignore[union-attr]
        taken = random.Random(f"{number} {name}").sample(pool, math.ceil(share * len(pool)))
        left_out |= set(pool) - set(taken)
    if left_out:
        config.hook.pytest_deselected(items=sorted(left_out, key=lambda item: item.nodeid))
        items[:] = [item for item in items if item not in left_out]


def _standardised(X: np.ndarray) -> np.ndarray:
    return (X - X.mean(axis=0)) / X.std(axis=0)


@pytest.fixture
def iris() -> tuple[np.ndarray, np.ndarray]:
    """Iris with columns of mean 0 and standard deviation 1: the data of the golden values."""
    X, y = load_iris(return_X_y=True)
    return _standardised(X), y


@pytest.fixture
def wine() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_wine(return_X_y=True)
    return _standardised(X), y


@pytest.fixture
def overlapping() -> tuple[np.ndarray, np.ndarray]:
    """Four classes that no hyperplane separates: every machine has bounded and free support rows."""
    rng = np.random.default_rng(7)
    y = np.arange(120) % 4
    X = 1.5 * rng.standard_normal((4, 5))[y] + rng.standard_normal((120, 5))
    return X, y


@pytest.fixture
def two_classes() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    y = np.arange(80) % 2
    X = rng.standard_normal((80, 4)) + 0.8 * y[:, None]
    return X, y


@pytest.fixture(autouse=True)
def _figures_are_closed():
    """Those that a test leaves open would make a later one on the same worker warn."""
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
