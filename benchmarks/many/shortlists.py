"""How many scores bounds could spare: `python -m benchmarks many --shortlist`.

Between two passes over all classes a score changes by at most |x_i| |w_k - w_k old|. A class whose old score plus that
is below the best rival of a row need not be scored again. The machines are those after some epochs of the same fit; the
share of scores that are left to compute is given for old scores of all rows and classes (n c numbers in memory), and
for one number a row: the 21st best old score, which stands for all classes that are not among the 20 best.
"""

import time
import warnings
from typing import Any

import numpy as np

from ..table import aligned
from . import cases

EPOCHS = (1, 2, 4)  # after which old scores are taken; the end of the fit is where they are used
LISTED = 20
SAMPLE = 1500  # rows


def machine_after(split: cases.Split, epochs: int) -> tuple[Any, float]:
    """The class vectors, and the processor seconds of the whole fit."""
    from polymargin import CrammerSingerSVC

    start = time.process_time()
    machine = CrammerSingerSVC(fit_intercept=False, tol=1e-2, max_iter=epochs).fit(split.X, split.y)
    return machine, time.process_time() - start


def shares(split: cases.Split) -> list[list[str]]:
    """Of each number of epochs: seconds of a fit that ends there, and the two shares of scores left at the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fits that stop early
        end, seconds = machine_after(split, 1000)
        before = {epochs: machine_after(split, epochs) for epochs in EPOCHS if epochs < end.n_iter_}
    rows = np.random.default_rng(0).permutation(split.X.shape[0])[:SAMPLE]
    X, own = split.X[rows], np.searchsorted(end.classes_, split.y[rows])
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).reshape(-1, 1))
    now = np.asarray(X @ end.class_vectors_.T)
    now[np.arange(len(own)), own] = -np.inf
    level = now.max(axis=1, keepdims=True)
    lines = []
    for epochs, (machine, spent) in before.items():
        old = np.asarray(X @ machine.class_vectors_.T)
        moved = lengths * np.linalg.norm(end.class_vectors_ - machine.class_vectors_, axis=1)
        cap = -np.partition(-old, LISTED, axis=1)[:, [LISTED]]
        kept = [float((bound >= level).mean()) for bound in (old + moved, cap + moved)]
        lines.append([f"{epochs}", f"{spent:.2f}", *(f"{share:.3f}" for share in kept)])
    return [*lines, [f"{end.n_iter_} (end)", f"{seconds:.2f}", "", ""]]


def show(names: list[str]) -> None:
    header = ["case", "epochs", "seconds", "left, all old scores kept", "left, one number a row"]
    lines = [[name, *line] for name in names for line in shares(cases.load(name))]
    print(aligned(header, lines))
