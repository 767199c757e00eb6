"""The native loops (see dual_loop.hpp). Arrays passed in are borrowed and must have exactly these types."""

from typing import Any

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
    def sums(self) -> NDArray[np.float64]: ...
    def centre(self) -> NDArray[np.float64]: ...
    def move_centre(self, to: NDArray[np.float64]) -> None: ...
    def flows(self) -> NDArray[np.float64]: ...
    def scaled(self, factors: NDArray[np.float64]) -> tuple[float, float, float]: ...
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
def supports_v3() -> bool: ...
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
