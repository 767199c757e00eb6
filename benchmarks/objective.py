"""The objectives all rivals are judged by, written here a second time and on purpose without polymargin.

F(W, b) = C * sum_i loss_i(W x_i + b) + 0.5 * ||W||_F^2     W (c, d), one row a class; b is not penalised

Crammer-Singer   loss_i = [1 - (s_y - max_{k != y} s_k)]_+
Weston-Watkins   loss_i = sum_{k != y} [1 - (s_y - s_k)]_+
"""

import math

import numpy as np

from .datasets.base import Matrix

CHUNK = 8192  # rows at a time: mnist's scores in one piece would be no trouble, kddcup's would


def crammer_singer_loss(scores: np.ndarray, y: np.ndarray) -> float:
    """Sum of the losses of these rows; overwrites `scores`."""
    rows = np.arange(len(y))
    own = scores[rows, y]
    scores[rows, y] = -np.inf
    return float(np.maximum(0.0, 1.0 - (own - scores.max(axis=1))).sum())


def weston_watkins_loss(scores: np.ndarray, y: np.ndarray) -> float:
    """Sum of the losses of these rows; overwrites `scores`."""
    rows = np.arange(len(y))
    own = scores[rows, y]
    scores[rows, y] = -np.inf
    return float(np.maximum(0.0, 1.0 - (own[:, None] - scores)).sum())


LOSSES = {"cs": crammer_singer_loss, "ww": weston_watkins_loss}


def scores_of(X: Matrix, W: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Scores (n, c) of the rows of X."""
    return np.asarray(X @ W.T) + b


def primal(loss: str, X: Matrix, y: np.ndarray, C: float, W: np.ndarray, b: np.ndarray) -> float:
    """F(W, b) in float64, whatever the rival computed in."""
    W, b = np.asarray(W, dtype=np.float64), np.asarray(b, dtype=np.float64)
    parts = []
    for start in range(0, len(y), CHUNK):
        rows = slice(start, start + CHUNK)
        parts.append(LOSSES[loss](scores_of(X[rows], W, b), y[rows]))
    return C * math.fsum(parts) + 0.5 * float(np.vdot(W, W))


def accuracy(X: Matrix, y: np.ndarray, W: np.ndarray, b: np.ndarray) -> float:
    """Share of the rows whose highest score is their own class; ties go to the lower index."""
    return float(np.mean(scores_of(X, W, b).argmax(axis=1) == y))
