"""Shared fixtures. One thread per BLAS call, so that times and memory mean the same everywhere."""

import os
import sys
from pathlib import Path

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # else scikit-learn skips its array API check
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

sys.path.insert(0, str(Path(__file__).parent))  # registry.py and reference.py, whatever the import mode

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
