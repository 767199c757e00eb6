"""The native loops (see the headers beside this file). Arrays that are borrowed or changed must have exactly these types."""

from collections.abc import Sequence
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

_Floats: TypeAlias = NDArray[np.float64]
_Singles: TypeAlias = NDArray[np.float32]
_Classes: TypeAlias = NDArray[np.int32]
_Starts: TypeAlias = NDArray[np.int64]

def supports_v3() -> bool: ...

class Rows:
    """Rows of X, dense or CSR, in single or double precision; the arrays are borrowed."""

    @overload
    def __init__(self, X: NDArray[Any], wide: bool = True) -> None: ...
    @overload
    def __init__(self, data: NDArray[Any], indices: NDArray[np.int32], indptr: _Starts, n_features: int) -> None: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def n_features(self) -> int: ...

class _Ascent:
    @property
    def estimate(self) -> float: ...
    @property
    def epochs(self) -> int: ...
    @property
    def visits(self) -> int: ...
    @property
    def dual(self) -> float: ...
    def ascend(self, max_visits: int, tol: float) -> None: ...
    def restore(self) -> None: ...
    def weights(self) -> _Floats: ...
    def centre(self) -> _Floats: ...
    def move_centre(self, to: _Floats) -> None: ...

class _DualAscent(_Ascent):
    @property
    def squared_norm(self) -> float: ...
    def intercepts(self) -> _Floats: ...
    def start_intercept(self, means: _Floats, inverse_rho: float) -> None: ...
    def sums(self) -> _Floats: ...
    def flows(self) -> _Floats: ...
    def duals(self) -> tuple[_Starts, _Classes, _Floats]: ...
    def set_duals(self, starts: _Starts, classes: _Classes, values: _Floats) -> None: ...

class RowLoop(_DualAscent):
    @property
    def dual_sum(self) -> float: ...
    @property
    def flow(self) -> float: ...
    def loss(self, n_threads: int) -> float: ...
    def average_slices(self, on: bool) -> None: ...
    @property
    def has_average(self) -> bool: ...
    def averaged_value(self, n_threads: int) -> float: ...
    def averaged_machine(self) -> tuple[_Floats, _Floats]: ...
    def set_base(self, W0: _Floats, constant: float) -> None: ...
    def scaled(self, factors: _Floats) -> tuple[float, float, float, float]: ...
    def totals_of(self, factors: _Floats) -> tuple[float, float, float, _Floats]: ...
    def squared_norms(self) -> _Floats: ...
    def rescale(self, scales: _Floats, squared_norms: _Floats) -> None: ...
    def change_metric(self, P: _Floats, t: float) -> None: ...
    def couple(self, scale: float, common: float, fixes_offsets: bool) -> None: ...
    def shrink(self, l1: float, by_features: bool) -> None: ...

# Domains are the headers of domains/, by name, with their parameters. Metrics are "identity", "class_scales",
# "between_classes" and "coupled"; where a domain does not know one, rows are solved in a multiple of the identity above it.

def domains() -> list[str]: ...
def knows(domain: str, metric: str) -> bool: ...
def row_loop(
    domain: str,
    metric: str,
    rows: Rows,
    y: _Classes,
    cost: _Floats,
    n_classes: int,
    waiting: bool,
    seed: int,
    parameters: Sequence[float] = ...,
    targets: _Floats | None = ...,
    together: int = ...,
    n_threads: int = ...,
    averages: bool = ...,
) -> RowLoop: ...
@overload
def machine_loss(
    domain: str,
    rows: Rows,
    y: _Classes,
    cost: _Floats,
    W: _Floats,
    b: _Floats,
    parameters: Sequence[float] = ...,
    n_threads: int = ...,
    targets: _Floats | None = ...,
) -> float: ...
@overload
def machine_loss(
    domain: str,
    rows: Rows,
    y: _Classes,
    cost: _Floats,
    values: _Floats,
    classes: _Classes,
    starts: _Starts,
    b: _Floats,
    parameters: Sequence[float] = ...,
    n_threads: int = ...,
    targets: _Floats | None = ...,
) -> float: ...
def solve_row(
    domain: str,
    metric: str,
    H: _Floats,
    g: _Floats,
    a: _Floats,
    g_target: float,
    cost: float,
    parameters: Sequence[float] = ...,
    own: int = ...,
) -> _Floats: ...

class BandLoop(_DualAscent):
    @property
    def concave_part(self) -> float: ...
    def evaluate(self, n_threads: int) -> tuple[float, float]: ...
    def relinearise(self, gently: bool = ...) -> None: ...
    def scaled(self, factors: _Floats) -> tuple[float, float]: ...
    def newton_pass(
        self, W: _Floats, b: _Floats, damping: float
    ) -> tuple[float, float, float, float, _Floats, _Floats]: ...
    def newton_product(self, P: _Floats, p: _Floats) -> tuple[_Floats, _Floats]: ...
    def newton_matrix(self) -> _Floats: ...
    def newton_curvature(self) -> _Floats: ...
    def accept_newton(self) -> None: ...

def band_loop(
    rows: Rows,
    y: _Classes,
    cost: _Floats,
    n_classes: int,
    theta: float,
    mu: float,
    frozen: bool,
    waiting: bool,
    seed: int,
) -> BandLoop: ...
def solve_band_row(
    g: _Floats,
    a: _Floats,
    beta: float,
    g_target: float,
    rival: int,
    g_rival: float,
    q: float,
    kappa: float,
    theta: float,
    mu: float,
) -> tuple[_Floats, float]: ...

class LabelLoop(_Ascent):
    def loss(self, n_threads: int) -> float: ...
    def duals(self) -> _Floats: ...
    def set_duals(self, a: _Floats) -> None: ...
    def next_centre(self) -> _Floats: ...
    def offsets(self) -> _Floats: ...

def label_loop(
    rows: Rows,
    starts: _Starts,
    labels: _Classes,
    signs: _Floats,
    costs: _Floats,
    means: _Floats,
    *,
    scale: float,
    common: float,
    slack: float,
    inverse_rho: float,
    n_labels: int,
    seed: int,
) -> LabelLoop: ...

class RankingLoop(_Ascent):
    def duals(self) -> _Floats: ...
    def set_duals(self, a: _Floats) -> None: ...
    def start_intercept(self, means: _Floats, inverse_rho: float) -> None: ...
    def sums(self) -> _Floats: ...
    def intercepts(self) -> _Floats: ...

def ranking_loop(
    rows: Rows, starts: _Starts, labels: _Classes, costs: _Floats, worst: bool, n_labels: int, seed: int
) -> RankingLoop: ...

# W (n_labels, d); b, primal, dual and visits of each label; their duals label by label: starts, rows, values
def labels_apart(
    rows: Rows,
    starts: _Starts,
    sign_rows: _Classes,
    signs: NDArray[np.int8],
    others: int,
    row_costs: _Floats,
    label_costs: _Floats,
    labels: _Classes,
    means: _Floats,
    dual_starts: _Starts,
    dual_rows: _Classes,
    duals: _Floats,
    offsets: _Floats,
    *,
    inverse_rho: float,
    free_offset: bool,
    tol: float,
    max_visits: int,
    n_threads: int,
    squared: bool,
    seed: int,
) -> tuple[_Floats, _Floats, tuple[_Starts, _Classes, _Floats]]: ...

# cuts of labels, (c, n) each: how many rows reach them; `reach` is changed
def climb_cuts(
    order: NDArray[np.int64],
    ends: NDArray[np.bool],
    member: NDArray[np.bool],
    known: NDArray[np.bool],
    weight: _Floats,
    reach: NDArray[np.int64],
    *,
    subsets: bool,
    rounds: int,
    worth: float,
) -> None: ...

# working sets of the kernel dual; S, a, b, sums and out are changed

def kernel_ascend(
    domain: str,
    K: _Singles,
    S: _Floats,
    a: _Floats,
    y: _Classes,
    cost: _Floats,
    b: _Floats,
    sums: _Floats,
    inverse_rho: float,
    goal: float,
    max_visits: int,
    seed: int,
    parameters: Sequence[float] = ...,
    targets: _Floats | None = ...,
    ridge: float = ...,
    scales: _Floats | None = ...,
    mixing: _Floats | None = ...,
) -> tuple[int, float]: ...
def kernel_gaps(
    domain: str,
    S: _Floats,
    a: _Floats,
    y: _Classes,
    cost: _Floats,
    b: _Floats,
    out: _Floats,
    parameters: Sequence[float] = ...,
    targets: _Floats | None = ...,
) -> float: ...
def kernel_room(domain: str, a: _Floats, cost: _Floats, parameters: Sequence[float] = ...) -> float: ...
def add_rows(rows: NDArray[Any], numbers: _Starts, steps: _Floats, S: _Floats) -> None: ...
def gather(rows: NDArray[Any], numbers: _Starts, columns: _Starts, out: _Singles) -> None: ...

# passes over scores (n, c); S, A, B, xi, s, T, omega, P and V are changed where they are results

def start_pairs(
    y: _Classes, cost: _Floats, mu: float, S: _Floats, A: _Floats, B: _Floats, xi: _Floats, s: _Floats
) -> None: ...
def pair_system(
    y: _Classes,
    mu: float,
    S: _Floats,
    A: _Floats,
    B: _Floats,
    xi: _Floats,
    s: _Floats,
    predictor: _Floats | None,
    T: _Floats,
    omega: _Floats,
) -> None: ...
def assess_step(
    y: _Classes,
    mu: float,
    S: _Floats,
    A: _Floats,
    B: _Floats,
    xi: _Floats,
    s: _Floats,
    dS: _Floats,
    predictor: _Floats | None,
) -> tuple[float, float, float, float, float, float, float]: ...
def take_step(
    y: _Classes,
    mu: float,
    S: _Floats,
    A: _Floats,
    B: _Floats,
    xi: _Floats,
    s: _Floats,
    dS: _Floats,
    predictor: _Floats | None,
    primal: float,
    dual: float,
) -> None: ...
def hinge_value(S: _Floats, y: _Classes, cost: _Floats, t: float) -> float: ...
def pair_matrix(K: _Floats, rows: _Classes, own: _Classes, rivals: _Classes, P: _Floats, M: _Floats) -> None: ...
def star_product(omega: _Floats, y: _Classes, V: _Floats) -> None: ...
def pairwise_logistic(S: _Floats, y: _Classes, cost: _Floats, T: _Floats, omega: _Floats) -> float: ...
def softmax(S: _Floats, y: _Classes, cost: _Floats, T: _Floats, P: _Floats) -> float: ...
def softmax_product(P: _Floats, cost: _Floats, V: _Floats) -> None: ...
