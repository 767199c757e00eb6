"""What every method costs and up to which size it is used: all limits, with how they were chosen.

Work is counted in operations, memory in numbers of eight bytes. Limits were chosen on the developers' machines (two cores,
8 MB of cache a core) on the data of `benchmarks hard` and `benchmarks linear`; they bound time and memory, never accuracy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polymargin.label_problem import LabelProblem
    from polymargin.problem import Problem

LARGEST_ARRAY = 5_000_000  # entries of the dense n x c and n x min(n, d) arrays of the methods beside ascent

# ---- ascent -----------------------------------------------------------------------------------------------------------

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

# ---- convex models of what is not convex ------------------------------------------------------------------------------
