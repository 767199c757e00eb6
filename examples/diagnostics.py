"""Look at fitted machines on scikit-learn's digits: the one-page summary, and one picture of each kind.

    python examples/diagnostics.py [FOLDER]

prints the summary of one machine and, if matplotlib is installed, saves pictures in FOLDER (the current one by default).
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits, make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from polymargin import CrammerSingerSVC, WestonWatkinsSVC, regularization_path
from polymargin.diagnostics import confusable_pairs


def digits():
    """Rows to learn from and rows held out, pixels scaled to [0, 1]."""
    X, y = load_digits(return_X_y=True)
    return train_test_split(X / 16.0, y, test_size=0.3, random_state=0, stratify=y)


def fitted_machines(X, y):
    return {
        "Crammer–Singer": CrammerSingerSVC(C=0.1, tol=1e-6, random_state=0).fit(X, y),
        "Weston–Watkins": WestonWatkinsSVC(C=0.1, tol=1e-6, random_state=0).fit(X, y),
        "Crammer–Singer, rbf": CrammerSingerSVC(C=1.0, kernel="rbf", tol=1e-6, random_state=0).fit(X, y),
    }


def hard_machines(X, y):
    """Machines that take a while: a large C and a small tolerance."""
    settings = {"C": 10.0, "tol": 1e-9, "random_state": 0}
    return [CrammerSingerSVC(**settings).fit(X, y), WestonWatkinsSVC(**settings).fit(X, y)]


def many_classes():
    """A machine for 100 classes, and rows held out."""
    X, y = make_blobs(4000, 10, centers=100, cluster_std=4.0, random_state=0)
    X, X_test, y, y_test = train_test_split(X / X.std(), y, test_size=0.5, random_state=0, stratify=y)
    return CrammerSingerSVC(C=0.1, random_state=0).fit(X, y), X_test, y_test


def path_over_C(X, y, X_test, y_test, plotting):
    """Accuracy, norm and objective for ten values of C."""
    path = regularization_path(CrammerSingerSVC(random_state=0), X, y, np.logspace(-3, 2, 10))
    scores = {"accuracy, training rows": path.scores(X, y), "accuracy, held out": path.scores(X_test, y_test)}
    norms = np.linalg.norm(path.norms, axis=1)
    return plotting.RegularizationPathDisplay(path.values, scores=scores, norms=norms, objectives=path.objectives).plot()


def draw(machines, X, y, X_test, y_test, folder):
    import matplotlib

    matplotlib.use("Agg")
    from polymargin import plotting

    linear, rbf = machines["Crammer–Singer"], machines["Crammer–Singer, rbf"]
    rivals = {**machines, "LogisticRegression": LogisticRegression(C=0.1).fit(X, y)}
    many, X_many, y_many = many_classes()
    displays = {
        "margins": plotting.MarginDistributionDisplay.from_estimator(rivals, X_test, y_test),
        "margins-histogram": plotting.MarginDistributionDisplay.from_estimator(machines, X, y, kind="histogram"),
        "distances": plotting.MarginDistributionDisplay.from_estimator(machines, X_test, y_test, normalize=True),
        "pairwise-margins": plotting.PairwiseMarginDisplay.from_estimator(linear),
        "pairwise-margins-rbf": plotting.PairwiseMarginDisplay.from_estimator(rbf, order="similar"),
        "pairwise-margins-100": plotting.PairwiseMarginDisplay.from_estimator(many, order="similar"),
        "angles": plotting.AngleDisplay.from_estimator(linear),
        "convergence": plotting.ConvergenceDisplay.from_estimator(hard_machines(X, y)),
        "path": path_over_C(X, y, X_test, y_test, plotting),
        "accuracies": plotting.ClassAccuracyDisplay.from_estimator(rivals, X_test, y_test),
        "accuracies-100": plotting.ClassAccuracyDisplay.from_estimator(many, X_many, y_many),
    }
    for name, display in displays.items():
        display.figure_.savefig(folder / f"{name}.png", dpi=110)
    return list(displays)


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    X, X_test, y, y_test = digits()
    machines = fitted_machines(X, y)
    machines["Crammer–Singer"].explain(X, y)
    print("\nTaken for each other most often on the held-out rows (radial kernel):")
    for pair in confusable_pairs(machines["Crammer–Singer, rbf"], X_test, y_test, by="errors", n_pairs=3):
        k, m = pair.first, pair.second
        print(f"  {k} as {m}: {pair.first_as_second}, {m} as {k}: {pair.second_as_first}")
    try:
        drawn = draw(machines, X, y, X_test, y_test, folder)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "matplotlib":
            raise
        print('\nNo pictures: matplotlib is not installed (pip install ".[plot]" installs it).')
    else:
        print(f"\nPictures in {folder.resolve()}: {', '.join(drawn)}")


if __name__ == "__main__":
    main()
