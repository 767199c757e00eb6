"""Which machine suits this data: nested cross-validation of all machines, statistics, a recommendation."""

from polymargin.comparison.candidates import Candidate, default_candidates
from polymargin.comparison.compare import candidates_for, compare_machines
from polymargin.comparison.result import Comparison

__all__ = ["Candidate", "Comparison", "candidates_for", "compare_machines", "default_candidates"]
