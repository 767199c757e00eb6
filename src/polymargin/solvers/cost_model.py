"""What every method costs and up to which size it is used: all limits, with how they were chosen.

Work is counted in operations, memory in numbers of eight bytes. Limits were chosen on the developers' machines (two cores,
8 MB of cache a core) on the data of `benchmarks hard` and `benchmarks linear`; they bound time and memory, never accuracy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.problems.classes import Problem
from polymargin.problems.labels import LabelProblem
from polymargin.solvers.types import SparseDuals, Start

LARGEST_ARRAY = 5_000_000  # entries of the dense n x c and n x min(n, d) arrays of the methods beside ascent

# ---- ascent -----------------------------------------------------------------------------------------------------------

FEWEST_EPOCHS = 200  # before ascent may be given up


_AFTER_CRAWLING = 20  # epochs to see that a warm start is good enough, where ascent crawled before


def epochs_from(start: Start | None, usual: int) -> int:
    """Epochs before interior points: fewer for the neighbour of a problem that they have ended."""
    return min(usual, _AFTER_CRAWLING) if start is not None and start.crawled else usual


def flops_of_epoch(problem: Problem) -> float:
    entries = problem.X.nnz if sparse.issparse(problem.X) else problem.X.size
    return 4.0 * max(1, entries) * problem.n_classes


_MOST_TOGETHER = 16  # rows that are visited at the same time
_FEWEST_TOGETHER = 8  # or none: threads would meet too often
_FEWEST_OF_LONG = 4  # of visits that move most classes
_SHORTEST_TOGETHER = 10_000  # operations of a row's scores: shorter visits are not worth a meeting
_FEWEST_ROWS_TOGETHER = 2000
_OVERLAP = 0.4  # that rows visited together may have: they move at the same time, and none sees the others' moves
_SAMPLE = 256  # rows by which it is measured


def rows_together(X: Any, y: NDArray[np.int32], to_rivals: bool = True, is_centred: bool = False) -> int:
    """How many rows a loop visits at the same time: a property of the rows and their classes, whatever the threads.

    Rows move apart from each other if they are nearly orthogonal, or of different classes, where margins are those
    `to_rivals`; absolute ones move the vectors of all classes. It costs one thread up to a tenth, since class vectors are
    read and, some rows later, fetched once more to be moved; sparse rows a tenth to a fifth, for a gain of two threads
    that is not much more.
    """
    if sparse.issparse(X) or len(y) < _FEWEST_ROWS_TOGETHER or X.shape[1] * (int(y.max()) + 1) < _SHORTEST_TOGETHER:
        return 1
    sample = np.linspace(0, len(y) - 1, _SAMPLE).astype(np.intp)
    rows = X[sample] - X[sample].mean(axis=0) if is_centred and not to_rivals else X[sample]
    inner = np.asarray(rows @ rows.T, dtype=np.float64)
    lengths = np.sqrt(np.maximum(inner.diagonal(), np.finfo(np.float64).tiny))
    cosines = np.maximum(inner / lengths[:, None] / lengths, 0.0)
    np.fill_diagonal(cosines, 0.0)
    meet = y[sample][:, None] == y[sample] if to_rivals else np.ones((_SAMPLE, _SAMPLE), dtype=bool)
    overlap = float(cosines[meet].sum()) / (_SAMPLE * (_SAMPLE - 1))
    most = min(_MOST_TOGETHER, 1.0 + _OVERLAP / max(overlap, 1e-3))
    together = 2 ** int(np.log2(most))
    return together if together >= (_FEWEST_TOGETHER if to_rivals else _FEWEST_OF_LONG) else 1


_SMALL_AVERAGE = 4_000_000  # numbers of a second machine that need not be thought of: 32 MB
_AVERAGE = 0.1  # or as a part of those stored in X


def average_fits(problem: Problem) -> bool:
    """Whether there is room for one more machine beside the loop's own."""
    stored = problem.X.nnz if sparse.issparse(problem.X) else problem.X.size
    return problem.n_features * problem.n_classes <= max(_SMALL_AVERAGE, _AVERAGE * stored)


def multiples_pay(problem: Problem) -> bool:
    """Whether two multiples of a start's duals are looked for: two machines more, for plain norms and losses."""
    return problem.penalty.identity_hessian and not problem.loss.squared and average_fits(problem)


def paths_pay(problem: Problem) -> bool:
    """Whether a start is looked for on the line through the last two solutions of a path: plain norms and losses."""
    plain = problem.penalty.identity_hessian and not problem.loss.squared and problem.loss.unit_targets
    return plain and problem.n_rows * problem.n_classes <= LARGEST_ARRAY


SMALL_MARGIN_STEP = 20_000  # rows times classes of a margin distribution machine up to which time does not matter
KERNEL_WORKING_SET = 8192  # rows of one: its block of K is 268 MB

# ---- interior points --------------------------------------------------------------------------------------------------

_LARGEST_LAPLACIAN = 1500  # unknowns of the Newton system of a quadratic penalty
_USUAL_LAPLACIAN_STEPS = 20  # of its interior points
LARGEST_MATRIX = 2600  # unknowns of a system of the pairwise hinge or of a smooth loss that is assembled
_LONGEST_ASSEMBLY = 4e9  # operations of making and factorising it
_USUAL_PRODUCTS = 60  # or as many as conjugate gradients would need for about so many iterations
_USUAL_STEPS = 25  # of interior points for the pairwise hinge and for label pairs
_FEW_OPERATIONS = 1e9  # of a whole fit by interior points that need not be waited for
LARGEST_GRAM = 3000  # rows whose Gram matrix is formed as a whole: 72 MB
_LARGEST_LABEL_STEP = 2e10  # operations of one interior-point step for label pairs
_LARGEST_LABEL_ARRAYS = 8_000_000  # numbers it holds: 64 MB
_SPEED = 8.0  # how many times faster its matrix products run than the ascent's dot products


def interior_points_fit(problem: Problem) -> bool:
    """Whether the dense arrays of an interior point with a quadratic penalty are small enough."""
    n, c, rank = problem.n_rows, problem.n_classes, min(problem.n_rows, problem.n_features)
    return (rank + 1) * c <= _LARGEST_LAPLACIAN and n * max(c, rank) <= LARGEST_ARRAY


def flops_of_interior_point(problem: Problem) -> float:
    """Of a whole fit by such a one."""
    n, unknowns = problem.n_rows, (min(problem.n_rows, problem.n_features) + 1) * problem.n_classes
    return float(_USUAL_LAPLACIAN_STEPS * (n * unknowns**2 / 2 + unknowns**3 / 3))


def has_interior_point(problem: Problem) -> bool:
    """Whether the loss has slacks for it, and it fits."""
    return bool(problem.loss.interior_block) and problem.penalty.threshold is None and interior_points_fit(problem)


def epochs_before_interior_points(problem: Problem, solves: int = 1) -> int:
    """Epochs to try before so many of them: about as much work as they would be; unlimited if they cannot be used."""
    if not has_interior_point(problem):
        return int(np.iinfo(np.int32).max)
    return FEWEST_EPOCHS + int(solves * flops_of_interior_point(problem) / flops_of_epoch(problem))


def assembly_fits(n_rows: int, n_unknowns: int, n_classes: int) -> bool:
    """Whether a system of so many unknowns a class is assembled and factorised, not solved by conjugate gradients."""
    products = 4.0 * n_rows * n_unknowns * n_classes * _USUAL_PRODUCTS
    work = _assembly(n_rows, n_unknowns, n_classes)
    return n_unknowns * n_classes <= LARGEST_MATRIX and work <= max(_LONGEST_ASSEMBLY, products)


def pair_interior_points_are_cheap(problem: Problem) -> bool:
    """Whether a whole fit of the pairwise hinge by interior points takes next to no time."""
    n, c = problem.n_rows, problem.n_classes
    q = min(n, problem.n_features) + problem.fit_intercept
    return q * c <= LARGEST_MATRIX and _USUAL_STEPS * _assembly(n, q, c) <= _FEW_OPERATIONS


def _assembly(n_rows: int, n_unknowns: int, n_classes: int) -> float:
    return 2.0 * n_rows * n_unknowns**2 * (n_classes - 1) + (n_unknowns * n_classes) ** 3 / 3


def label_interior_points_fit(problem: LabelProblem) -> bool:
    """Whether interior points for label pairs are affordable."""
    return _label_step(problem) <= _LARGEST_LABEL_STEP and label_system_entries(problem) <= _LARGEST_LABEL_ARRAYS


def epochs_of_label_interior_points(problem: LabelProblem) -> int:
    """The work of a whole fit by them, in epochs of coordinate ascent."""
    epoch = 4.0 * (problem.n_rows + len(problem.cost)) * max(1, problem.n_features)
    return int(_USUAL_STEPS * _label_step(problem) / (_SPEED * epoch))


def _label_step(problem: LabelProblem) -> float:
    """Operations of one factorisation."""
    order = min(problem.n_rows, problem.n_features) + 1
    return float(len(problem.cost)) * order**2 + 1.5 * problem.n_classes * float(order) ** 3


def label_system_entries(problem: LabelProblem) -> int:
    """Numbers held: the rows and one inverse for each class."""
    order = min(problem.n_rows, problem.n_features) + 1
    return problem.n_rows * order + problem.n_classes * order**2


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
    if problem.penalty.threshold is not None:  # it knows no kinks
        return np.inf
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


_LARGEST_GENERAL = 1500  # unknowns of the general method's dense system
_GENERAL_STEPS = 50  # what it usually takes


def general_newton_fits(problem: Problem) -> bool:
    """Whether Newton steps of the general method are dense systems of a moderate size."""
    unknowns = (problem.n_features + 1) * problem.n_classes
    return unknowns <= _LARGEST_GENERAL and problem.n_rows * max(problem.n_classes**2, problem.n_features) <= LARGEST_ARRAY


def price_of_general_newton(problem: Problem) -> float:
    """About how many flops it takes; infinite if it does not fit."""
    if not general_newton_fits(problem) or not problem.row_domains.domain.has_plain_faces:
        return np.inf
    n, unknowns = problem.n_rows, (problem.n_features + 1) * problem.n_classes
    return float(_GENERAL_STEPS * (n * unknowns**2 / 2 + unknowns**3 / 3))


LARGEST_REDUCED_HESSIAN = 3000  # unknowns of a Hessian that is summed over parts: 72 MB from each of them
_ROWS_PER_UNKNOWN = 4  # from which on block ascent of parts that work side by side hardly moves


def newton_over_parts_pays(problem: Problem) -> bool:
    """Whether Newton steps with Hessians summed over parts are affordable, and better than block ascent.

    Rows that are many in few dimensions tie all parts to each other: block ascent stops at gaps of 1e-1 to 1e-2 then.
    """
    unknowns, rank = (problem.n_features + 1) * problem.n_classes, min(problem.n_rows, problem.n_features)
    return unknowns <= LARGEST_REDUCED_HESSIAN and problem.n_rows >= min(_ROWS_PER_UNKNOWN * rank, problem.n_features)


# ---- convex models of what is not convex ------------------------------------------------------------------------------

LARGEST_LABEL_BLOCKS = 50_000_000  # numbers in the factorised blocks of the majorisation: 400 MB
