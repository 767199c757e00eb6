"""
Few features, the same for all classes
======================================

``penalty="group"`` takes a feature in for all classes or leaves it out for all of them: what is left out need not
be measured at all.
"""

# %%
# Thirteen columns of wine, and thirteen of noise.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from polymargin import MarginSVC

wine = load_wine()
rng = np.random.default_rng(0)
X = StandardScaler().fit_transform(np.hstack([wine.data, rng.normal(size=(len(wine.data), 13))]))
names = [*wine.feature_names, *(f"noise {k}" for k in range(13))]

# %%
# The larger ``l1``, the fewer features. Zeros are zeros of the stored arrays, and the certificate is that of these
# arrays.
strengths = [0.3, 1.0, 3.0, 10.0, 30.0]
lengths = []
for l1 in strengths:
    machine = MarginSVC(loss="weston_watkins", penalty="group", l1=l1).fit(X, wine.target)
    length = np.linalg.norm(machine.class_vectors_, axis=0)
    lengths.append(length)
    inside = np.flatnonzero(length)
    accuracy = machine.score(X, wine.target)
    print(f"l1 = {l1:4g}: {len(inside):2d} features, {np.sum(inside >= 13)} of them noise, accuracy {accuracy:.3f}")

# %%
# One line a feature; those of noise are grey.
figure, axis = plt.subplots(layout="constrained")
for j, line in enumerate(np.transpose(lengths)):
    style = {"color": "0.7", "zorder": 1} if j >= 13 else {"label": names[j] if line[-1] > 0 else None}
    axis.plot(strengths, line, **style)
axis.set(xscale="log", xlabel="l1", ylabel="length of a feature's weights over the classes")
axis.legend(title="in to the end")
