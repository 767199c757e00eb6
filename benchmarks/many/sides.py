"""Who takes part: each side fits the training rows and names the five best labels of the test rows. One thread each."""

import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .cases import Split

K = 5  # labels a row that are judged


class Fitted(NamedTuple):
    """What a side leaves: the best labels of rows, how large the model is in a file, and what else to tell."""

    top: Callable[[Any], Any]
    size: Callable[[], int]
    notes: dict[str, Any]


def flat(split: Split) -> Fitted:
    """Our machines over all classes or labels at once, stored sparse."""
    from polymargin import CrammerSingerSVC, MultiLabelSVC

    machine: Any = CrammerSingerSVC(fit_intercept=False, tol=1e-2)
    if split.has_labels:
        machine = MultiLabelSVC(loss="squared_relevance", tol=1e-3)
    machine.fit(split.X, split.y)
    end = machine.certificate_
    machine.sparsify()
    notes = {"status": end.status, "rel_gap": end.rel_gap, "entries": int(machine.class_vectors_.nnz)}
    return Fitted(lambda X: machine.predict_topk(X, K), lambda: _saved_size(machine), notes)


def tree(split: Split) -> Fitted:
    """Our trees with their defaults."""
    from polymargin import LabelTree

    machine = LabelTree().fit(split.X, split.y)
    notes = {"nodes": sum(len(one.certificates) for one in machine.trees_), "rel_gap": machine.rel_gap_}
    return Fitted(lambda X: machine.predict_topk(X, K), lambda: _saved_size(machine), notes)


def linear_svc(split: Split) -> Fitted:
    """scikit-learn's LinearSVC, one machine a class; labels through OneVsRestClassifier."""
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import LinearSVC

    machine = OneVsRestClassifier(LinearSVC()) if split.has_labels else LinearSVC()
    machine.fit(split.X, split.y)
    classes = np.arange(split.n_labels) if split.has_labels else machine.classes_

    def top(X: Any) -> Any:
        scores = machine.decision_function(X)
        return classes[np.argsort(-scores, axis=1, kind="stable")[:, :K]]

    return Fitted(top, lambda: len(pickle.dumps(machine)), {})


def omikuji(split: Split) -> Fitted:
    """Three trees with its default parameters (those of Parabel)."""
    import omikuji as rival

    folder = Path(tempfile.mkdtemp())
    _write_repository_format(folder / "train.txt", split.X, split.label_matrix(split.y))
    model = rival.Model.train_on_data(str(folder / "train.txt"), n_threads=1)

    def size() -> int:
        model.save(str(folder / "model"))
        return _folder_size(folder / "model")

    def top(X: Any) -> Any:
        model.init_prediction_thread_pool(1)
        found = np.full((X.shape[0], K), -1)
        for i in range(X.shape[0]):
            entries = slice(X.indptr[i], X.indptr[i + 1])
            pairs = list(zip(X.indices[entries].tolist(), X.data[entries].tolist(), strict=True))
            best = model.predict(pairs, top_k=K)
            found[i, : len(best)] = [label for label, _ in best]
        return found

    return Fitted(top, size, {})


def napkinxc(split: Split) -> Fitted:
    """Its probabilistic label tree with the defaults, an ensemble of three as the other trees."""
    from napkinxc.models import PLT

    folder = tempfile.mkdtemp()
    model = PLT(folder, ensemble=3, threads=1, seed=0)
    Y = split.label_matrix(split.y)
    model.fit(sparse.csr_matrix(split.X, dtype=np.float32), _lists(Y))

    def top(X: Any) -> Any:
        found = np.full((X.shape[0], K), -1)
        for i, best in enumerate(model.predict(sparse.csr_matrix(X, dtype=np.float32), top_k=K)):
            found[i, : len(best)] = best
        return found

    return Fitted(top, lambda: _folder_size(Path(folder)), {})


SIDES: dict[str, Callable[[Split], Fitted]] = {
    "flat": flat,
    "tree": tree,
    "LinearSVC": linear_svc,
    "omikuji": omikuji,
    "napkinXC": napkinxc,
}


def _saved_size(model: Any) -> int:
    from polymargin import save

    with tempfile.NamedTemporaryFile() as file:
        save(model, file.name)
        return Path(file.name).stat().st_size


def _folder_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _lists(Y: Any) -> list[list[int]]:
    return [Y.indices[a:b].tolist() for a, b in zip(Y.indptr, Y.indptr[1:], strict=False)]


def _write_repository_format(path: Path, X: Any, Y: Any) -> None:
    """Rows as the Extreme Classification Repository writes them."""
    labels = _lists(Y)
    with open(path, "w") as file:
        print(X.shape[0], X.shape[1], Y.shape[1], file=file)
        for i, row in enumerate(labels):
            entries = zip(X.indices[X.indptr[i] : X.indptr[i + 1]], X.data[X.indptr[i] : X.indptr[i + 1]], strict=True)
            print(",".join(map(str, row)), *(f"{j}:{value:g}" for j, value in entries), file=file)
