"""The native loops (see dual_loop.hpp). Arrays passed in are borrowed and must have exactly these types."""

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

class DualAscent:
    estimate: float
    epochs: int
    visits: int
    dual: float
    dual_sum: float
    squared_norm: float
    def ascend(self, max_visits: int, tol: float) -> None: ...
    def loss(self, n_threads: int) -> float: ...
    def restore(self) -> None: ...
    def weights(self) -> NDArray[np.float64]: ...
    def intercepts(self) -> NDArray[np.float64]: ...
    def start_intercept(self, means: NDArray[np.float64], inverse_rho: float) -> None: ...
    def set_base(self, W0: NDArray[np.float64], constant: float) -> None: ...
    def sums(self) -> NDArray[np.float64]: ...
    def centre(self) -> NDArray[np.float64]: ...
    def move_centre(self, to: NDArray[np.float64]) -> None: ...
    def flows(self) -> NDArray[np.float64]: ...
    def scaled(self, factors: NDArray[np.float64]) -> tuple[float, float, float]: ...
    def change_metric(self, P: NDArray[np.float64], t: float) -> None: ...
    def duals(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]: ...
    def set_duals(
        self, starts: NDArray[np.int64], classes: NDArray[np.int32], values: NDArray[np.float64]
    ) -> None: ...

def dense(
    problem: str,
    X: NDArray[Any],
    y: NDArray[np.int32],
    cost: NDArray[np.float64],
    n_classes: int,
    waiting: bool,
    seed: int,
) -> DualAscent: ...
def csr(
    problem: str,
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    n_features: int,
    y: NDArray[np.int32],
    cost: NDArray[np.float64],
    n_classes: int,
    waiting: bool,
    seed: int,
) -> DualAscent: ...
def solve_row(
    problem: str, g: NDArray[np.float64], a: NDArray[np.float64], g_target: float, q: float, cost: float
) -> NDArray[np.float64]: ...

class LabelArrays:
    def __init__(
        self,
        starts: NDArray[np.int64],
        labels: NDArray[np.int32],
        signs: NDArray[np.float64],
        costs: NDArray[np.float64],
        means: NDArray[np.float64],
        *,
        scale: float,
        common: float,
        slack: float,
        inverse_rho: float,
        n_labels: int,
        seed: int,
    ) -> None: ...

class LabelAscent:
    estimate: float
    epochs: int
    visits: int
    dual: float
    def ascend(self, max_visits: int, tol: float) -> None: ...
    def loss(self, n_threads: int) -> float: ...
    def restore(self) -> None: ...
    def set_duals(self, a: NDArray[np.float64]) -> None: ...
    def duals(self) -> NDArray[np.float64]: ...
    def move_centre(self, to: NDArray[np.float64]) -> None: ...
    def centre(self) -> NDArray[np.float64]: ...
    def next_centre(self) -> NDArray[np.float64]: ...
    def weights(self) -> NDArray[np.float64]: ...
    def offsets(self) -> NDArray[np.float64]: ...

@overload
def open_labels(X: NDArray[Any], labels: LabelArrays) -> LabelAscent: ...
@overload
def open_labels(
    data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], n_features: int, labels: LabelArrays
) -> LabelAscent: ...
def supports_v3() -> bool: ...

_Scores = NDArray[np.float64]  # (n, c)

def start_pairs(
    y: NDArray[np.int32], cost: NDArray[np.float64], mu: float, S: _Scores, A: _Scores, B: _Scores, xi: _Scores, s: _Scores
) -> None: ...
def pair_system(
    y: NDArray[np.int32],
    mu: float,
    S: _Scores,
    A: _Scores,
    B: _Scores,
    xi: _Scores,
    s: _Scores,
    predictor: _Scores | None,
    T: _Scores,
    omega: _Scores,
) -> None: ...
def assess_step(
    y: NDArray[np.int32],
    mu: float,
    S: _Scores,
    A: _Scores,
    B: _Scores,
    xi: _Scores,
    s: _Scores,
    dS: _Scores,
    predictor: _Scores | None,
) -> tuple[float, float, float, float, float, float, float]: ...
def take_step(
    y: NDArray[np.int32],
    mu: float,
    S: _Scores,
    A: _Scores,
    B: _Scores,
    xi: _Scores,
    s: _Scores,
    dS: _Scores,
    predictor: _Scores | None,
    primal: float,
    dual: float,
) -> None: ...
def hinge_value(S: _Scores, y: NDArray[np.int32], cost: NDArray[np.float64], t: float) -> float: ...
def pair_matrix(
    K: _Scores,
    rows: NDArray[np.int32],
    own: NDArray[np.int32],
    rivals: NDArray[np.int32],
    P: NDArray[np.float64],
    M: NDArray[np.float64],
) -> None: ...
def star_product(omega: _Scores, y: NDArray[np.int32], V: _Scores) -> None: ...
def pairwise_logistic(
    S: _Scores, y: NDArray[np.int32], cost: NDArray[np.float64], T: _Scores, omega: _Scores
) -> float: ...
def softmax(S: _Scores, y: NDArray[np.int32], cost: NDArray[np.float64], T: _Scores, P: _Scores) -> float: ...
def softmax_product(P: _Scores, cost: NDArray[np.float64], V: _Scores) -> None: ...
class MarginDistribution:
    estimate: float
    visits: int
    dual: float
    concave_part: float
    squared_norm: float
    def ascend(self, max_visits: int, tol: float) -> None: ...
    def evaluate(self, n_threads: int) -> tuple[float, float]: ...
    def relinearise(self, gently: bool = False) -> None: ...
    def restore(self) -> None: ...
    def weights(self) -> NDArray[np.float64]: ...
    def intercepts(self) -> NDArray[np.float64]: ...
    def start_intercept(self, means: NDArray[np.float64], inverse_rho: float) -> None: ...
    def sums(self) -> NDArray[np.float64]: ...
    def centre(self) -> NDArray[np.float64]: ...
    def move_centre(self, to: NDArray[np.float64]) -> None: ...
    def flows(self) -> NDArray[np.float64]: ...
    def scaled(self, factors: NDArray[np.float64]) -> tuple[float, float]: ...
    def duals(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]: ...
    def set_duals(
        self, starts: NDArray[np.int64], classes: NDArray[np.int32], values: NDArray[np.float64]
    ) -> None: ...
    def newton_pass(
        self, W: NDArray[np.float64], b: NDArray[np.float64], damping: float
    ) -> tuple[float, float, float, float, NDArray[np.float64], NDArray[np.float64]]: ...
    def newton_product(
        self, P: NDArray[np.float64], p: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def newton_matrix(self) -> NDArray[np.float64]: ...
    def newton_curvature(self) -> NDArray[np.float64]: ...
    def accept_newton(self) -> None: ...

def dense_margin_distribution(
    X: NDArray[Any],
    y: NDArray[np.int32],
    cost: NDArray[np.float64],
    n_classes: int,
    theta: float,
    mu: float,
    frozen: bool,
    waiting: bool,
    seed: int,
) -> MarginDistribution: ...
def csr_margin_distribution(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    n_features: int,
    y: NDArray[np.int32],
    cost: NDArray[np.float64],
    n_classes: int,
    theta: float,
    mu: float,
    frozen: bool,
    waiting: bool,
    seed: int,
) -> MarginDistribution: ...
def solve_band_row(
    g: NDArray[np.float64],
    a: NDArray[np.float64],
    beta: float,
    g_target: float,
    rival: int,
    g_rival: float,
    q: float,
    kappa: float,
    theta: float,
    mu: float,
) -> tuple[NDArray[np.float64], float]: ...
def kernel_ascend(
    problem: str,
    K: NDArray[np.float32],
    S: NDArray[np.float64],
    a: NDArray[np.float64],
    y: NDArray[np.int32],
    cost: NDArray[np.float64],
    b: NDArray[np.float64],
    sums: NDArray[np.float64],
    inverse_rho: float,
    goal: float,
    max_visits: int,
    seed: int,
) -> tuple[int, float]: ...
def kernel_gaps(
    problem: str,
    S: NDArray[np.float64],
    a: NDArray[np.float64],
    y: NDArray[np.int32],
    cost: NDArray[np.float64],
    b: NDArray[np.float64],
    out: NDArray[np.float64],
) -> float: ...
def kernel_room(problem: str, a: NDArray[np.float64], cost: NDArray[np.float64]) -> float: ...
def gather(
    rows: NDArray[Any], numbers: NDArray[np.int64], columns: NDArray[np.int64], out: NDArray[np.float32]
) -> None: ...
