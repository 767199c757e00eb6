"""The loops that methods share, on problems of one unknown: line search, multipliers, faces, descent by models."""

from __future__ import annotations

import numpy as np
import pytest

from polymargin.solvers.models.descent import Look, descend
from polymargin.solvers.newton.faces.face_search import Change, FaceSearch
from polymargin.solvers.newton.line_search import backtrack
from polymargin.solvers.newton.multipliers import MultiplierMethod


def test_whole_steps_are_halved_until_the_value_has_fallen_enough():
    tried = []

    def trial(t):  # (v - 1)^2 along a step from 0 that is 6 times too long
        tried.append(t)
        return (6.0 * t - 1.0) ** 2, 6.0 * t

    assert backtrack(trial, 1.0, -12.0, share=0.1, shortest=1e-3) == (0.25, 1.5)
    assert tried == [1.0, 0.5, 0.25]
    assert backtrack(trial, 1.0, -12.0, share=0.1, shortest=1e-3, longest=0.2)[0] == 0.2
    # uphill nothing helps: what was tried last is told all the same, and rounding may be forgiven
    assert backtrack(lambda t: (1.0 + t, t), 1.0, -1.0, share=0.1, shortest=0.25) == (0.0, 0.25)
    assert backtrack(lambda t: (1.0 + 1e-16, t), 1.0, -1e-20, share=0.1, shortest=0.25, rounding=1e-15) == (1.0, 1.0)


class AtLeastOne(MultiplierMethod):
    """min v^2 / 2 with v >= 1: its multiplier is 1."""

    def __init__(self, sigma, solvable=True):
        self.v, self.a, self.sigma, self.solvable, self.ends = 0.0, 0.0, sigma, solvable, []

    def _multiplier(self, v):
        return max(0.0, self.a + self.sigma * (1.0 - v))

    def _begin_round(self):
        return self.v

    def _stops(self, point, steps):
        return steps >= 5

    def _direction(self, point):
        bend = 1.0 + self.sigma * (self._multiplier(point) > 0.0)
        return (self._multiplier(point) - point) / bend if self.solvable else None

    def _search(self, point, direction):
        return (1.0, point + direction) if abs(direction) > 1e-15 else (0.0, point)

    def _is_solved(self, point, direction, length):
        return length == 0.0 or abs(self._multiplier(point) - point) <= 1e-14

    def _move_centre(self, end):
        self.v, self.a = end.point, self._multiplier(end.point)
        self.ends.append(end)
        return abs(self.v - 1.0) > 1e-10 and len(self.ends) < 100


@pytest.mark.parametrize(("sigma", "rounds"), [(1e3, 4), (1.0, 34)])
def test_multipliers_converge_the_faster_the_larger_sigma(sigma, rounds):
    method = AtLeastOne(sigma)
    end = method.rounds()
    assert end is method.ends[-1] and len(method.ends) <= rounds
    assert method.v == pytest.approx(1.0, abs=1e-10) and method.a == pytest.approx(1.0, abs=1e-9)
    assert all(one.steps <= 1 and not one.stopped for one in method.ends)


def test_a_system_that_is_too_large_ends_the_rounds():
    method = AtLeastOne(1.0, solvable=False)
    assert method.rounds() is None and not method.ends


class Told(FaceSearch):
    """Steps whose numbers of wrong pieces are given beforehand; None breaks off."""

    most_steps = 5

    def __init__(self, wrong, **rules):
        self.wrong, self.sizes, self.went_on = iter(wrong), [], 0
        self.__dict__.update(rules)

    def _fits(self, free):
        return np.count_nonzero(free) <= 12

    def _step(self, free):
        self.sizes.append(np.count_nonzero(free))
        wrong = next(self.wrong)
        return None if wrong is None else Change(np.ones(len(free) + 1, dtype=bool), wrong)

    def _is_found(self, change):
        return not change.wrong

    def _go_on(self, change):
        self.went_on += 1


@pytest.mark.parametrize(
    ("wrong", "rules", "found", "steps"),
    [
        ([2, 5, 1, 0], {}, True, 4),
        ([2, 5, 1, 0], {"must_improve": True}, False, 2),
        ([2, 1, 0], {"must_improve": True}, True, 3),
        ([2, 1, 0], {"most_wrong": 0.1}, False, 1),
        ([2, None], {}, False, 2),
        ([1, 1, 1, 1, 1], {}, True, 5),  # out of steps: what was found is for the caller to judge
    ],
)
def test_a_face_is_searched_as_long_as_it_pays(wrong, rules, found, steps):
    search = Told(wrong, **rules)
    assert search.search(np.ones(8, dtype=bool)) == found
    assert search.sizes == list(range(8, 8 + steps))


def test_a_face_that_has_grown_too_large_is_left():
    assert not Told([1, 1]).search(np.ones(12, dtype=bool))


class Quartic:
    """F = v^4 / 4 - v^2, with the tangent of the second part: the model's minimum is the cube root of 2 v."""

    enough = 0.5

    def __init__(self, v, tol, most=1000):
        self.v, self.tol, self.left, self.values = v, tol, most, [self.value(v)]

    @staticmethod
    def value(v):
        return v**4 / 4.0 - v**2

    def _model(self, v):
        return v**4 / 4.0 - self.v**2 - 2.0 * self.v * (v - self.v)

    def begin(self):
        self.end, self.share = np.cbrt(2.0 * self.v), 0.1

    def improve(self):
        self.left -= 1
        self.tried = self.v + self.share * (self.end - self.v)
        promise = self.value(self.v) - self._model(self.end)
        return Look(self.value(self.v) - self._model(self.tried), promise, promise <= self.tol)

    @property
    def is_exhausted(self):
        return self.left <= 0

    def tighten(self, look):
        self.share = 0.5 * (self.share + 1.0)
        return self.share < 1.0

    def take(self, look):
        if self.value(self.tried) < self.value(self.v):
            self.v = self.tried
            self.values.append(self.value(self.v))
        return "stationary" if look.is_little else "max_iter" if self.left <= 0 else ""


@pytest.mark.parametrize("start", [0.1, 5.0])
def test_models_descend_to_a_stationary_point(start):
    models = Quartic(start, 1e-12)
    assert descend(models) == "stationary"
    assert models.v == pytest.approx(np.sqrt(2.0), abs=1e-5)
    assert (np.diff(models.values) < 0.0).all()


def test_the_descent_says_why_it_ended_before():
    assert descend(Quartic(0.1, 1e-12, most=3)) == "max_iter"
    models = Quartic(0.1, 0.0)
    models.enough = 1.0 + 1e-9  # more than any model can give
    assert descend(models) == "stalled"
