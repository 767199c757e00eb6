"""
Kernels and decision regions
============================

Few columns and curved borders: every machine takes ``kernel="rbf"``, exactly or through a Nyström approximation,
and its certificate is that of the kernel problem.
"""

# %%
# Three arms of a spiral and a spot in the middle.
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.preprocessing import scale

from polymargin import M3SVC, CrammerSingerSVC, WestonWatkinsSVC

rng = np.random.default_rng(0)
y = rng.integers(4, size=300)
radius = rng.uniform(0.6, 2.0, size=300)
angle = 2 * np.pi * y / 3 + 1.6 * radius + rng.normal(scale=0.22, size=300)
X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
X[y == 3] = rng.normal(scale=0.35, size=(np.count_nonzero(y == 3), 2))
X = scale(X)

# %%
# Rings are support rows: those with a dual that is not zero.
colours = ListedColormap(["#4477aa", "#ee6677", "#228833", "#ccbb44"])
figure, axes = plt.subplots(1, 4, figsize=(13, 3.6), layout="constrained")
settings = {"C": 10.0, "kernel": "rbf", "gamma": 1.0}
machines = [CrammerSingerSVC(C=10.0), CrammerSingerSVC(**settings), WestonWatkinsSVC(**settings), M3SVC(**settings)]
for axis, machine in zip(axes, machines, strict=True):
    machine.fit(X, y)
    regions = {"response_method": "predict", "multiclass_colors": list(colours.colors), "grid_resolution": 120}
    DecisionBoundaryDisplay.from_estimator(machine, X, ax=axis, alpha=0.3, **regions)
    axis.scatter(*X.T, c=y, cmap=colours, s=8)
    axis.scatter(*X[machine.support_].T, s=26, facecolors="none", edgecolors="0.2", linewidths=0.5)
    axis.set(title=f"{type(machine).__name__}, {machine.kernel}\n{len(machine.support_)} support rows", xticks=[], yticks=[])

# %%
# With very many rows ``n_components`` bounds the rank.
few = CrammerSingerSVC(**settings, n_components=30).fit(X, y)
print(f"exact {machines[1].score(X, y):.3f}, rank 30 {few.score(X, y):.3f}, {few.certificate_.status}")
