"""The top-k hinge: the mean of the k largest of ``m_l = 1[l != y] + s_l - s_y``, with the own class, if it is positive.

    loss = min z    subject to   z >= 0,   z = t + 1/k sum_l x_l,   f_l = x_l + t - m_l >= 0,   x_l >= 0

with multipliers ``g = u - s`` of z, A of f and ``B = s/k - A`` of x, where ``s = sum_l A_l`` is what the row's duals have in
common: it bounds all of them. For ``phi = f/A``, ``chi = x/B``, a Newton step changes them by

    dA = omega (q + dm - dt) + sigma ds/k,     omega = 1/(phi + chi),     sigma = chi omega

    Omega dt + rho ds = sum omega (q + dm) - short            Omega = sum omega,    rho = 1 - sum sigma / k
    rho dt - eta ds   = h - 1/k sum sigma (q + dm)            eta = z/g + sum phi sigma / k^2

with q, h and `short` from targets and residuals. Without dt and ds that is a mesh, less another one, and a star.

If k is the number of classes, all duals of a row are equal: one hinge of the mean.
"""

from __future__ import annotations

import numpy as np

from polymargin.losses.domains.top_k import TopKSimplex
from polymargin.solvers.interior.blocks.hinges import CrammerSinger
from polymargin.solvers.interior.blocks.max_terms import Array, Labels
from polymargin.solvers.interior.blocks.row_terms import Edges, Face, RowTerms

# Where only sums of margins count, single ones move far along the way, and omega multiplies their rounding.
_SOFTER = 5e4  # proximal terms, in those of the other blocks; 3e4 to 1e5 do


class MeanHinge(RowTerms):
    """``sum_i u_i [mean_l m_l]_+``; ``A[0]`` is the sum of a row's shares, ``A[1] = u - A[0]``."""

    def __init__(self, y: Labels, cost: Array, n_classes: int, proximal: Array) -> None:
        super().__init__(y, cost, n_classes, proximal)
        self.weight, self.domain = cost, TopKSimplex(n_classes)
        self.offset = np.zeros((2, y.size))
        self.offset[0] = 1.0 - 1.0 / n_classes

    def lift(self, S: Array) -> Array:
        return np.stack([S.mean(axis=0) - S.ravel()[self.own], np.zeros(S.shape[1])])

    def adjoint(self, A: Array) -> Array:
        tau = np.tile(A[0] / -self.shape[0], (self.shape[0], 1))
        tau.ravel()[self.own] += A[0]
        return tau

    def edges(self) -> Edges:
        omega, c = self.theta[0] * self.share[1], self.shape[0]
        return Edges(star=np.tile(omega / c, (c, 1)), minus=np.tile(np.sqrt(omega) / c, (c, 1)))

    def face(self) -> Face | None:
        return None


class TopK(CrammerSinger):
    """For k from 2 to one less than the classes; t and s of all rows are one array."""

    def __init__(self, y: Labels, cost: Array, n_classes: int, proximal: Array, k: int) -> None:
        super().__init__(y, cost, n_classes, _SOFTER * proximal)
        self.k, self.domain = k, TopKSimplex(k)

    def start(self, S: Array) -> None:
        m = self.lift(S) + self.offset
        t, s = m.max(axis=0), 0.5 * self.cost
        x = np.full(m.shape, 3.0)
        A = np.broadcast_to(s / len(m), m.shape)
        self.place(A, x + t - m, (s / self.k - A, x), (self.cost - s, t + x.sum(axis=0) / self.k))
        self.t = np.stack([t, s])
        size = self.A.size
        self.B, self.x = (part[size : 2 * size].reshape(m.shape) for part in (self.multipliers, self.slacks))
        self.g, self.z = self.multipliers[2 * size :], self.slacks[2 * size :]

    def loss(self, S: Array) -> float:
        self.E = self.lift(S) + self.offset
        largest = np.partition(self.E, -self.k, axis=0)[-self.k :].mean(axis=0)
        return float(self.cost @ np.maximum(largest, 0.0))

    def linearise(self) -> Edges:
        k, (t, s) = self.k, self.t
        phi, self.chi = self.f / self.A + self.proximal, self.x / self.B
        self.omega = 1.0 / (phi + self.chi)
        self.sigma = self.chi * self.omega
        parts = -self.sigma
        capped = np.argpartition(parts, k - 1, axis=0)[:k]  # of k duals at their cap, 1 - sigma is what counts
        np.put_along_axis(parts, capped, np.take_along_axis(phi * self.omega, capped, axis=0), axis=0)
        self.total, self.rho = self.omega.sum(axis=0), parts.sum(axis=0) / k
        self.eta = self.z / self.g + self.proximal + (phi * self.sigma).sum(axis=0) / k**2
        self.delta = self.rho**2 + self.eta * self.total
        self.lead = self.omega.argmax(axis=0)[None]
        self.residual = t - self.E - self.f + self.x
        self.short, self.z_residual = s - self.A.sum(axis=0), t + self.x.sum(axis=0) / k - self.z
        both = self.rho * self.omega + self.total * self.sigma / k
        return Edges(self.omega / np.sqrt(self.total), both / self.delta, both / np.sqrt(self.total * self.delta))

    def aim(self, target: Array | float) -> Array:
        towards = np.broadcast_to(target, self.multipliers.shape) / self.multipliers - self.slacks
        f, self.toward_x = towards[: 2 * self.A.size].reshape(2, *self.A.shape)
        self.toward_z = towards[2 * self.A.size :]
        self.q = f - self.toward_x - self.residual
        self.h = self.toward_z - self.toward_x.sum(axis=0) / self.k - self.z_residual
        return self.adjoint(self._move(np.zeros_like(self.A))[0])

    def _move(self, dm: Array) -> tuple[Array, Array, Array]:
        """dA, dt and ds for a change of m."""
        # Relative to the piece with the largest omega, which would multiply the rounding of its own dm.
        lead = np.take_along_axis(dm, self.lead, axis=0)[0]
        moved = self.q + (dm - lead)
        first = (self.omega * moved).sum(axis=0) - self.short
        second = self.h - lead - (self.sigma * moved).sum(axis=0) / self.k
        dt = (self.eta * first + self.rho * second) / self.delta
        ds = (self.rho * first - self.total * second) / self.delta
        return self.omega * (moved - dt) + self.sigma * ds / self.k, dt + lead, ds

    def follow(self, dS: Array) -> None:
        dm = self.lift(dS)
        dA, dt, ds = self._move(dm)
        dB = ds / self.k - dA
        dx = self.toward_x - self.chi * dB
        dz = dt + dx.sum(axis=0) / self.k + self.z_residual - self.proximal * ds
        df = dx + dt - dm + self.residual + self.proximal * dA
        self.direction = np.r_[dA.ravel(), dB.ravel(), -ds], np.r_[df.ravel(), dx.ravel(), dz], np.stack([dt, ds])

    def intercept_slacks(self, S: Array) -> Array:
        return RowTerms.intercept_slacks(self, S)

    def face(self) -> Face | None:
        return None
