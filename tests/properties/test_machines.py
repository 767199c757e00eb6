"""Every machine, any parameters, any data: the invariants of `fuzz`, with Hypothesis to draw and to shrink.

A failure prints the smallest recipe it found; as a file in fuzz/corpus/ it is a test for ever.
`--hypothesis-profile nightly` (or HYPOTHESIS_PROFILE=nightly) draws many more.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from fuzz.invariants import judge
from fuzz.machines import MACHINES, build, draw_recipe

SMALL, LARGE = (40, 8, 6), (300, 60, 30)  # rows, columns, classes


class Drawn:
    """Hypothesis in the place of a generator: simple choices first."""

    def __init__(self, data: Any):
        self._data = data

    def random(self) -> float:
        return self._data.draw(st.floats(0.0, 1.0, exclude_max=True))

    def integers(self, low: int, high: int) -> int:
        return self._data.draw(st.integers(low, high - 1))

    def uniform(self, low: float, high: float) -> float:
        return self._data.draw(st.floats(low, high))

    def choice(self, choices: Any) -> Any:
        return self._data.draw(st.sampled_from(list(choices)))


@pytest.mark.pool(0.5)
@pytest.mark.parametrize("machine", MACHINES)
@given(data=st.data())
def test_promises_hold(machine, data):
    largest = LARGE if settings().max_examples > 100 else SMALL
    recipe = draw_recipe(Drawn(data), data.draw(st.integers(0, 2**31)), machine, largest)
    note(json.dumps(recipe))
    failures, _ = judge(build(recipe))
    assert not failures, "\n".join(f"{failure.invariant}: {failure.detail}" for failure in failures)


def test_the_draws_stay_within_their_limits():
    @settings(max_examples=50)
    @given(data=st.data())
    def drawn(data):
        recipe = draw_recipe(Drawn(data), 0, "M3SVC", SMALL)
        assert 2 <= recipe["data"]["n"] <= 40 and 1 <= recipe["data"]["d"] <= 8 and 2 <= recipe["data"]["c"] <= 6
        assert float(recipe["params"]["C"]) > 0.0

    drawn()
