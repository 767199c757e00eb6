"""Maxima over the scores of one row: what the machines with a quadratic penalty ask of their blocks.

Scores are class-major, ``(c, n)``, with rows sorted by class. A block's curvature are edges between the classes, as
`systems/laplacian.py` takes them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.losses.domains.domain import Domain
from polymargin.solvers.interior.blocks.max_terms import Array, Labels, MaxTerms


class Edges(NamedTuple):
    """The curvature of all rows; see `assemble`."""

    mesh: Array | None = None
    star: Array | None = None
    minus: Array | None = None


class Face(NamedTuple):
    """Multipliers with only some pieces free; a free piece takes from the leading piece of its term."""

    A: Array
    free: Labels  # flat indices into A
    lead: Labels
    row: Labels  # of the free piece
    gains: Labels  # class of the free piece
    loses: Labels  # class of the leading piece

    def shift(self, change: Array) -> None:
        self.A.ravel()[self.free] += change
        np.subtract.at(self.A.ravel(), self.lead, change)


class RowTerms(MaxTerms):
    """One term or more a row; at the optimum W = X' tau, and off the own class the duals are a = -tau."""

    domain: Domain  # of the duals of a row
    piece_class: Labels  # class whose score a piece raises; s_y for the constant piece

    def __init__(self, y: Labels, cost: Array, n_classes: int, proximal: Array) -> None:
        self.proximal, self.cost = proximal, cost
        self.y, self.shape = y, (n_classes, y.size)
        self.own = y * y.size + np.arange(y.size)  # flat index of (y_i, i)
        self.given: Array | None = None

    def shift(self, given: Array) -> None:
        """Adds these scores (c, n) to all scores to come."""
        self.given = given
        self.offset = self.offset + self.lift(given)

    def edges(self) -> Edges:
        raise NotImplementedError

    def gain(self, tau: Array) -> float:
        """The dual's concave part, minus the conjugate of the loss: for hinges the sum of the duals."""
        own = float(tau.ravel()[self.own].sum())
        return own if self.given is None else own - float(np.vdot(tau, self.given))

    def feasible(self, a: Array) -> Array:
        """Duals (c, n) in their domains near these."""
        return self.domain.repaired(np.maximum(a, 0.0).T, self.y, self.cost).T

    def intercept_slacks(self, S: Array) -> Array:
        """(c, c): how far b_k - b_l may grow with all terms still at the pieces that carry multipliers; inf: not known."""
        return np.full((self.shape[0],) * 2, np.inf)

    def _carrying(self) -> NDArray[np.bool_]:
        """Pieces with multipliers at the optimum: their share of the weight exceeds their slack."""
        return np.greater(self.A, self.f * self.weight)

    def face(self) -> Face | None:
        """The face of the dual polytope the iterate tends to, None if it cannot be solved on."""
        n_terms, n = self.t.size, self.y.size
        A = np.where(self._carrying(), self.A, 0.0)
        lead = A.argmax(axis=0).ravel() * n_terms + np.arange(n_terms)
        rest = A.copy()
        rest.ravel()[lead] = 0.0
        A.ravel()[lead] = (self.weight - rest.sum(axis=0)).ravel()
        free = np.flatnonzero(rest)
        lead = lead[free % n_terms]
        pieces = self.piece_class.ravel()
        return Face(A, free, lead, free % n, pieces[free], pieces[lead])

    def face_gaps(self, face: Face, S: Array) -> Array:
        """E of the free pieces minus E of their leading pieces: 0 at the optimum."""
        E = (self.lift(S) + self.offset).ravel()
        return E[face.free] - E[face.lead]

    def face_pull(self, face: Face, feasible: bool = False) -> Array:
        """tau of the face's multipliers; if `feasible`, of the nearest ones in the polytope."""
        if not feasible:
            return self.adjoint(face.A)
        A = np.maximum(face.A, 0.0)
        return self.adjoint(A * (self.weight / A.sum(axis=0)))
