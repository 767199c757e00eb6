"""Classes against each other: margins between them, angles of their vectors, which of them are confused.

- pairwise margin of two classes: ``2 / |w_k - w_l|``, the width of the band in which ``|s_k - s_l| < 1``;
- angle of two classes: ``arccos(<w_k, w_l> / (|w_k| |w_l|))``.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin import validation
from polymargin.diagnostics.view import Array, View, view_of

_ROUNDING = 1e-13  # squared distances below this part of the squared norms are rounding
_BLOCK_ENTRIES = 1 << 22  # differences of scores held at a time


def pairwise_margins(est: Any, *, K: Any = None) -> Array:
    """Margins between classes, ``2 / |w_k - w_l|``, in units of X or of the kernel's space.

    Parameters
    ----------
    est : fitted machine
        One of polymargin's, linear or with a kernel, or a linear scikit-learn classifier with one vector per class.
    K : array of shape (n_train, n_train), default=None
        Training kernel matrix; needed for ``kernel="precomputed"`` only.

    Returns
    -------
    ndarray of shape (n_classes, n_classes)
        Symmetric; infinite on the diagonal and for classes with the same vector.

    Examples
    --------
    >>> import numpy as np
    >>> from polymargin import CrammerSingerSVC
    >>> from polymargin.diagnostics import pairwise_margins
    >>> X = np.array([[-1.0], [1.0]])
    >>> pairwise_margins(CrammerSingerSVC(C=10, tol=1e-9).fit(X, [0, 1]))[0, 1].round(3).item()
    2.0
    """
    distances = distances_of_gram(view_of(est).gram(K))
    with np.errstate(divide="ignore"):
        return np.asarray(2.0 / distances)


def angles(est: Any, *, K: Any = None) -> Array:
    """Angles between class vectors in degrees, NaN where a vector is zero.

    They depend on the origin of the vectors, margins do not: machines whose vectors add up to zero (Crammer-Singer,
    Weston-Watkins) have a mean cosine below 0, and two classes always 180 degrees. Parameters are those of
    :func:`pairwise_margins`.

    Returns
    -------
    ndarray of shape (n_classes, n_classes)
        Symmetric, 0 on the diagonal.
    """
    return angles_of_gram(view_of(est).gram(K))


def angles_of_gram(G: Array) -> Array:
    """Angles in degrees from inner products."""
    norms = np.sqrt(np.maximum(G.diagonal(), 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        cosines = G / np.outer(norms, norms)
    found = np.degrees(np.arccos(np.clip(cosines, -1.0, 1.0)))
    found[np.diag_indices_from(found)] = np.where(norms > 0, 0.0, np.nan)
    return found


class Spectrum(NamedTuple):
    """Singular values of the class vectors, largest first, their numerical rank, and ``sigma_1 / sigma_rank``."""

    singular_values: Array
    rank: int
    condition: float


def spectrum(est: Any, *, K: Any = None) -> Spectrum:
    """Singular values, rank and condition of W. Vectors that add up to zero have rank c - 1 at most.

    Values below 1e-7 of the largest do not count (they come from the inner products, so half of the digits are lost).
    """
    values = np.sqrt(np.maximum(np.linalg.eigvalsh(view_of(est).gram(K))[::-1], 0.0))
    rank = int((values > 1e-7 * values[0]).sum()) if values[0] > 0 else 0
    return Spectrum(values, rank, float(values[0] / values[rank - 1]) if rank else float("nan"))


class ConfusablePair(NamedTuple):
    """Two classes, how close they are and how often they are taken for each other.

    Attributes
    ----------
    first, second : labels
    margin, angle : float
        The pairwise margin ``2 / |w_k - w_l|`` and the angle of the vectors in degrees.
    distance : float or None
        Mean signed distance of the rows of the two classes from their common border. None without rows, as all below.
    first_as_second, second_as_first : int or None
        Rows of the first class that are predicted as the second, and the other way round.
    error_rate : float or None
        Share of both kinds of errors among the rows of the two classes.
    """

    first: Any
    second: Any
    margin: float
    angle: float
    distance: float | None = None
    first_as_second: int | None = None
    second_as_first: int | None = None
    error_rate: float | None = None


def confusable_pairs(
    est: Any, X: Any = None, y: Any = None, *, n_pairs: int | None = 10, by: str | None = None, K: Any = None
) -> list[ConfusablePair]:
    """The pairs of classes that sit closest, with their errors.

    A small pairwise margin alone does not make two classes confusable: it says how steeply the machine tells them apart. On
    iris the two classes at the ends have the smallest margin, with the third between them. So if there are rows, pairs are
    sorted by how far the rows are from the border.

    Parameters
    ----------
    est : fitted machine
        As in :func:`pairwise_margins`.
    X, y : rows and their class labels, default=None
        Measure distances and count errors on these.
    n_pairs : int or None, default=10
        How many pairs; None: all.
    by : {"distance", "errors", "margin"} or None, default=None
        Smallest distance, most errors or smallest margin first; None: by distance with rows, by margin without.
    K : array of shape (n_train, n_train), default=None
        Training kernel matrix; needed for ``kernel="precomputed"`` only.

    Returns
    -------
    list of ConfusablePair

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import CrammerSingerSVC
    >>> from polymargin.diagnostics import confusable_pairs
    >>> X, y = load_iris(return_X_y=True)
    >>> closest = confusable_pairs(CrammerSingerSVC(random_state=0).fit(X, y), X, y)[0]
    >>> closest.first, closest.second
    (1, 2)
    """
    if (X is None) != (y is None):
        raise ValueError("X and y belong together: pass both, or neither.")
    by = ("margin" if X is None else "distance") if by is None else by
    if by not in ("distance", "errors", "margin"):
        raise ValueError(f"by={by!r} is not valid: use 'distance', 'errors', 'margin' or None.")
    if X is None and by != "margin":
        raise ValueError(f"by={by!r} needs rows: pass X and y.")
    view = view_of(est)
    G = view.gram(K)
    lengths, degrees = distances_of_gram(G), angles_of_gram(G)
    with np.errstate(divide="ignore"):
        widths = 2.0 / lengths
    first, second = np.triu_indices(len(G), 1)
    seen = None if X is None else _on_rows(view, X, y, lengths)
    keys: dict[str, NDArray[Any]] = {"margin": widths[first, second]}
    if seen is not None:
        keys |= {"distance": seen.distance[first, second], "errors": -(seen.confusion + seen.confusion.T)[first, second]}
    labels, found = view.classes.tolist(), []
    for pair in np.lexsort((widths[first, second], keys[by]))[:n_pairs]:
        k, m = int(first[pair]), int(second[pair])
        on_rows = () if seen is None else seen.of_pair(k, m)
        found.append(ConfusablePair(labels[k], labels[m], float(widths[k, m]), float(degrees[k, m]), *on_rows))
    return found


class _OnRows(NamedTuple):
    """Rows of class k (row) predicted as class l (column), and mean distances of both classes' rows from their border."""

    confusion: NDArray[np.int64]
    distance: Array

    def of_pair(self, k: int, m: int) -> tuple[float, int, int, float]:
        n_rows = self.confusion[[k, m]].sum()
        errors = self.confusion[k, m] + self.confusion[m, k]
        rate = float(errors / n_rows) if n_rows else 0.0
        return float(self.distance[k, m]), int(self.confusion[k, m]), int(self.confusion[m, k]), rate


def _on_rows(view: View, X: Any, y: Any, lengths: Array) -> _OnRows:
    own, c = view.indices(y), view.n_classes
    S = view.scores(view.rows(X))
    confusion = np.bincount(own * c + S.argmax(axis=1), minlength=c * c).reshape(c, c)
    counts = confusion.sum(axis=1)
    leads = np.zeros((c, c))  # sum over the rows of class k of s_k - s_l
    for k in range(c):
        rows = S[own == k]
        leads[k] = (rows[:, [k]] - rows).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):  # no rows, or no border: NaN sorts last
        distance = (leads + leads.T) / ((counts[:, None] + counts[None, :]) * lengths)
    return _OnRows(confusion, distance)


def distances_of_gram(G: Array) -> Array:
    """``|w_k - w_l|`` from inner products; what is below rounding is 0."""
    squares = G.diagonal()
    found = squares[:, None] + squares[None, :] - 2.0 * G
    found[found <= _ROUNDING * (squares[:, None] + squares[None, :])] = 0.0
    np.fill_diagonal(found, 0.0)
    return np.sqrt(found)


class NormBound(NamedTuple):
    """``largest = max_i |(<w_k - w_l, x_i>)_{k<l}|_p`` of the rows, and `bound` on it from radius and pairwise margins."""

    largest: float
    bound: float
    radius: float
    p: float


def pairwise_norm_bound(est: Any, X: Any, p: float | None = None, *, radius: float | None = None) -> NormBound:
    """Theorem 6 of M3SVM: ``|T(f)|_{inf,p} <= r (sum_{k<l} |w_k - w_l|^p)^(1/p)``.

    T(f) holds the differences of scores (without offsets) of all rows and pairs of classes. Its norm controls a capacity in
    the paper's guaranteed risk; it is not itself a bound on an error, so it has no delta and can be of any size.

    Parameters
    ----------
    est, X, radius
        As in :func:`~polymargin.diagnostics.generalization_bound`.
    p : float, default=None
        At least 1, or infinity. None: the machine's own `p` if it has one, else 2.
    """
    view = view_of(est)
    own = getattr(view.estimator, "p", 2.0)
    p = (float(own) if isinstance(own, Real) else 2.0) if p is None else p
    if not isinstance(p, Real) or not float(p) >= 1.0:
        raise ValueError(f"p={p!r} is not valid: it must be at least 1, or infinity.")
    rows = view.rows(X)
    gram = view.gram(rows if view.is_precomputed else None)
    k, m = np.triu_indices(len(gram), 1)
    S = view.scores(rows) - (view.offsets - view.offsets.mean())
    longest = float(np.sqrt(view.squared_lengths(rows).max()))
    r = longest if radius is None else validation.positive("radius", radius, f"at least {longest:.4g}")
    step = max(1, _BLOCK_ENTRIES // len(k))
    blocks = (S[i : i + step] for i in range(0, len(S), step))
    largest = max(float(_p_norms(block[:, k] - block[:, m], float(p)).max()) for block in blocks)
    return NormBound(largest, r * float(_p_norms(distances_of_gram(gram)[k, m][None], float(p))[0]), r, float(p))


def _p_norms(rows: Array, p: float) -> Array:
    """p-norm of each row, without overflow for a large p."""
    top = np.abs(rows).max(axis=1, keepdims=True)
    if np.isinf(p):
        return np.asarray(top[:, 0])
    safe = np.where(top > 0, top, 1.0)
    return np.asarray(safe[:, 0] * ((np.abs(rows) / safe) ** p).sum(axis=1) ** (1.0 / p)) * (top[:, 0] > 0)
