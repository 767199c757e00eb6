"""What scikit-learn's tests expect around them. Run by `python -m pytest tests/peers`, not with all tests."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from differences import DIFFERENCES


def pytest_configure(config):
    config.addinivalue_line("markers", "thread_unsafe: of scikit-learn")
    config.addinivalue_line("filterwarnings", "ignore")  # theirs are watched by them


def pytest_collection_modifyitems(items):
    for item in items:
        reasons = DIFFERENCES.get(item.path.stem, {})
        reason = reasons.get(item.name) or reasons.get(item.originalname)
        if reason:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


@pytest.fixture
def global_random_seed():
    return 42


@pytest.fixture
def global_dtype():
    return np.float64
