"""Fit two machines on scikit-learn's digits, see how far each is from its optimum, and draw that.

    python examples/quickstart.py [PICTURE]

prints one page and, if matplotlib is installed, saves a picture (quickstart.png in the current directory by default).
"""

import sys
import time
import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import LinearSVC

from polymargin import CrammerSingerSVC, WestonWatkinsSVC

C, TOL = 1.0, 1e-6
MACHINES = (CrammerSingerSVC, WestonWatkinsSVC)


def digits():
    """Rows to learn from and rows held out, pixels scaled to [0, 1]."""
    X, y = load_digits(return_X_y=True)
    return train_test_split(X / 16.0, y, test_size=0.3, random_state=0, stratify=y)


def timed_fit(machine, X, y):
    """The fitted machine, the seconds of the whole call, and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        machine.fit(X, y)
        seconds = time.perf_counter() - start
    return machine, seconds, [str(warning.message) for warning in caught]


def margins(machine, X, y):
    """Score of a row's own class minus the best score of the others: negative means wrongly classified."""
    scores = machine.decision_function(X)
    rows = np.arange(len(y))
    own = scores[rows, y].copy()
    scores[rows, y] = -np.inf
    return own - scores.max(axis=1)


def crammer_singer_objective(machine, X, y):
    """C * sum_i [1 - margin_i]_+ + 1/2 |W|^2 of any linear machine without an intercept."""
    return C * np.maximum(0.0, 1.0 - margins(machine, X, y)).sum() + 0.5 * np.square(machine.coef_).sum()


def show_certificates(X, y, X_test, y_test):
    print("Two machines, free (unpenalised) intercept")
    numbers = f"{'objective':>12}{'dual bound':>12}{'rel. gap':>10}{'epochs':>8}{'seconds':>9}{'accuracy':>10}"
    print(f"  {'':18}{'status':>8}{numbers}")
    fitted = []
    for machine in MACHINES:
        machine, seconds, _ = timed_fit(machine(C=C, tol=TOL, random_state=0), X, y)
        end = machine.certificate_
        print(
            f"  {type(machine).__name__:18}{end.status:>8}{end.primal:12.5f}{end.dual:12.5f}{end.rel_gap:10.1e}"
            f"{end.n_iter:8d}{seconds:9.3f}{machine.score(X_test, y_test):10.4f}"
        )
        fitted.append(machine)
    print("  The optimum lies between the dual bound and the objective: nobody can do better by more than the gap.\n")
    return fitted


def show_rival(X, y, X_test, y_test):
    """The one problem that scikit-learn solves too. It penalises its intercept, so both go without."""
    ours, seconds, _ = timed_fit(CrammerSingerSVC(C=C, tol=TOL, fit_intercept=False, random_state=0), X, y)
    bound = ours.certificate_.dual
    print("The same problem in scikit-learn: Crammer-Singer without an intercept")
    print(f"  {'':30}{'objective':>12}{'above the bound':>17}{'seconds':>9}{'accuracy':>10}")

    def show(label, objective, seconds, accuracy):
        print(f"  {label:30}{objective:12.5f}{(objective - bound) / bound:17.1e}{seconds:9.3f}{accuracy:10.4f}")

    show(f"CrammerSingerSVC(tol={TOL:.0e})", ours.objective_, seconds, ours.score(X_test, y_test))
    said = {}
    for tol in (1e-2, 1e-4):
        label = f"LinearSVC(tol={tol:.0e})"
        rival, seconds, said[label] = timed_fit(liblinear(tol), X, y)
        show(label, crammer_singer_objective(rival, X, y), seconds, rival.score(X_test, y_test))
    for label, messages in said.items():
        for message in messages:
            print(f'  {label} warned: "{message}"')
    print("  LinearSVC reports neither objective nor bound: its figures are ours, computed from its coefficients.\n")


def liblinear(tol):
    return LinearSVC(C=C, multi_class="crammer_singer", fit_intercept=False, tol=tol, random_state=0)


def our_course(machine, X, y):
    """Seconds and relative gaps from the certificates' histories, and the last bound.

    The machine is fitted again and again, warm-started, with a tolerance ten times tighter each time. The seconds are
    those of the whole calls: a history counts from the start of the solver.
    """
    machine.set_params(C=C, fit_intercept=False, warm_start=True, random_state=0)
    seconds, gaps, total = [], [], 0.0
    for k in range(1, 9):
        _, call, _ = timed_fit(machine.set_params(tol=10.0**-k), X, y)
        end = machine.certificate_
        total += call
        seconds += [total - end.seconds + record.seconds for record in end.history]
        gaps += [(record.primal - record.dual) / record.primal for record in end.history]
    return seconds, gaps, end.dual


def rival_course(bound, X, y):
    """Seconds and distances from our bound of whole fits, one for each tolerance."""
    runs = [timed_fit(liblinear(10.0**-k), X, y) for k in range(0, 7)]
    return [run[1] for run in runs], [(crammer_singer_objective(run[0], X, y) - bound) / bound for run in runs]


def draw(fitted, X, y, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib import ticker

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
    styles = dict(zip(MACHINES, [("tab:blue", "-", "o"), ("tab:orange", "--", "s")], strict=True))
    bounds = {}
    for machine, (color, line, mark) in styles.items():
        seconds, gaps, bounds[machine] = our_course(machine(), X, y)
        label = f"{machine.__name__}, warm-started as tol is tightened"
        left.plot(seconds, gaps, line, color=color, marker=mark, markersize=4, label=label)
    seconds, distances = rival_course(bounds[CrammerSingerSVC], X, y)
    left.plot(seconds, distances, "x", color="tab:gray", label="LinearSVC (Crammer-Singer), each a whole fit")
    left.set(xscale="log", yscale="log", xlabel="seconds", ylabel="relative distance from the dual bound")
    left.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    left.xaxis.set_major_formatter("{x:g}")
    left.xaxis.set_minor_formatter(ticker.NullFormatter())
    left.set_title("How far from the optimum (no intercept)")
    left.grid(alpha=0.3)
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), fontsize="small")

    values = [margins(machine, X, y) for machine in fitted]
    # 1, where rows pile up, is the centre of a bin
    bins = np.arange(np.floor(10 * np.min(values)) / 10 - 0.05, np.max(values) + 0.1, 0.1)
    for machine, margin in zip(fitted, values, strict=True):
        color, line, _ = styles[type(machine)]
        style = {"histtype": "step", "linewidth": 1.5, "color": color, "linestyle": line}
        right.hist(margin, bins, label=type(machine).__name__, **style)
    right.axvline(0.0, color="tab:red", linewidth=1, label="0: wrong to the left")
    right.axvline(1.0, color="tab:green", linewidth=1, linestyle=":", label="1: no loss to the right")
    right.set(xlabel="margin (own score minus best other score)", ylabel="training rows")
    right.set_title("Margins of the training rows (free intercept)")
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize="small")
    figure.savefig(path, dpi=110)


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "quickstart.png"
    X, X_test, y, y_test = digits()
    print(f"digits: {len(y)} rows to learn from, {len(y_test)} held out, {X.shape[1]} columns, 10 classes; C = {C:g}\n")
    fitted = show_certificates(X, y, X_test, y_test)
    show_rival(X, y, X_test, y_test)
    try:
        draw(fitted, X, y, path)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "matplotlib":
            raise
        print('No picture: matplotlib is not installed (pip install ".[plot]" installs it).')
    else:
        print(f"Picture (convergence and margins): {path}")


if __name__ == "__main__":
    main()
