"""The paper's optimiser of the angular machine: mini-batch subgradients with ADADELTA (Li et al. 2017, Section 4.1).

F(W) = C sum_i [1 - margin_i]_+ + 1/2 |W|^2 + (omega/2) A(W),  batches of 20 rows, 50 epochs; W (d, c), no intercept.

Written here on purpose without polymargin. The paper does not say where it starts: here at small random vectors inside the
span of the rows.
"""

import numpy as np

BATCH, EPOCHS = 20, 50
RHO, EPSILON = 0.95, 1e-6  # Zeiler's


def angular(W: np.ndarray, rank: int) -> tuple[float, np.ndarray]:
    """A and its gradient, from the `rank` largest singular values."""
    U, s, Vt = np.linalg.svd(W, full_matrices=False)
    U, s, Vt = U[:, :rank], np.maximum(s[:rank], 1e-12), Vt[:rank]
    total = float(s @ s)
    return float(np.log(total) - 2.0 * np.log(s).mean()), (U * (2.0 * s / total - 2.0 / (rank * s))) @ Vt


def objective(W: np.ndarray, X: np.ndarray, y: np.ndarray, C: float, omega: float, rank: int) -> float:
    """F of the machine."""
    S, rows = X @ W, np.arange(len(y))
    own = S[rows, y]
    S[rows, y] = -np.inf
    loss = np.maximum(0.0, 1.0 - own + S.max(axis=1)).sum()
    return C * float(loss) + 0.5 * float(np.vdot(W, W)) + 0.5 * omega * angular(W, rank)[0]


def fit(
    X: np.ndarray, y: np.ndarray, C: float, omega: float, rank: int, seed: int = 0, epochs: int = EPOCHS
) -> np.ndarray:
    """W (d, c) after so many epochs."""
    rng = np.random.default_rng(seed)
    (n, d), c = X.shape, int(y.max()) + 1
    W = 0.01 * X.T @ rng.standard_normal((n, c)) / np.linalg.norm(X)
    squares, steps = np.zeros((d, c)), np.zeros((d, c))
    for _ in range(epochs):
        order = rng.permutation(n)
        for start in range(0, n, BATCH):
            batch = order[start : start + BATCH]
            x, own = X[batch], y[batch]
            rows = np.arange(len(batch))
            S = x @ W
            mine = S[rows, own]
            S[rows, own] = -np.inf
            rival = S.argmax(axis=1)
            active = (1.0 - mine + S[rows, rival] > 0.0).astype(float)
            T = np.zeros((len(batch), c))
            T[rows, rival] += active
            T[rows, own] -= active
            gradient = x.T @ T * (C * n / len(batch)) + W + 0.5 * omega * angular(W, rank)[1]
            squares = RHO * squares + (1.0 - RHO) * gradient**2
            step = -np.sqrt((steps + EPSILON) / (squares + EPSILON)) * gradient
            steps = RHO * steps + (1.0 - RHO) * step**2
            W = W + step
    return W
