"""The theorems' formulas, as functions of numbers only. Each returns its terms; their sum is the bound.

Notation: n rows, c classes, confidence 1 - delta, norm bound Lambda, radius r with ``k(x, x) <= r^2``.

Regular loss: all error bounds use a loss that is 1 for margins <= 0, falls to 0 and never exceeds 1. The ramp
``l_rho(t) = min(1, [1 - t/rho]_+)`` (slope L = 1/rho) is below the hinge ``[1 - t/rho]_+`` and bounded by 1, so it always
gives the better bound; the hinge is not offered.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

from polymargin.diagnostics.view import Array

Terms = dict[str, float]
_DRAWS = 400


def ramp(margins: Array, margin: float) -> float:
    """Mean of ``min(1, [1 - t/margin]_+)``."""
    return float(np.clip(1.0 - margins / margin, 0.0, 1.0).mean())


def squared_ramp(margins: Array, margin: float) -> float:
    """Mean of ``min(1, [1 - t/margin]_+^2)``: Phi of mcODM, where ``margin = 1 - theta``."""
    return float((np.clip(1.0 - margins / margin, 0.0, 1.0) ** 2).mean())


def conjugate_exponent(p: float) -> float:
    """``p* = p / (p - 1)``, infinite for p = 1."""
    return float("inf") if p == 1.0 else p / (p - 1.0)


def lp_case(p: float, n_classes: int) -> str:
    """Which case of Corollary 8: the complexity grows like log c, or like c^(1/p*)."""
    return "logarithmic" if conjugate_exponent(p) >= 2.0 * np.log(n_classes) else "polynomial"


def lp_class_factor(p: float, n_classes: int) -> float:
    """The last factor of Corollary 8, as printed."""
    if lp_case(p, n_classes) == "logarithmic":
        log_c = np.log(n_classes)
        return float(np.sqrt(np.e) * (4.0 * log_c) ** (1.0 + 1.0 / (2.0 * log_c)))
    p_star = conjugate_exponent(p)
    return float((2.0 * p_star) ** (1.0 + 1.0 / p_star) * n_classes ** (1.0 / p_star))


def lp_bound(
    empirical: float, n_rows: int, n_classes: int, p: float, norm: float, trace: float, margin: float, delta: float
) -> Terms:
    """Corollary 8 of Lei, Dogan, Binder and Kloft (2015), with the ramp loss (L = 1/margin, B = 1).

    ``R <= mean l_rho + (2 L Lambda / n) sqrt(trace) factor(p, c) + 3 sqrt(log(2/delta) / (2n))``, where ``trace`` is
    ``sum_i k(x_i, x_i)`` and ``Lambda >= |W|_{2,p}``.
    """
    complexity = 2.0 * norm / (margin * n_rows) * np.sqrt(trace) * lp_class_factor(p, n_classes)
    return {"empirical": empirical, "complexity": float(complexity), "confidence": confidence(n_rows, delta)}


def lp_sharp_class_factor(p: float, n_classes: int) -> float:
    """``inf_{2 <= t <= p*} sqrt(8 pi t) c^(1/t) tau_t`` with the exact Gaussian moments ``tau_t = (E|g|^t)^(1/t)``.

    It is what the proof of Corollary 8 shows before it bounds the moments. (The proof loses a factor sqrt(pi) on the way to
    the printed corollary; the moments' bound gives away more than that, so the printed one holds, too.)
    """
    largest = min(conjugate_exponent(p), max(2.0, 2.0 * np.log(n_classes)))  # the infimum is not beyond 2 log c

    def factor(t: float) -> float:
        moment = np.sqrt(2.0) * np.exp((gammaln((t + 1.0) / 2.0) - 0.5 * np.log(np.pi)) / t)
        return float(np.sqrt(8.0 * np.pi * t) * n_classes ** (1.0 / t) * moment)

    return _least(factor, largest)


def lp_sampled_class_factor(p: float, n_classes: int) -> float:
    """``inf_{2 <= t <= p*} sqrt(8 pi t E |g|_t^2)`` for c Gaussians g: Theorem 7 for the norms between p and 2, sampled.

    Corollary 8 begins with it, and bounds the mean by moments of single Gaussians. The draws are always the same; their
    error is below one per cent.
    """
    largest = min(conjugate_exponent(p), max(2.0, 2.0 * np.log(n_classes)))
    sizes = np.abs(np.random.default_rng(0).standard_normal((_DRAWS, n_classes)))

    def factor(t: float) -> float:
        return float(np.sqrt(8.0 * np.pi * t * np.mean((sizes**t).sum(axis=1) ** (2.0 / t))))

    return _least(factor, largest)


def _least(factor: Callable[[float], float], largest: float) -> float:
    """On the exponents from 2 on."""
    ends = [factor(2.0), factor(largest)]
    inside = [minimize_scalar(factor, bounds=(2.0, largest), method="bounded").fun] if largest > 2.0 else []
    return float(min(ends + inside))


def lp_sampled_bound(
    empirical: float, n_rows: int, norm: float, complexity: float, margin: float, delta: float
) -> Terms:
    """Theorem 5 of Lei et al.: ``2 sqrt(2 pi) L / n`` times Lambda times a mean dual norm, which `complexity` is."""
    found = 2.0 * np.sqrt(2.0 * np.pi) * norm * complexity / (margin * n_rows)
    return {"empirical": empirical, "complexity": float(found), "confidence": confidence(n_rows, delta)}


def lp_class_factors(p: float, n_classes: int) -> Terms:
    """What multiplies ``Lambda sqrt(trace) / (margin n)`` in each of the paper's bounds, from the oldest to the sharpest.

    Remark 6 has 4 c, whatever p is: each class for itself. Corollary 8 is as printed; "before its last step" has exact
    Gaussian moments; Theorem 7 is where the corollary begins. Theorem 5, where that begins, depends on the rows:
    `generalization_bound` with ``kind="lp_sampled"`` estimates it.
    """
    return {
        "Remark 6": 4.0 * n_classes,
        "Corollary 8": 2.0 * lp_class_factor(p, n_classes),
        "Corollary 8, before its last step": lp_sharp_class_factor(p, n_classes),
        "Theorem 7, sampled": lp_sampled_class_factor(p, n_classes),
    }


def lp_sharp_bound(
    empirical: float, n_rows: int, n_classes: int, p: float, norm: float, trace: float, margin: float, delta: float
) -> Terms:
    """Corollary 8 before its last step: exact Gaussian moments and the best exponent, about half of it."""
    complexity = norm / (margin * n_rows) * np.sqrt(trace) * lp_sharp_class_factor(p, n_classes)
    return {"empirical": empirical, "complexity": float(complexity), "confidence": confidence(n_rows, delta)}


def mcodm_bound(
    empirical: float, n_rows: int, n_classes: int, norm: float, radius: float, margin: float, delta: float
) -> Terms:
    """Theorem 1 of Zhang and Zhou (2017), with ``margin = 1 - theta`` and ``Lambda >= |W|_F``.

    ``R <= mean Phi + 16 r Lambda / (1 - theta) sqrt(2 pi c / n) + 3 sqrt(log(2/delta) / (2n))``.
    """
    complexity = 16.0 * radius * norm / margin * np.sqrt(2.0 * np.pi * n_classes / n_rows)
    return {"empirical": empirical, "complexity": float(complexity), "confidence": confidence(n_rows, delta)}


def angular_loss_range(
    n_classes: int, norm: float, radius: float, margin: float, cosine: float, separated: bool
) -> float:
    """B of Lemma 4 of AR-MSVM, an upper bound on ``[1 - t/margin]_+``: with angles if the classes are separated."""
    if not separated:
        return 2.0 * radius * norm / margin + 1.0
    c = n_classes
    spread = np.sqrt((1.0 - 1.0 / c) * (cosine + (c + 1.0) / (c - 1.0)))
    return float(spread * radius * norm / margin + 1.0)


def angular_bound(
    n_rows: int, n_classes: int, norm: float, radius: float, margin: float, cosine: float, separated: bool, delta: float
) -> Terms:
    """Theorem 2 of AR-MSVM (Li, Zhou, Xie and Zhang, 2017): a bound on the *excess risk* ``L(h) - L(h*)``.

    ``8 c^2 C1 C2 / (p sqrt n) + 2 / sqrt n + B sqrt(2 log(2/delta) / n)``, with ``C1 = radius >= |x|``,
    ``C2 = norm >= |w_k|``, p = margin, and B from :func:`angular_loss_range`, where `cosine` is that of the smallest angle
    (the paper's Eq. 3: ``max_{k<l} |cos(w_k, w_l)|``).
    """
    reach = angular_loss_range(n_classes, norm, radius, margin, cosine, separated)
    return {
        "complexity": float(8.0 * n_classes**2 * radius * norm / (margin * np.sqrt(n_rows))),
        "offset": float(2.0 / np.sqrt(n_rows)),
        "confidence": float(reach * np.sqrt(2.0 * np.log(2.0 / delta) / n_rows)),
    }


def confidence(n_rows: int, delta: float) -> float:
    """``3 sqrt(log(2/delta) / (2n))``, for a loss bounded by 1."""
    return float(3.0 * np.sqrt(np.log(2.0 / delta) / (2.0 * n_rows)))
