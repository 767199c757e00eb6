"""Gaussian complexity of rows by Monte Carlo: Theorem 5 of the lp-norm machine's paper before anything is bounded.

Over all machines with ``|W|_{2,p} <= Lambda`` the supremum of ``sum_i sum_k g_ik <w_k, phi(x_i)>`` is Lambda times the dual
norm, ``|(|v_1|, ..., |v_c|)|_{p*}`` with ``v_k = sum_i g_ik phi(x_i)``. So its mean over Gaussian g is estimated by drawing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from polymargin.diagnostics.formulas import conjugate_exponent
from polymargin.diagnostics.view import View

N_DRAWS = 200
_AT_A_TIME = 1 << 22  # Gaussian numbers that are held


class Sampled(NamedTuple):
    """Mean of the dual norm over the draws, and the standard error of that mean."""

    mean: float
    error: float
    n_draws: int


def gaussian_complexity(
    view: View, rows: Any, p: float, constant: float = 0.0, *, n_draws: int = N_DRAWS, seed: int = 0
) -> Sampled:
    """``E |(|v_k|)_k|_{p*}`` for rows with one more feature of value `constant`, from so many draws."""
    n, c = rows.shape[0], view.n_classes
    exponent, draw = conjugate_exponent(p), np.random.default_rng(seed)
    norms: list[float] = []
    while len(norms) < n_draws:
        m = min(n_draws - len(norms), max(1, _AT_A_TIME // (n * c)))
        G = draw.standard_normal((n, m * c))
        squares = view.squared_lengths_of_sums(rows, G) + (constant * G.sum(axis=0)) ** 2
        lengths = np.sqrt(np.maximum(squares, 0.0)).reshape(m, c)
        norms += np.linalg.norm(lengths, ord=exponent, axis=1).tolist()
    return Sampled(float(np.mean(norms)), float(np.std(norms, ddof=1) / np.sqrt(n_draws)), n_draws)
