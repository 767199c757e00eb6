"""Displays over time and over a parameter: convergence of a fit, regularisation path."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymargin.plotting import _drawing as drawing

Array = NDArray[np.float64]


class ConvergenceDisplay:
    """How the certified relative gap of a fit fell over time, of one machine or several: the best so far.

    Make one with `from_estimator` or `from_certificates`.

    Parameters
    ----------
    seconds, gaps : dict
        Times and relative gaps by the name of the machine.
    tolerances : dict
        The `tol` of each.
    certified : dict
        Whether the gap is to a proven bound. A machine that is not convex has none: its curve shows the distance to its last
        objective, and says so.

    Attributes
    ----------
    seconds, gaps, tolerances, certified
        The data.
    ax_, figure_, lines_
        What matplotlib made.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import CrammerSingerSVC
    >>> from polymargin.plotting import ConvergenceDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = CrammerSingerSVC(tol=1e-6).fit(X, y)
    >>> display = ConvergenceDisplay.from_estimator(machine)
    >>> bool(display.gaps["CrammerSingerSVC"][-1] <= 1e-6)
    True
    """

    def __init__(
        self, seconds: dict[str, Array], gaps: dict[str, Array], tolerances: dict[str, float], certified: dict[str, bool]
    ):
        self.seconds = seconds
        self.gaps = gaps
        self.tolerances = tolerances
        self.certified = certified

    @classmethod
    def from_estimator(cls, estimator: Any, *, name: str | None = None, ax: Any = None) -> ConvergenceDisplay:
        """Draw for a fitted machine of polymargin, a list of them, or a dict of them by name."""
        from polymargin.diagnostics.view import view_of

        found = {}
        for label, machine in drawing.named(estimator, name).items():
            end = getattr(view_of(machine).estimator, "certificate_", None)
            if end is None:
                raise TypeError(f"{label} has no certificate_; polymargin's machines have one.")
            found[label] = end
        return cls.from_certificates(found, ax=ax)

    @classmethod
    def from_certificates(cls, certificates: Any, *, ax: Any = None) -> ConvergenceDisplay:
        """Draw a :class:`~polymargin.Certificate`, or a dict of them by name."""
        by_name = certificates if isinstance(certificates, dict) else {"machine": certificates}
        seconds, gaps, certified = {}, {}, {}
        for name, end in by_name.items():
            if not end.history:
                raise ValueError(f"the certificate of {name} has no history to draw.")
            history = np.array(end.history, dtype=np.float64)
            primal, dual = history[:, 1], history[:, 2]
            certified[name] = bool(np.isfinite(dual).any())
            below = dual if certified[name] else np.full_like(primal, primal.min())
            seconds[name] = history[:, 0]
            # the best so far: beside an objective that fell, the same gap is a larger share, but no step back
            gaps[name] = np.minimum.accumulate((primal - below) / np.maximum(np.abs(primal), 1e-300))
        return cls(seconds, gaps, {name: end.tol for name, end in by_name.items()}, certified).plot(ax)

    def plot(self, ax: Any = None) -> ConvergenceDisplay:
        """Draw on `ax`, or on new axes."""
        self.ax_, self.figure_ = drawing.axes(ax, figsize=(6.4, 4.4))
        self.lines_ = []
        for number, name in enumerate(self.seconds):
            seconds, gaps = self.seconds[name], self.gaps[name]
            drawn = np.isfinite(gaps) & (gaps > 0)  # a gap of exactly 0 has no place on a logarithmic axis
            label = name if self.certified[name] else f"{name} (to its last objective; no bound)"
            marker = drawing.MARKERS[number % len(drawing.MARKERS)]
            marks = {"marker": marker, "markersize": 4, "markevery": max(1, int(drawn.sum()) // 15)}
            self.lines_ += self.ax_.plot(seconds[drawn], gaps[drawn], label=label, **marks, **drawing.style(number))
        for tol in sorted(set(self.tolerances.values())):
            self.ax_.axhline(tol, color="0.4", linewidth=0.8, linestyle=(0, (1, 2)))
            # on the left, where curves are still high
            place = {"xycoords": ("axes fraction", "data"), "xytext": (4, 3), "textcoords": "offset points"}
            self.ax_.annotate(f"tol = {tol:g}", (0.0, tol), fontsize="small", color="0.25", **place)
        self.ax_.set(yscale="log", xlabel="seconds of the solver", ylabel="relative gap: (objective − bound) / objective")
        every = np.concatenate(list(self.seconds.values()))
        if every.min() > 0 and every.max() > 10 * every.min():
            self.ax_.set_xscale("log")
            from matplotlib import ticker  # few decades: numbers, not powers, which run into each other

            self.ax_.xaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
            self.ax_.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
            self.ax_.xaxis.set_minor_formatter(ticker.NullFormatter())
        self.ax_.grid(alpha=0.3)
        self.ax_.legend(**drawing.ABOVE)
        return self


class RegularizationPathDisplay:
    """What changes along a path over a parameter: scores, norms, objectives, one panel each.

    Parameters
    ----------
    values : array of shape (n_values,)
        Values of the parameter.
    scores, norms, objectives : array of shape (n_values,) or dict of such arrays, default=None
        What to draw; a dict draws several curves in one panel, e.g. ``{"training rows": ..., "held out": ...}``. A score may
        have shape (n_values, n_folds): mean and range over the folds are drawn. At least one must be given.
    param_name : str, default="C"

    Attributes
    ----------
    values, scores, norms, objectives, param_name
        The data.
    axes_, figure_
        What matplotlib made.

    Examples
    --------
    >>> from polymargin.plotting import RegularizationPathDisplay
    >>> display = RegularizationPathDisplay([0.1, 1, 10], scores=[0.8, 0.9, 0.85], norms=[0.5, 1.4, 2.0]).plot()
    >>> len(display.axes_)
    2
    """

    def __init__(self, values: Any, *, scores: Any = None, norms: Any = None, objectives: Any = None, param_name: str = "C"):
        self.values = np.asarray(values, dtype=np.float64)
        self.scores = self._curves("scores", scores)
        self.norms = self._curves("norms", norms)
        self.objectives = self._curves("objectives", objectives)
        self.param_name = param_name
        if not (self.scores or self.norms or self.objectives):
            raise ValueError("nothing to draw: pass scores, norms or objectives, one number per value.")

    def _curves(self, what: str, given: Any) -> dict[str, Array]:
        if given is None:
            return {}
        curves = given if isinstance(given, dict) else {"": given}
        found = {str(name): np.asarray(curve, dtype=np.float64) for name, curve in curves.items()}
        for name, curve in found.items():
            if len(curve) != len(self.values) or curve.ndim > 2:
                where = f"{what}[{name!r}]" if name else what
                raise ValueError(f"{where} has shape {curve.shape}; it needs one row for each of {len(self.values)} values.")
        return found

    @classmethod
    def from_path(cls, path: Any, X: Any = None, y: Any = None, *, axes: Any = None) -> RegularizationPathDisplay:
        """Draw the path that :func:`polymargin.regularization_path` returns: objectives and norms, with X, y also scores.

        Any object will do that has `values` and some of `param_name`, `objectives`, `scores` (numbers, or a function of X
        and y), and `norms` (one number per value, or one per value and class) or `coefs`.
        """
        scores, norms = getattr(path, "scores", None), getattr(path, "norms", None)
        if callable(scores):
            scores = None if X is None else scores(X, y)
        elif X is not None:
            raise ValueError("X and y have no effect: this path has its scores already, or none.")
        if norms is None and hasattr(path, "coefs"):
            norms = [np.linalg.norm(np.asarray(coef)) for coef in path.coefs]
        if norms is not None and np.ndim(norms) == 2:
            norms = np.linalg.norm(norms, axis=1)  # of the class vectors: together that of W
        name, objectives = getattr(path, "param_name", "C"), getattr(path, "objectives", None)
        return cls(path.values, param_name=name, scores=scores, norms=norms, objectives=objectives).plot(axes)

    @classmethod
    def from_search(cls, search: Any, *, axes: Any = None) -> RegularizationPathDisplay:
        """Draw mean and range of the folds' scores of a :class:`~polymargin.PathCV` or GridSearchCV over one parameter."""
        found = search.cv_results_
        names = list(found["params"][0])
        if len(names) != 1:
            raise ValueError(f"the search varies {', '.join(names)}; a path is drawn over one parameter.")
        folds = [np.asarray(found[f"split{fold}_test_score"]) for fold in range(search.n_splits_)]
        values = [params[names[0]] for params in found["params"]]
        return cls(values, scores={"held-out folds": np.column_stack(folds)}, param_name=names[0]).plot(axes)

    def plot(self, axes: Any = None) -> RegularizationPathDisplay:
        """Draw on `axes` (one for each of scores, norms, objectives that was given, in this order), or on new ones."""
        panels = [
            (label, curves)
            for label, curves in (("score", self.scores), ("norm of W", self.norms), ("objective", self.objectives))
            if curves
        ]
        if axes is None:
            fig, made = drawing.pyplot().subplots(
                len(panels), 1, sharex=True, squeeze=False, layout="constrained", figsize=(6.4, 1.2 + 2.2 * len(panels))
            )
            self.axes_ = made[:, 0]
        else:
            self.axes_ = np.atleast_1d(np.asarray(axes, dtype=object))
            fig = self.axes_[0].figure
        if len(self.axes_) != len(panels):
            raise ValueError(f"axes has {len(self.axes_)} axes for {len(panels)} panels.")
        self.figure_ = fig
        order = np.argsort(self.values, kind="stable")
        logarithmic = bool((self.values > 0).all()) and self.values.max() > 10 * self.values.min()
        for ax, (label, curves) in zip(self.axes_, panels, strict=True):
            self._draw(ax, label, curves, order)
            if logarithmic:
                ax.set_xscale("log")
        self.axes_[-1].set_xlabel(self.param_name)
        return self

    def _draw(self, ax: Any, label: str, curves: dict[str, Array], order: NDArray[np.intp]) -> None:
        x = self.values[order]
        for number, (name, curve) in enumerate(curves.items()):
            y = curve[order]
            look = drawing.style(number)
            if y.ndim == 2:
                ax.fill_between(x, y.min(axis=1), y.max(axis=1), color=look["color"], alpha=0.15, linewidth=0)
                y = y.mean(axis=1)
            marker = drawing.MARKERS[number % len(drawing.MARKERS)]
            ax.plot(x, y, marker=marker, markersize=4, label=name or None, **look)
        if label == "objective" and all((curve > 0).all() for curve in curves.values()):
            ax.set_yscale("log")
        ax.set_ylabel(label)
        ax.grid(alpha=0.3)
        if any(curves):
            ax.legend(frameon=False)
