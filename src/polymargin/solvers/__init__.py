"""Solvers: each takes a `Problem`, proves values to a `Ledger` and returns a `Solution`."""

from polymargin.solvers.choice import solve
from polymargin.solvers.dual_ascent import Solution, SparseDuals, WarmStart

__all__ = ["Solution", "SparseDuals", "WarmStart", "solve"]
