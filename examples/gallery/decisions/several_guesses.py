"""
When five guesses count
=======================

A search box shows five results, a doctor checks three diagnoses. The top-k hinge pays nothing while the right
class is among the k best.
"""

# %%
# Thirty classes that overlap heavily.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import top_k_accuracy_score
from sklearn.model_selection import train_test_split

from polymargin import CrammerSingerSVC, TopKSVC, WestonWatkinsSVC

rng = np.random.default_rng(0)
centres = rng.normal(size=(30, 12))
y = rng.integers(30, size=2400)
X = centres[y] + 1.6 * rng.normal(size=(2400, 12))
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
machines = {
    "Crammer–Singer": CrammerSingerSVC(C=0.03),
    "Weston–Watkins": WestonWatkinsSVC(C=0.001),
    "top-5": TopKSVC(C=0.01, k=5),
}

# %%
# How often the right class is among the first k. A row that minds its closest rival only, as Crammer and Singer's,
# loses here; counting all rivals or the five closest does not. ``C`` of each was chosen on a grid.
guesses = np.arange(1, 9)
figure, axis = plt.subplots(layout="constrained")
for name, machine in machines.items():
    scores = machine.fit(X_train, y_train).decision_function(X_test)
    shares = [top_k_accuracy_score(y_test, scores, k=k) for k in guesses]
    axis.plot(guesses, shares, marker="o", label=name)
    print(f"{name:15s} first guess {shares[0]:.3f}, among five {shares[4]:.3f}, {machine.certificate_.status}")
axis.set(xlabel="guesses", ylabel="share of rows with the right class among them")
axis.legend()
