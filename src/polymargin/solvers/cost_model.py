"""What every method costs and up to which size it is used: all limits, with how they were chosen.

Work is counted in operations, memory in numbers of eight bytes. Limits were chosen on the developers' machines (two cores,
8 MB of cache a core) on the data of `benchmarks hard` and `benchmarks linear`; they bound time and memory, never accuracy.
"""

from __future__ import annotations

import numpy as np

from polymargin.problem import Problem
from polymargin.solvers.types import SparseDuals

LARGEST_ARRAY = 5_000_000  # entries of the dense n x c and n x min(n, d) arrays of the methods beside ascent

# ---- ascent -----------------------------------------------------------------------------------------------------------

# ---- interior points --------------------------------------------------------------------------------------------------

# ---- Newton's method --------------------------------------------------------------------------------------------------

MOST_FREE_DUALS = 5000  # whose system the method of multipliers factorises: 200 MB
_FREE_AT_FIRST = 0.6  # of these, as their number grows in the first steps
_MULTIPLIER_STEPS = 50  # what it usually takes
_LARGEST_NEWTON_MATRIX = 1200  # unknowns of a margin distribution step for which the Newton matrix is formed
_MOST_NEWTON_FEATURES = 1000  # for the preconditioner of conjugate gradients, beyond that: principal axes of the rows
_MOST_NEWTON_UNKNOWNS = 50_000
_PASSES_OF_CONJUGATE_GRADIENTS = 60.0  # n d operations of one Newton step by them
LARGEST_PAIR_FACE = 2500  # pairs on their margins whose system is factorised: 50 MB
LARGEST_ANGLE_FACE = 400  # unknowns in W, and free weights, of the dense system of a face with angles


def price_of_newton(problem: Problem, duals: SparseDuals) -> float:
    """About how many flops the method of multipliers takes from these duals; infinite if too many of them are free."""
    n, c, r = problem.n_rows, problem.n_classes, min(problem.n_rows, problem.n_features)
    free = np.count_nonzero(duals.values < (1.0 - 1e-9) * problem.cost[duals.rows])
    if not problem.loss.has_plain_faces or free > _FREE_AT_FIRST * MOST_FREE_DUALS or n * c > LARGEST_ARRAY:
        return np.inf
    return float(_MULTIPLIER_STEPS * (free**3 / 3.0 + 8.0 * n * r * c))


def newton_on_unknowns_fits(problem: Problem) -> bool:
    """Whether Newton steps in the unknowns of a margin distribution step are affordable: few features."""
    d = problem.n_features
    return 0 < d <= _MOST_NEWTON_FEATURES and (d + 1) * problem.n_classes <= _MOST_NEWTON_UNKNOWNS


def newton_matrix_fits(problem: Problem) -> bool:
    """Whether the Newton matrix of these unknowns is formed."""
    return newton_on_unknowns_fits(problem) and (problem.n_features + 1) * problem.n_classes <= _LARGEST_NEWTON_MATRIX


def epochs_of_newton_step(problem: Problem) -> float:
    """The work of a Newton step in the unknowns, in epochs of coordinate ascent."""
    n, d, c = problem.n_rows, problem.n_features, problem.n_classes
    unknowns = (d + 1) * c
    if unknowns <= _LARGEST_NEWTON_MATRIX:
        solving = 3.0 * n * d * d + unknowns**3 / 3.0
    else:
        solving = _PASSES_OF_CONJUGATE_GRADIENTS * n * d
    return 1.0 + solving / (4.0 * n * d * c)


def angle_face_fits(problem: Problem) -> bool:
    """Whether Newton steps on the face of a machine with angles are affordable."""
    unknowns = problem.n_features * problem.n_classes
    return unknowns <= LARGEST_ANGLE_FACE and problem.n_rows <= 100 * LARGEST_ANGLE_FACE


# ---- convex models of what is not convex ------------------------------------------------------------------------------

LARGEST_LABEL_BLOCKS = 50_000_000  # numbers in the factorised blocks of the majorisation: 400 MB
