"""p against the margins between classes and the accuracy (Figure 3 of the M3SVM paper): a table and a picture.

    python examples/m3_margins.py [picture.png] [power|norm]

In the paper's scale "power" one C means another amount of regularisation for every p; in "norm" it means the same. iris and
wine come with scikit-learn; vehicle.npz and isolet.npz are looked for in the folder named by POLYMARGIN_DATA and left out if
they are not there.
"""

import os
import sys
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from polymargin import M3SVC

POWERS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, np.inf)
C = 100.0
SCALE = sys.argv[2] if len(sys.argv) > 2 else "power"


def datasets():
    yield "iris", *load_iris(return_X_y=True)
    yield "wine", *load_wine(return_X_y=True)
    for name in ("vehicle", "isolet"):
        path = Path(os.environ.get("POLYMARGIN_DATA", "")) / f"{name}.npz"
        if path.is_file():
            with np.load(path) as file:
                yield name, file["X"].astype(float), file["y"]


def margins(W):
    """2 / |w_k - w_l| of all pairs of classes."""
    first, second = np.triu_indices(len(W), 1)
    return 2.0 / np.linalg.norm(W[first] - W[second], axis=1)


def row(X, y, p):
    machine = M3SVC(C=C, p=p, scale=SCALE)
    found = margins(clone(machine).fit(scale(X), y).class_vectors_)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    accuracy = cross_val_score(make_pipeline(StandardScaler(), machine), X, y, cv=folds).mean()
    return found.min(), found.mean(), accuracy


def main():
    table = {name: np.array([row(X, y, p) for p in POWERS]) for name, X, y in datasets()}
    for name, numbers in table.items():
        print(f"\n{name}, C = {C:g}, scale {SCALE}\n   p   smallest margin  mean margin  five-fold accuracy")
        for p, (smallest, mean, accuracy) in zip(POWERS, numbers, strict=True):
            print(f"{p:4g}  {smallest:15.4f}  {mean:11.4f}  {accuracy:18.3f}")
    if len(sys.argv) > 1:
        draw(table, sys.argv[1])


def draw(table, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(table), figsize=(4.2 * len(table), 3.4), layout="constrained", squeeze=False)
    ticks = np.arange(len(POWERS))
    for axis, (name, numbers) in zip(axes[0], table.items(), strict=True):
        axis.plot(ticks, numbers[:, 0], "o-", label="smallest margin")
        axis.plot(ticks, numbers[:, 1], "s--", label="mean margin")
        axis.set(title=name, xlabel="p", xticks=ticks, xticklabels=[f"{p:g}" for p in POWERS], yscale="log")
        right = axis.twinx()
        right.plot(ticks, numbers[:, 2], "k:", label="five-fold accuracy")
        right.set_ylim(0.5, 1.01)
        if axis is axes[0, -1]:
            right.set_ylabel("accuracy (dotted)")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter("{x:g}")
        axis.tick_params(axis="y", which="minor", labelsize=7)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    axes[0, 0].set_ylabel("margin 2 / |w_k - w_l|")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
