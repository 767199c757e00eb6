"""How AngularSVC opens the angles between class vectors: the smallest angle over the steps, angle and accuracy over omega.

    python examples/angles.py [PICTURE]

The data are the paper's, newthyroid.npz in the directory $POLYMARGIN_DATA; without it, scikit-learn's wine. Prints a table
and, if matplotlib is installed, saves a picture (angles.png in the current directory by default): Figure 4 of Li et al.
"""

import os
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from polymargin import AngularSVC

C = 0.1
OMEGAS = np.logspace(-2, 4, 13)
SHOWN = 30.0  # the omega of the steps


def data():
    """The name of the data, rows and labels."""
    path = Path(os.environ.get("POLYMARGIN_DATA", ".")) / "newthyroid.npz"
    if path.exists():
        with np.load(path) as stored:
            return "newthyroid", stored["X"].astype(float), stored["y"]
    print(f"{path} is not there: scikit-learn's wine instead.")
    X, y = load_wine(return_X_y=True)
    return "wine", X, y


def path_over_omega(X, y, X_test, y_test):
    """Smallest angle, held-out accuracy and mean recall of each omega, warm-started from one to the next."""
    machine = AngularSVC(C=C, warm_start=True, random_state=0)
    rows = []
    for omega in OMEGAS:
        machine.set_params(omega=omega).fit(X, y)
        guess = machine.predict(X_test)
        recall = [np.mean(guess[y_test == k] == k) for k in np.unique(y_test)]
        rows.append((machine.min_angle_, np.mean(guess == y_test), np.mean(recall)))
    return np.array(rows)


def splits(X, y):
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        scaler = StandardScaler().fit(X[train])
        yield scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test]


def draw(name, machine, curves, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    steps = np.arange(len(machine.min_angle_history_))
    left.plot(steps, machine.min_angle_history_, marker="o", markersize=4, color="tab:blue")
    left.set(xlabel="step of the descent", ylabel="smallest angle (degrees)", ylim=(0, 95))
    left.set_title(f"{name}, C = {C:g}, omega = {SHOWN:g}: the angle opens")
    other = left.twinx()
    other.plot(steps, machine.objective_history_, "--", marker="s", markersize=3, color="tab:gray")
    other.set_ylabel("objective (dashed)")
    left.grid(alpha=0.3)

    mean = curves.mean(axis=0)
    right.semilogx(OMEGAS, mean[:, 0], marker="o", markersize=4, color="tab:blue", label="smallest angle (left)")
    right.set(xlabel="omega", ylabel="smallest angle (degrees)", ylim=(0, 95))
    share = right.twinx()
    share.semilogx(OMEGAS, 100 * mean[:, 1], "--", marker="s", markersize=4, color="tab:orange", label="accuracy (right)")
    share.semilogx(OMEGAS, 100 * mean[:, 2], ":", marker="^", markersize=4, color="tab:green", label="mean recall (right)")
    share.set_ylabel("per cent of the held-out rows")
    right.set_title(f"{name}, five folds: angle and accuracy over omega")
    lines = right.get_lines() + share.get_lines()
    right.legend(lines, [line.get_label() for line in lines], loc="lower left", fontsize="small")
    right.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "angles.png"
    name, X, y = data()
    curves = np.array([path_over_omega(*fold) for fold in splits(X, y)])
    print(f"{name}: {len(y)} rows, {X.shape[1]} columns, {len(np.unique(y))} classes; C = {C:g}, five folds")
    print(f"{'omega':>10}{'smallest angle':>16}{'accuracy':>10}{'mean recall':>13}")
    for omega, (angle, accuracy, recall) in zip(OMEGAS, curves.mean(axis=0), strict=True):
        print(f"{omega:10.3g}{angle:16.1f}{accuracy:10.4f}{recall:13.4f}")
    machine = AngularSVC(C=C, omega=SHOWN, random_state=0).fit(StandardScaler().fit_transform(X), y)
    print(
        f"omega = {SHOWN:g} on all rows: the smallest angle goes from {machine.min_angle_history_[0]:.1f} to "
        f"{machine.min_angle_:.1f} degrees in {len(machine.objective_history_) - 1} steps"
    )
    try:
        draw(name, machine, curves, path)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "matplotlib":
            raise
        print('No picture: matplotlib is not installed (pip install ".[plot]" installs it).')
    else:
        print(f"Picture: {path}")


if __name__ == "__main__":
    main()
