"""Margin histograms of three machines as the number of classes grows (Zhang & Zhou 2017, Figure 2).

    python examples/margin_distribution.py [FOLDER]

fits the margin distribution machine, Crammer-Singer and one-versus-rest on the first 2 to 7 classes of the data set segment
(found in the folder of the environment variable POLYMARGIN_DATA, else scikit-learn's digits take its place) and saves
margin_distribution.png in FOLDER (the current one by default).
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import minmax_scale
from sklearn.svm import LinearSVC

from polymargin import CrammerSingerSVC, MarginDistributionSVC
from polymargin.datasets import DatasetError, load

CLASSES = range(2, 8)


def rows():
    """Name, features scaled to [0, 1] and class indices."""
    try:
        data = load("segment")
    except DatasetError:
        print("segment was not found (set POLYMARGIN_DATA to its folder): scikit-learn's digits instead.")
        X, y = load_digits(return_X_y=True)
        return "digits", minmax_scale(X), y
    return "segment", minmax_scale(np.asarray(data.X, dtype=np.float64)), np.asarray(data.y)


def machines():
    return {
        "mcODM": MarginDistributionSVC(C=10.0, theta=0.2, mu=0.5, random_state=0),
        "Crammer–Singer": CrammerSingerSVC(C=10.0, random_state=0),
        "one-versus-rest": OneVsRestClassifier(LinearSVC(C=10.0, random_state=0, max_iter=50_000)),
    }


def margins(machine, X, y):
    """Own score minus the highest other, in units of their mean absolute value, so that all machines share an axis."""
    scores = machine.decision_function(X)
    if scores.ndim == 1:
        scores = np.column_stack([np.zeros_like(scores), scores])
    at = np.arange(len(y)), np.searchsorted(np.unique(y), y)
    own = scores[at]
    scores[at] = -np.inf
    gaps = own - scores.max(axis=1)
    return gaps / np.abs(gaps).mean()


def draw(name, found, path):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(12, 6.5), sharex=True, layout="constrained")
    bins = np.linspace(-2, 4, 61)
    for ax, (n_classes, of_machine) in zip(axes.flat, found.items(), strict=True):
        for label, values in of_machine.items():
            ax.hist(np.clip(values, bins[0], bins[-1]), bins, histtype="step", linewidth=1.5, label=label)
        ax.axvline(0.0, color="0.6", linewidth=0.8)
        ax.set_title(f"{n_classes} classes")
        ax.set_yticks([])
    axes[0, 0].legend(frameon=False)
    figure.supxlabel("margin / mean |margin|")
    figure.supylabel("rows")
    figure.suptitle(f"Margins on the training rows of {name}")
    figure.savefig(path, dpi=120)


def main(folder="."):
    name, X, y = rows()
    found = {}
    for n_classes in CLASSES:
        kept = y < n_classes
        found[n_classes] = {label: margins(m.fit(X[kept], y[kept]), X[kept], y[kept]) for label, m in machines().items()}
        told = ", ".join(f"{label} {np.std(v):.2f} ({np.mean(v < 0):.1%})" for label, v in found[n_classes].items())
        print(f"{n_classes} classes: spread of the margins (share below 0): {told}")
    try:
        draw(name, found, Path(folder) / "margin_distribution.png")
    except ImportError:
        print('matplotlib draws the histograms: pip install ".[plot]"')
    else:
        print(f"saved {Path(folder) / 'margin_distribution.png'}")


if __name__ == "__main__":
    main(*sys.argv[1:])
