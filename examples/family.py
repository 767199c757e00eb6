"""Absolute or relative margins, maximum or sum: which losses hold when classes are many, and when they overlap.

    python examples/family.py [PICTURE]

Gaussian classes around random points of a ball in five dimensions, where the best classifier is linear and its accuracy
known. Each loss takes the C that is best on rows held out. Prints tables and, if matplotlib is installed, saves a picture
(family.png in the current directory by default): accuracy over the number of classes and over their overlap, and how many of
the classes a machine predicts at all. These are the questions of Dogan, Glasmachers and Igel (JMLR 2016).
"""

import sys
import warnings

import numpy as np

from polymargin import MarginSVC

KINDS = {
    "crammer_singer": "relative, max",
    "weston_watkins": "relative, sum",
    "absolute_max": "absolute, max",
    "lee_lin_wahba": "absolute, sum",
    "total_max": "total, max",
    "total_sum": "total, sum",
    "margin_regression": "own class only",
    "reinforced": "own class and sum",
    "one_vs_rest": "total, sum, free",
}
DIMENSIONS = 5
ROWS_A_CLASS = 30
NUMBERS = (3, 6, 12, 24, 48)
SPREADS = (0.1, 0.2, 0.4, 0.8)
FEW, USUAL = 12, 0.2  # classes, spread: of the picture in which the other one changes
CS = (0.1, 1.0, 10.0)


def rows(centres, spread, n_each, rng):
    """Rows and classes."""
    y = np.repeat(np.arange(len(centres)), n_each)
    return centres[y] + spread * rng.standard_normal((len(y), DIMENSIONS)), y


def measured(n_classes, spread, seed=0):
    """Of each loss its accuracy and the share of the classes it predicts; of the best rule its accuracy."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((n_classes, DIMENSIONS))
    centres *= rng.random((n_classes, 1)) ** (1 / DIMENSIONS) / np.linalg.norm(centres, axis=1, keepdims=True)
    X, y = rows(centres, spread, ROWS_A_CLASS, rng)
    held, held_y = rows(centres, spread, ROWS_A_CLASS, rng)
    test, test_y = rows(centres, spread, 10 * ROWS_A_CLASS, rng)
    nearest = (2 * test @ centres.T - (centres**2).sum(axis=1)).argmax(axis=1)
    found = {"best rule": ((nearest == test_y).mean(), 1.0)}
    for loss in KINDS:
        machines = [MarginSVC(C, loss=loss, tol=1e-3).fit(X, y) for C in CS]
        predicted = max(machines, key=lambda machine: machine.score(held, held_y)).predict(test)
        found[loss] = (predicted == test_y).mean(), len(np.unique(predicted)) / n_classes
    return found


def table(title, name, values, found):
    print(f"{title}\n{name:>20s} " + " ".join(f"{value:>7g}" for value in values))
    for side in found[0]:
        print(f"{side:>20s} " + " ".join(f"{one[side][0]:7.3f}" for one in found) + f"   {KINDS.get(side, '')}")
    print()


def picture(path, by_number, by_spread):
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ModuleNotFoundError:
        print("pip install matplotlib to draw the picture")
        return
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), constrained_layout=True)
    panels = (
        (axes[0], NUMBERS, by_number, 0, f"accuracy, spread {USUAL:g}", "classes"),
        (axes[1], SPREADS, by_spread, 0, f"accuracy, {FEW} classes", "spread of a class"),
        (axes[2], NUMBERS, by_number, 1, "share of the classes that are predicted", "classes"),
    )
    for axis, values, found, which, title, name in panels:
        for side in found[0]:
            style = {"color": "black", "ls": ":"} if side == "best rule" else {"marker": "o", "ms": 4}
            label = side if side == "best rule" else f"{side} ({KINDS[side]})"
            axis.plot(values, [one[side][which] for one in found], label=label, **style)
        axis.set(title=title, xlabel=name, xscale="log", ylim=(0.0, 1.03))
        axis.set_xticks(values, [f"{value:g}" for value in values])
        axis.minorticks_off()
    axes[2].legend(fontsize=7, loc="lower left")
    figure.savefig(path, dpi=110)
    print(f"written: {path}")


def main():
    warnings.simplefilter("ignore")  # machines that ignore X say so
    by_number = [measured(n_classes, USUAL) for n_classes in NUMBERS]
    table("accuracy by the number of classes", "classes", NUMBERS, by_number)
    by_spread = [measured(FEW, spread) for spread in SPREADS]
    table("accuracy by the overlap of the classes", "spread", SPREADS, by_spread)
    picture(sys.argv[1] if len(sys.argv) > 1 else "family.png", by_number, by_spread)


if __name__ == "__main__":
    main()
