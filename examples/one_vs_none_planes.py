"""Table 4 and Figure 3 of One versus None: hourglass, moon and two clouds, with its support rows beside those of an SVC.

    python examples/one_vs_none_planes.py [PICTURE]

The paper lists no rows: these are made up to look like its figures. Prints a line a data set and saves a picture
(one_vs_none_planes.png in the current directory by default). Needs matplotlib.
"""

import sys

import numpy as np
from sklearn.datasets import make_moons
from sklearn.preprocessing import scale
from sklearn.svm import SVC

from polymargin import OneVsNoneSVC

ROWS = 100
C, ALPHA = 10.0, 0.5


def planes(seed=0):
    """Rows, classes and kernel by name."""
    rng = np.random.default_rng(seed)
    height = rng.uniform(-1.0, 1.0, ROWS)
    sides = np.sign(rng.uniform(-1.0, 1.0, ROWS))
    inside = rng.uniform(-1.0, 1.0, ROWS) * np.abs(height)  # the glass, narrow in the middle
    outside = sides * (np.abs(height) + rng.uniform(0.25, 0.8, ROWS))
    glass = np.concatenate([np.column_stack([inside, height]), np.column_stack([outside, height])])
    moons, of_moons = make_moons(2 * ROWS, noise=0.06, random_state=seed)
    clouds = np.concatenate([rng.normal(m, 0.6, (ROWS, 2)) for m in (-1.2, 1.2)])
    halves = np.repeat([0, 1], ROWS)
    return {
        "hourglass": (scale(glass), halves, "rbf"),
        "moon": (scale(moons), of_moons, "rbf"),
        "two classes": (scale(clouds), halves, "linear"),
    }


def fitted(X, y, kernel):
    return OneVsNoneSVC(C=C, alpha=ALPHA, kernel=kernel, random_state=0).fit(X, y), SVC(C=C, kernel=kernel).fit(X, y)


def draw(found, path):
    from matplotlib.figure import Figure

    from polymargin.plotting import DecisionRegionsDisplay

    figure = Figure(figsize=(4.2 * len(found), 4.4), layout="constrained")
    for ax, (name, (X, y, machine)) in zip(figure.subplots(1, len(found)), found.items(), strict=True):
        DecisionRegionsDisplay.from_estimator(machine, X, y, ax=ax)
        ax.set(title=f"{name}, {machine.kernel}", xlabel="", ylabel="", aspect="equal")
        ax.get_legend().remove()
    figure.suptitle("Regions of the classes; lines: a class scores 1; rings: support rows", fontsize=9)
    figure.savefig(path, dpi=150)


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "one_vs_none_planes.png"
    found = {}
    for name, (X, y, kernel) in planes().items():
        machine, binary = fitted(X, y, kernel)
        ours, theirs = (np.bincount(y[one.support_], minlength=2).tolist() for one in (machine, binary))
        rates = f"{100 * machine.score(X, y):5.1f} % right, SVC {100 * binary.score(X, y):5.1f} %"
        print(f"{name:12} {kernel:6} {machine.certificate_.status:8} {rates}; support rows {ours}, SVC {theirs}")
        found[name] = (X, y, machine)
    try:
        draw(found, path)
    except ImportError:
        sys.exit('The picture needs matplotlib: pip install ".[plot]"')
    print(f"saved: {path}")


if __name__ == "__main__":
    main()
