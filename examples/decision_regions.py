"""Draw the decision regions of several machines with an RBF kernel on the same rows of a plane.

    python examples/decision_regions.py [PICTURE]

prints a line a machine and saves a picture (decision_regions.png in the current directory by default). Needs matplotlib.
"""

import sys

import numpy as np
from sklearn.preprocessing import scale

import polymargin

MACHINES = ("M3SVC", "CrammerSingerSVC", "WestonWatkinsSVC", "OneVsNoneSVC")  # those that this version has are drawn
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44")
C, GAMMA = 10.0, 1.0


def rows_of_a_plane(n=400, seed=0):
    """Three arms of a spiral and a noisy spot in the middle."""
    rng = np.random.default_rng(seed)
    y = rng.integers(4, size=n)
    radius = rng.uniform(0.6, 2.0, size=n)
    angle = 2.0 * np.pi * y / 3.0 + 1.6 * radius + rng.normal(scale=0.22, size=n)
    X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    X[y == 3] = rng.normal(scale=0.35, size=(np.count_nonzero(y == 3), 2))
    return scale(X), y


def fitted_machines(X, y):
    """The machines by name, each fitted; what they have in common is set alike."""
    found = [getattr(polymargin, name) for name in MACHINES if name in polymargin.__all__]
    return {machine.__name__: machine(C=C, kernel="rbf", gamma=GAMMA, random_state=0).fit(X, y) for machine in found}


def draw(machines, X, y, path):
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.6 * len(machines), 3.9), layout="constrained")
    low, high = X.min(axis=0) - 0.4, X.max(axis=0) + 0.4
    first, second = np.meshgrid(*(np.linspace(a, b, 250) for a, b in zip(low, high, strict=True)))
    plane = np.column_stack([first.ravel(), second.ravel()])
    axes = np.ravel(figure.subplots(1, len(machines), sharex=True, sharey=True))
    for axis, (name, machine) in zip(axes, machines.items(), strict=True):
        scores = machine.decision_function(plane)
        ranked = np.sort(scores, axis=1)
        lead = (ranked[:, -1] - ranked[:, -2]).reshape(first.shape)
        regions = scores.argmax(axis=1).reshape(first.shape)
        axis.pcolormesh(first, second, regions, cmap=ListedColormap(COLOURS), vmin=0, vmax=3, alpha=0.3, shading="auto")
        axis.contour(first, second, lead, levels=[1.0], colors="0.3", linewidths=0.8, linestyles="dashed")
        axis.scatter(*X.T, c=[COLOURS[k] for k in y], s=9, linewidths=0)
        support = X[machine.support_]
        axis.scatter(*support.T, s=26, facecolors="none", edgecolors="0.2", linewidths=0.5)
        axis.set(title=f"{name}\n{len(support)} support rows", xticks=[], yticks=[], aspect="equal")
    figure.suptitle("Regions of the classes; dashed: the best class leads by 1; rings: support rows", fontsize=9)
    figure.savefig(path, dpi=150)


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "decision_regions.png"
    X, y = rows_of_a_plane()
    machines = fitted_machines(X, y)
    for name, machine in machines.items():
        end = machine.certificate_
        right = 100.0 * machine.score(X, y)
        rows = len(machine.support_)
        print(f"{name:18} {end.status:10} objective {end.primal:10.4f}  {rows:4} support rows  {right:5.1f} % right")
    try:
        draw(machines, X, y, path)
    except ImportError:
        sys.exit('The picture needs matplotlib: pip install ".[plot]"')
    print(f"saved: {path}")


if __name__ == "__main__":
    main()
