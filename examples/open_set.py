"""Rows that belong to no class: a machine with a reject option leaves most of them to someone else.

    python examples/open_set.py

The classes are intents of bank customers (banking77, if `polymargin.datasets` finds it) or, else, the digits that come with
scikit-learn. A fifth of the classes is never shown: their rows are what a machine in use meets sooner or later.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from polymargin import RejectOption, WestonWatkinsSVC, datasets


def rows() -> tuple[str, np.ndarray, np.ndarray]:
    """Name, X and y."""
    try:
        data = datasets.load("banking77_emb")
        return "intents of bank customers", data.X.astype(np.float32), data.y
    except datasets.DatasetError:
        X, y = load_digits(return_X_y=True)
        return "digits", X / 16.0, y


def main() -> None:
    name, X, y = rows()
    n_classes = y.max() + 1
    unknown = np.isin(y, np.arange(0, n_classes, 5))
    known = X[~unknown], y[~unknown]
    X_train, X_test, y_train, y_test = train_test_split(*known, test_size=0.3, random_state=0, stratify=known[1])
    machine = WestonWatkinsSVC(probability=True, random_state=0)
    print(f"{name}: {n_classes} classes, {len(np.unique(y[unknown]))} of them never shown")
    print(f"{'risk':>6s} {'accepted':>9s} {'wrong among them':>17s} {'accepted of unknown classes':>28s}")
    for risk in (0.05, 0.02):
        option = RejectOption(machine, risk=risk, held_out=0.3, random_state=0).fit(X_train, y_train)
        accepted = option.accepts(X_test)
        wrong = 1.0 - option.score(X_test, y_test)
        print(f"{risk:6.2f} {accepted.mean():9.3f} {wrong:17.4f} {option.accepts(X[unknown]).mean():28.3f}")
    for side, classifier in (("ours", machine), ("LogisticRegression", LogisticRegression(max_iter=1000))):
        classifier.fit(X_train, y_train)
        sure = [classifier.predict_proba(rows).max(axis=1) for rows in (X_test, X[unknown])]
        found = roc_auc_score(np.repeat([1, 0], [len(part) for part in sure]), np.concatenate(sure))
        print(f"known against unknown by the highest probability, area under the ROC curve: {found:.4f} ({side})")
    sets = option.predict_set(X_test, alpha=0.05)
    right = sets[np.arange(len(y_test)), np.searchsorted(option.classes_, y_test)].mean()
    print(f"sets at alpha 0.05: {sets.sum(axis=1).mean():.2f} classes on average, {right:.3f} of them hold the true one")


if __name__ == "__main__":
    main()
