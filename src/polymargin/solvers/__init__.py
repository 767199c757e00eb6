"""Solvers: each takes a `Problem`, proves values to a `Ledger` and returns a `Solution`."""

from polymargin.solvers.plan import solve, solve_labels, solve_sets
from polymargin.solvers.types import Machine, Solution, SparseDuals, Start

__all__ = ["Machine", "Solution", "SparseDuals", "Start", "solve", "solve_labels", "solve_sets"]
