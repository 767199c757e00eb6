"""From a fitted linear machine to a layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from polymargin.diagnostics.view import view_of


def to_torch(est: Any, *, dtype: torch.dtype | None = None, device: Any = None) -> nn.Linear:
    """The class vectors and offsets of a fitted linear machine as an ``nn.Linear`` that puts out a score for each class.

    Parameters
    ----------
    est : fitted classifier
        A machine of polymargin with kernel="linear", or a linear scikit-learn classifier with one vector for each class (of
        two classes: one vector v stands for -v/2 and v/2). A search is its best estimator. A pipeline must not have other
        steps: the layer could not do what they do.
    dtype : torch.dtype, optional
        By default that of the machine: float32 if it was fitted on float32 rows.
    device : torch.device or str, optional

    Returns
    -------
    nn.Linear
        With a bias, unless the machine has ``fit_intercept=False``. Output k is the score of ``est.classes_[k]``.

    Examples
    --------
    >>> import torch
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import CrammerSingerSVC
    >>> from polymargin.torch import to_torch
    >>> X, y = load_iris(return_X_y=True)
    >>> layer = to_torch(CrammerSingerSVC().fit(X, y))
    >>> layer
    Linear(in_features=4, out_features=3, bias=True)
    >>> layer(torch.from_numpy(X[:2])).argmax(dim=1)
    tensor([0, 0])
    """
    view = view_of(est)
    if view.steps:
        names = ", ".join(type(step).__name__ for step in view.steps)
        raise TypeError(
            f"to_torch converts {view.name} alone, not the steps before it ({names}): apply them to the rows, and pass the "
            "last step."
        )
    if view.is_kernel:
        raise TypeError(f"{view.name} has kernel={view.estimator.kernel!r}; only a machine with kernel='linear' is a layer.")
    vectors, offsets = view.vectors, view.offsets
    if dtype is None:
        dtype = torch.float32 if view.estimator.coef_.dtype == np.float32 else torch.float64
    free = bool(getattr(view.estimator, "fit_intercept", True))
    layer = nn.utils.skip_init(nn.Linear, vectors.shape[1], len(vectors), bias=free, dtype=dtype, device=device or "cpu")
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(vectors))
        if free:
            layer.bias.copy_(torch.from_numpy(offsets))
    return layer
