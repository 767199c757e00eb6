"""
A loss of your own
==================

A loss of margins is the set in which the duals of a row may lie. Value, gradient, conjugate and the certificate
follow from that set, so a new loss is a class of a few lines, and any penalty takes it.
"""

# %%
# The three closest rivals count, each by a third: the duals lie in a simplex whose corners are cut, at a third.
# That set is there, in ``polymargin.losses.domains``, so the class is four lines. (``loss="top_k_sum", k=3`` is
# the same loss by name.)
import numpy as np
from sklearn.datasets import load_digits

from polymargin import MarginSVC
from polymargin.losses.domains.top_k import CappedSimplex
from polymargin.losses.margin_loss import RelativeLoss


class ThreeRivals(RelativeLoss):
    """The mean of the three largest violations ``[1 - (s_y - s_l)]_+``."""

    title = "three rivals"
    key = "three_rivals"
    domain = CappedSimplex(3)


# %%
# It is fitted like any other, to a certified gap.
X, y = load_digits(return_X_y=True)
X = X / 16
for penalty in ("l2", "lp"):
    machine = MarginSVC(loss=ThreeRivals(), penalty=penalty).fit(X, y)
    end = machine.certificate_
    print(f"{penalty}: {end.status}, objective {end.primal:.4f}, relative gap {end.rel_gap:.0e}")

# %%
# The objective by hand.
machine = MarginSVC(loss=ThreeRivals()).fit(X, y)
scores = machine.decision_function(X)
violations = np.maximum(0, 1 - (scores[np.arange(len(y)), y][:, None] - scores))
violations[np.arange(len(y)), y] = 0
loss = np.sort(violations, axis=1)[:, -3:].sum(axis=1) / 3
F = loss.sum() + np.square(machine.class_vectors_).sum() / 2
assert np.isclose(F, machine.objective_)
print(f"by hand {F:.6f}, by the machine {machine.objective_:.6f}")

# %%
# A set that is not there yet is a subclass of ``Domain`` with three functions; "Add a loss" of the contributors'
# page says which, and how a C++ header of the same set makes the native loops solve it.
