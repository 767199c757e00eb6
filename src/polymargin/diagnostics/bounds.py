"""Generalisation bounds of the papers, computed for a fitted machine, with every term and every assumption.

A theorem speaks of machines ``x -> <w_k, phi(x)>`` without offsets. Offsets b are taken in as one more feature of constant
value r (the radius of the rows, so that the bound does not depend on the units of X): ``w_k' = (w_k, b_k / r)``,
``k'(x, x) = k(x, x) + r^2``. That is the same machine, so the theorems hold for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from polymargin import validation
from polymargin.diagnostics import formulas
from polymargin.diagnostics.margins import margins_of_scores
from polymargin.diagnostics.sampled import Sampled, gaussian_complexity
from polymargin.diagnostics.view import Array, View, view_of

_ROUNDING = 1e-9
_ERRORS = 3.0  # standard errors that are added to an estimated mean


class Assumption(NamedTuple):
    """What a theorem needs: `status` is "holds" or "fails" where it was checked, "assumed" where it cannot be."""

    statement: str
    status: str


@dataclass(frozen=True)
class Bound:
    """A generalisation bound of a fitted machine; ``print`` shows all of it.

    Attributes
    ----------
    kind, theorem : str
        The name it was asked by, and the theorem.
    quantity : str
        What is bounded: the error rate on new rows, or the excess risk.
    value : float
        The bound: the sum of `terms`.
    terms : dict
        The empirical term, the complexity, the price of the confidence.
    constants : dict
        What the terms were computed from: n_rows, n_classes, norm, radius, margin, delta, ...
    assumptions : tuple of Assumption
        What must be true for the bound to hold, and whether it is.
    trivial : float
        What is known without any theorem: 1 for an error rate, the range of the loss for an excess risk.
    """

    kind: str
    theorem: str
    quantity: str
    terms: dict[str, float]
    constants: dict[str, Any]
    assumptions: tuple[Assumption, ...]
    trivial: float = 1.0

    @property
    def value(self) -> float:
        return float(sum(self.terms.values()))

    @property
    def vacuous(self) -> bool:
        """Whether the bound says no more than what is known without it."""
        return self.value >= self.trivial

    @property
    def holds(self) -> bool:
        """Whether no assumption is known to fail."""
        return all(assumption.status != "fails" for assumption in self.assumptions)

    def as_dict(self) -> dict[str, Any]:
        """All of it in numbers, texts, lists and dictionaries that `json.dumps` takes."""
        return {
            "kind": self.kind,
            "theorem": self.theorem,
            "quantity": self.quantity,
            "value": self.value,
            "vacuous": self.vacuous,
            "holds": self.holds,
            "trivial": float(self.trivial),
            "terms": dict(self.terms),
            "constants": {k: None if v == float("inf") else v for k, v in self.constants.items()},
            "assumptions": [item._asdict() for item in self.assumptions],
        }

    def __str__(self) -> str:
        verdict = f"vacuous: at least {self.trivial:.4g}, which is known without it" if self.vacuous else "not vacuous"
        terms = " + ".join(f"{value:.4g} ({name})" for name, value in self.terms.items())
        constants = ", ".join(f"{k} = {v:.4g}" if isinstance(v, float) else f"{k} = {v}" for k, v in self.constants.items())
        lines = [self.theorem, f"  {self.quantity} <= {self.value:.4g}  ({verdict})", f"  = {terms}", f"  with {constants}"]
        return "\n".join(lines + [f"  {item.status:>8}: {item.statement}" for item in self.assumptions])


def generalization_bound(
    est: Any,
    X: Any,
    y: Any,
    delta: float = 0.05,
    kind: str = "lp",
    *,
    p: float | None = None,
    margin: float | None = None,
    norm: float | None = None,
    radius: float | None = None,
) -> Bound:
    """A bound on the error of a fitted machine on new rows, from its training rows.

    Parameters
    ----------
    est : fitted machine
        One of polymargin's, linear or with a kernel, or a linear scikit-learn classifier with one vector per class; also in
        a Pipeline (the bound is about the last step: other steps must not have been fitted on these rows) or a search.
    X, y : the training rows and their class labels
        For ``kernel="precomputed"`` X is the training kernel matrix.
    delta : float, default=0.05
        The bound holds with probability 1 - delta over the draw of the training rows.
    kind : {"lp", "lp_sharp", "lp_sampled", "mcodm", "angular"}, default="lp"
        - "lp": Corollary 8 of the lp-norm machine's paper, with its two cases in p*; for p = 2 that of Crammer-Singer;
        - "lp_sharp": the same before its last, generous step (exact Gaussian moments): smaller, and it holds as well;
        - "lp_sampled": Theorem 5, from which it follows, with the mean over Gaussian variables estimated by 200 draws, and
          three standard errors added: the smallest of the three;
        - "mcodm": Theorem 1 of the optimal margin distribution machine;
        - "angular": Theorem 2 of AR-MSVM. It bounds the *excess risk* and does not contain the training error.
    p : float, default=None
        Exponent of ``|W|_{2,p}``, from 1 to 2, in the first three. None: the machine's own `p` if it is one, else 2.
    margin : float, default=None
        Margin from which on the loss of a row is 0. None: 1, for "mcodm" ``1 - theta`` if the machine has a `theta`.
    norm : float, default=None
        Lambda, the bound on ``|W|_{2,p}`` (for "mcodm" ``|W|_F``, for "angular" the longest ``|w_k|``), offsets included.
        None: that of the fitted machine, which strictly was not fixed before seeing the rows.
    radius : float, default=None
        ``r`` with ``k(x, x) <= r^2`` for all rows, new ones too; in the first three kinds it is only the size of the
        offsets' feature. None: that of the training rows.

    Returns
    -------
    Bound
        Its `value` may be above 1: then it is vacuous, and says so.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import CrammerSingerSVC
    >>> from polymargin.diagnostics import generalization_bound
    >>> X, y = load_iris(return_X_y=True)
    >>> bound = generalization_bound(CrammerSingerSVC(random_state=0).fit(X, y), X, y)
    >>> sorted(bound.terms), bound.vacuous
    (['complexity', 'confidence', 'empirical'], True)
    """
    if kind not in _KINDS:
        raise ValueError(f"kind={kind!r} is not valid: use one of {', '.join(map(repr, _KINDS))}.")
    if not isinstance(delta, Real) or not 0.0 < float(delta) < 1.0:
        raise ValueError(f"delta={delta!r} is not valid: it must lie between 0 and 1, e.g. 0.05.")
    if np.ndim(y) == 2 and np.shape(y)[1] > 1:
        raise ValueError("the theorems are about one class per row; y is a matrix of labels.")
    view = view_of(est)
    margin = _own_margin(view.estimator, kind) if margin is None else margin
    validation.positive("margin", margin, "e.g. 1")
    if p is not None and not kind.startswith("lp"):
        raise ValueError(f"p={p!r} has no effect on kind={kind!r}; leave it out.")
    p = _own_exponent(view.estimator) if p is None else p
    if not isinstance(p, Real) or not 1.0 <= float(p) <= 2.0:
        raise ValueError(f"p={p!r} is not valid: Corollary 8 is about 1 <= p <= 2.")
    sample = _measure(view, X, y, radius)
    if kind == "lp_sampled":
        spread = gaussian_complexity(view, view.rows(X), float(p), sample.constant)
        sample = sample._replace(spread=spread)
    return _KINDS[kind](_Question(kind, sample, float(delta), float(margin), float(p), norm))


_DRAWN = Assumption("X, y are the training rows, drawn independently from the distribution of new rows", "assumed")
_SCALED = Assumption("the offsets' feature has the length of the longest of these rows, fixed before seeing them", "assumed")
_STEPS = Assumption("the steps of the pipeline before the machine were not fitted on these rows", "assumed")


class _Sample(NamedTuple):
    """What the theorems need to know of machine and rows; vectors and rows with the offsets' feature."""

    margins: Array
    gram: Array
    trace: float
    radius: float
    fitted_radius: float  # of the training rows
    constant_length: bool  # k(x, x) is the same for all x
    radius_given: bool
    assumptions: tuple[Assumption, ...]
    constant: float = 0.0  # the offsets' feature
    spread: Sampled | None = None  # of the rows, where it was asked for

    @property
    def lengths(self) -> Array:
        return np.sqrt(np.maximum(self.gram.diagonal(), 0.0))

    def norm(self, p: float) -> float:
        return float(np.linalg.norm(self.lengths, ord=p))


class _Question(NamedTuple):
    kind: str
    sample: _Sample
    delta: float
    margin: float
    p: float
    norm: float | None

    @property
    def counts(self) -> tuple[int, int]:
        return len(self.sample.margins), len(self.sample.gram)


def _measure(view: View, X: Any, y: Any, radius: float | None) -> _Sample:
    rows = view.rows(X)
    margins = margins_of_scores(view.scores(rows), view.indices(y))
    squares = view.squared_lengths(rows)
    gram = view.gram(rows if view.is_precomputed else None)
    widest = float(np.sqrt(max(squares.max(), 0.0)))
    r = widest if radius is None else validation.positive("radius", radius, "at least the length of the longest row")
    b = view.offsets - view.offsets.mean()
    constant = (r if r > 0 else 1.0) if np.abs(b).max() > 0 else 0.0
    if constant:
        gram = gram + np.outer(b, b) / constant**2
    return _Sample(
        margins=margins,
        gram=gram,
        trace=float(squares.sum() + len(squares) * constant**2),
        radius=float(np.hypot(r, constant)),
        fitted_radius=float(np.hypot(widest, constant)),
        constant_length=view.is_kernel and view.estimator.kernel in ("rbf", "laplacian"),
        radius_given=radius is not None,
        assumptions=(_DRAWN, *([_STEPS] if view.steps else []), *([_SCALED] if constant and radius is None else [])),
        constant=constant,
    )


def _lp(ask: _Question) -> Bound:
    n, c = ask.counts
    own = ask.sample.norm(ask.p)
    norm, assumptions = _norm_bound(ask, own, f"|W|_{{2,{ask.p:g}}}")
    sharp = ask.kind == "lp_sharp"
    formula = formulas.lp_sharp_bound if sharp else formulas.lp_bound
    empirical = formulas.ramp(ask.sample.margins, ask.margin)
    terms = formula(empirical, n, c, ask.p, norm, ask.sample.trace, ask.margin, ask.delta)
    constants = _constants(ask, norm) | {
        "p": ask.p,
        "p_star": formulas.conjugate_exponent(ask.p),
        "case": formulas.lp_case(ask.p, c),
        "trace": ask.sample.trace,
    }
    theorem = "Corollary 8 of Lei et al. (2015)" + (", before the Gaussian moments are bounded" if sharp else "")
    return Bound(ask.kind, theorem, "error rate on new rows", terms, constants, (*ask.sample.assumptions, *assumptions))


def _lp_sampled(ask: _Question) -> Bound:
    n, _ = ask.counts
    spread = ask.sample.spread
    assert spread is not None  # generalization_bound draws
    norm, assumptions = _norm_bound(ask, ask.sample.norm(ask.p), f"|W|_{{2,{ask.p:g}}}")
    complexity = spread.mean + _ERRORS * spread.error
    empirical = formulas.ramp(ask.sample.margins, ask.margin)
    terms = formulas.lp_sampled_bound(empirical, n, norm, complexity, ask.margin, ask.delta)
    constants = _constants(ask, norm) | {
        "p": ask.p,
        "p_star": formulas.conjugate_exponent(ask.p),
        "trace": ask.sample.trace,
        "class_factor": float(2.0 * np.sqrt(2.0 * np.pi) * complexity / np.sqrt(ask.sample.trace)),
        "n_draws": spread.n_draws,
        "standard_error": spread.error,
    }
    drawn = Assumption(f"the mean over Gaussian variables is below that of {spread.n_draws} draws and 3 errors", "assumed")
    said = (*ask.sample.assumptions, *assumptions, drawn)
    return Bound(ask.kind, "Theorem 5 of Lei et al. (2015)", "error rate on new rows", terms, constants, said)


def _mcodm(ask: _Question) -> Bound:
    n, c = ask.counts
    norm, assumptions = _norm_bound(ask, ask.sample.norm(2.0), "|W|_F")
    empirical = formulas.squared_ramp(ask.sample.margins, ask.margin)
    terms = formulas.mcodm_bound(empirical, n, c, norm, ask.sample.radius, ask.margin, ask.delta)
    said = (*ask.sample.assumptions, *assumptions, _radius_assumption(ask.sample))
    constants = _constants(ask, norm) | {"radius": ask.sample.radius}
    return Bound(ask.kind, "Theorem 1 of Zhang and Zhou (2017)", "error rate on new rows", terms, constants, said)


def _angular(ask: _Question) -> Bound:
    n, c = ask.counts
    norm, assumptions = _norm_bound(ask, float(ask.sample.lengths.max()), "max_k |w_k|")
    cosine = _largest_cosine(ask.sample.gram)
    separated = bool((ask.sample.margins > 0).all())
    numbers = (c, norm, ask.sample.radius, ask.margin, cosine, separated)
    reach = formulas.angular_loss_range(*numbers)
    constants = _constants(ask, norm) | {
        "radius": ask.sample.radius,
        "min_angle": float(np.degrees(np.arccos(cosine))),
        "loss_range": reach,
        "separated": separated,
    }
    said = (
        *ask.sample.assumptions,
        *assumptions,
        _radius_assumption(ask.sample),
        Assumption("of all machines in the class this one has the smallest mean loss [1 - gamma/margin]_+", "assumed"),
        Assumption(
            "all rows, new ones too, are on the right side (these are), so that the range of the loss may use the angles"
            if separated
            else "the range of the loss is Lemma 4's without angles: not all rows are on the right side",
            "assumed" if separated else "holds",
        ),
        Assumption("the theorem as printed (its Lemmas 2 and 3 together would give 4 times the first two terms)", "assumed"),
    )
    terms = formulas.angular_bound(n, *numbers, ask.delta)
    theorem = "Theorem 2 of Li et al. (2017)"
    return Bound(ask.kind, theorem, "excess risk over the best machine", terms, constants, said, trivial=reach)


_KINDS: dict[str, Callable[[_Question], Bound]] = {
    "lp": _lp,
    "lp_sharp": _lp,
    "lp_sampled": _lp_sampled,
    "mcodm": _mcodm,
    "angular": _angular,
}


def _constants(ask: _Question, norm: float) -> dict[str, Any]:
    n, c = ask.counts
    return {"n_rows": n, "n_classes": c, "delta": ask.delta, "margin": ask.margin, "norm": norm}


def _norm_bound(ask: _Question, own: float, name: str) -> tuple[float, tuple[Assumption, ...]]:
    if ask.norm is None:
        return own, (Assumption(f"norm = {name} of the fitted machine was fixed before seeing the rows", "assumed"),)
    given = validation.positive("norm", ask.norm, f"at least {own:.4g}, that of the fitted machine")
    status = "holds" if own <= given * (1 + _ROUNDING) else "fails"
    return given, (Assumption(f"{name} = {own:.4g} of the fitted machine is at most norm = {given:.4g}", status),)


def _radius_assumption(sample: _Sample) -> Assumption:
    if sample.constant_length and sample.radius >= sample.fitted_radius:
        return Assumption("all rows have the same length in this kernel's space", "holds")
    if not sample.radius_given:
        return Assumption("no new row is longer than the longest of these rows (radius)", "assumed")
    inside = sample.fitted_radius <= sample.radius * (1 + _ROUNDING)
    return Assumption("no row is longer than radius, new ones too", "assumed" if inside else "fails")


def _largest_cosine(gram: Array) -> float:
    """Cosine of the smallest angle between lines along the class vectors (AR-MSVM, Eq. 3); 0 if there is none."""
    norms = np.sqrt(np.maximum(gram.diagonal(), 0.0))
    k, m = np.triu_indices(len(gram), 1)
    products = norms[k] * norms[m]
    found = products > 0
    return float(np.clip(np.abs(gram[k, m][found]) / products[found], 0.0, 1.0).max(initial=0.0))


def _own_exponent(estimator: Any) -> float:
    """The machine's p if it can be that of ``|W|_{2,p}``; any p from 1 to 2 gives a valid bound."""
    for name in ("p_", "p"):
        p = getattr(estimator, name, None)
        if isinstance(p, Real) and not isinstance(p, bool) and 1.0 <= float(p) <= 2.0:
            return float(p)
    return 2.0


def _own_margin(estimator: Any, kind: str) -> float:
    theta = getattr(estimator, "theta", None)
    return 1.0 - float(theta) if kind == "mcodm" and isinstance(theta, Real) and 0.0 <= float(theta) < 1.0 else 1.0
