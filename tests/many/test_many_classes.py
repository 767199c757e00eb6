"""Machines with many classes: the best few scores, and class vectors with few entries at a known price."""

import pathlib

import numpy as np
import pytest
from interpreters import run_python
from registry import all_estimators, each_machine, supports_multilabel
from scipy import sparse
from sklearn.datasets import make_classification

from polymargin import CrammerSingerSVC, LpNormSVC, MarginSVC, OneVsNoneSVC, WestonWatkinsSVC, load, save
from polymargin.estimators.parts import top_scores

X, y = make_classification(
    n_samples=120, n_features=12, n_informative=8, n_classes=5, n_clusters_per_class=1, random_state=0
)
X = X / np.abs(X).max()


def best_of(scores: np.ndarray, k: int) -> np.ndarray:
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of a few rows and classes, so that small data has several of them."""
    monkeypatch.setattr(top_scores, "BLOCK_ENTRIES", 7)
    monkeypatch.setattr(top_scores, "_FEWEST_CLASSES", 2)


@pytest.mark.parametrize("k", [1, 2, 5])
@each_machine
def test_the_best_classes_are_those_of_all_scores(machine, k, small_blocks):
    est = machine().fit(X, y)
    scores = est.decision_function(X)
    top = est.decision_function(X, top=k)
    np.testing.assert_allclose(top.scores, -np.sort(-scores, axis=1)[:, :k], rtol=1e-12, atol=1e-12)
    places = np.searchsorted(est.classes_, top.classes)  # scores of blocks round in other ways: equal ones may change places
    np.testing.assert_allclose(np.take_along_axis(scores, places, axis=1), top.scores, rtol=1e-12, atol=1e-12)
    assert all(len(set(row)) == k for row in top.classes.tolist())
    np.testing.assert_array_equal(est.predict_topk(X, k), top.classes)
    np.testing.assert_array_equal(est.predict_topk(X, 1)[:, 0], est.predict(X))


@pytest.mark.parametrize("rows", [sparse.csr_array(X), X.astype(np.float32)], ids=["csr", "float32"])
@pytest.mark.parametrize("stored", ["dense", "sparse"])
def test_blocks_and_inverted_lists_change_nothing(rows, stored, small_blocks):
    est = CrammerSingerSVC().fit(X, y)
    scores = est.decision_function(rows)
    if stored == "sparse":
        est.sparsify()
    np.testing.assert_array_equal(est.predict_topk(rows, 3), best_of(scores, 3))


def test_ties_go_to_the_lower_class_and_large_predictions_are_those_of_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    S = rng.integers(0, 3, size=(200, 9)).astype(float)
    for k in range(1, 10):
        np.testing.assert_array_equal(top_scores.best_places(S, k), best_of(S, k))
    est = WestonWatkinsSVC(kernel="rbf").fit(X, y)
    before = est.predict(X)
    monkeypatch.setattr("polymargin.estimators.base.BLOCK_ENTRIES", 1)
    np.testing.assert_array_equal(est.predict(X), before)


def test_two_classes_have_the_scores_of_both():
    est = CrammerSingerSVC().fit(X[y < 2], y[y < 2])
    top = est.decision_function(X, top=2)
    one = est.decision_function(X)
    np.testing.assert_allclose(np.abs(one), top.scores[:, 0] - top.scores[:, 1], atol=1e-12)
    np.testing.assert_array_equal(top.classes[:, 0], est.predict(X))


@pytest.mark.parametrize("k", [0, 6, 2.0, True])
def test_impossible_numbers_of_classes_are_named(k):
    with pytest.raises(ValueError, match=f"k={k!r} is not valid"):
        CrammerSingerSVC().fit(X, y).predict_topk(X, k)


@pytest.mark.parametrize("machine", [m for m in all_estimators() if supports_multilabel(m)], ids=lambda m: m.__name__)
def test_label_matrices_have_best_columns_and_sparse_sets_in_blocks(machine, monkeypatch):
    Y = np.column_stack([y % 2, y > 2, y == 1, np.arange(len(y)) % 3 == 0]).astype(np.int64)
    est = machine().fit(X, sparse.csr_array(Y))
    np.testing.assert_array_equal(est.predict_topk(X, 2), best_of(est.decision_function(X), 2))
    whole = est.predict(X)
    monkeypatch.setattr("polymargin.estimators.parts.label_matrices.BLOCK_ENTRIES", 16)
    parts = est.predict(X)
    assert sparse.issparse(parts) and parts.dtype == whole.dtype == Y.dtype
    np.testing.assert_array_equal(parts.toarray(), whole.toarray())


# ---- fewer entries ------------------------------------------------------------------------------------------------------


def is_thinned(machine):
    return machine is not OneVsNoneSVC  # whose class vectors may have to add up to zero; below


@pytest.mark.parametrize("machine", list(filter(is_thinned, all_estimators())), ids=lambda m: m.__name__)
def test_the_certificate_after_a_budget_is_that_of_the_arrays(machine, tmp_path):
    est = machine(tol=1e-3).fit(X, y)
    fitted, entries = est.certificate_, np.count_nonzero(est.class_vectors_)
    assert est.sparsify(X, y, budget=0.05, dtype=np.float32) is est
    end = est.certificate_
    assert est.class_vectors_.nnz < entries and est.class_vectors_.dtype == np.float32
    for one in (est, load(save(est, tmp_path / "m.pm") or tmp_path / "m.pm")):
        assert one.objective(X, y) == pytest.approx(end.primal, rel=1e-10) == pytest.approx(one.objective_)
    assert end.primal <= fitted.primal + 0.05 * abs(fitted.primal - fitted.constant) + 1e-6 * abs(fitted.primal)
    assert end.dual == fitted.dual and end.gap == end.primal - end.dual
    assert end.price == pytest.approx(end.primal - fitted.primal, abs=1e-12)
    assert end.status == ("sparsified" if end.price > 1e-3 * abs(end.primal - end.constant) else fitted.status)


def test_a_larger_budget_leaves_fewer_entries_and_prices_add_up():
    est = WestonWatkinsSVC().fit(X, y)
    first, sizes = est.objective_, []
    for budget in (0.0, 0.01, 0.05, 0.2):
        sizes.append(est.sparsify(X, y, budget=budget).class_vectors_.nnz)
        assert est.certificate_.price == pytest.approx(est.objective_ - first, abs=1e-9)
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] < sizes[0]


def test_what_cannot_be_judged_is_refused():
    est = CrammerSingerSVC().fit(X, y)
    with pytest.raises(ValueError, match="are not those of the fit"):
        est.sparsify(X[:60], y[:60], budget=0.1)
    with pytest.raises(ValueError, match="needs the rows X and targets y"):
        est.sparsify(budget=0.1)
    with pytest.raises(ValueError, match="budget=None is not valid with X and dtype"):
        est.sparsify(X, dtype=np.float32)
    with pytest.raises(ValueError, match="budget=-1"):
        est.sparsify(X, y, budget=-1)
    with pytest.raises(ValueError, match="dtype='int8' is not valid"):
        est.sparsify(X, y, budget=0.1, dtype="int8")
    with pytest.raises(ValueError, match="must add up to zero"):
        MarginSVC(loss="lee_lin_wahba").fit(X, y).sparsify(X, y, budget=0.1)
    assert est.certificate_.price == 0.0 and isinstance(est.class_vectors_, np.ndarray)


# ---- fits that stay sparse ----------------------------------------------------------------------------------------------


def text(n_rows: int, n_words: int, n_classes: int, seed: int = 0) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Short rows of words that neighbouring classes share: few rivals, few duals, and class vectors that are mostly 0."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n_rows) % n_classes
    own = labels[:, None] * 2 + rng.integers(0, 4, size=(n_rows, 3))
    words = np.concatenate([own % n_words, rng.integers(0, n_words, size=(n_rows, 1))], axis=1)
    rows = np.repeat(np.arange(n_rows), words.shape[1])
    counts = sparse.csr_matrix((np.ones(words.size), (rows, words.ravel())), shape=(n_rows, n_words))
    return sparse.csr_matrix(counts.multiply(1.0 / np.sqrt(counts.multiply(counts).sum(axis=1)))), labels


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("machine", [CrammerSingerSVC, WestonWatkinsSVC, LpNormSVC], ids=lambda m: m.__name__)
def test_a_fit_of_few_duals_ends_with_zeros_and_their_certificate(machine, dtype, monkeypatch):
    monkeypatch.setattr("polymargin.solvers.cost_model._SMALL_AVERAGE", 0)  # as with so many classes that there is no room
    rows, labels = text(600, 3000, 150)
    rows = rows.astype(dtype)
    settings = {"p": 2.0} if machine is LpNormSVC else {}
    est = machine(C=10.0, fit_intercept=False, tol=1e-3, warm_start=True, **settings).fit(rows, labels)
    assert est.class_vectors_.dtype == dtype and np.mean(est.class_vectors_ != 0.0) < 0.25
    assert est.certificate_.status == "optimal"
    assert est.objective(rows, labels) == pytest.approx(est.certificate_.primal, rel=1e-9)
    np.testing.assert_allclose(est.dual_coef_ @ rows[est.support_], est.class_vectors_, atol=1e-5)
    for limit in ("_MOSTLY_ZERO", "_CHEAP"):  # the same as an array; the loop's own W
        monkeypatch.setattr(f"polymargin.solvers.ascent.row_ascent.{limit}", 0.0)
        other = machine(C=10.0, fit_intercept=False, tol=1e-3, **settings).fit(rows, labels)
        np.testing.assert_allclose(other.class_vectors_, est.class_vectors_, atol=1e-6)


def test_memory_of_a_fit_with_many_classes_is_that_of_one_dense_copy():
    """The loop's class vectors, and the returned ones in single precision after it: not a third array of that size."""
    if not pathlib.Path("/proc/self/clear_refs").exists():
        pytest.skip("needs Linux's /proc")
    code = """
        import pathlib, re, sys, numpy as np
        sys.path[:0] = sys.argv[1:]
        from test_many_classes import text
        from polymargin import CrammerSingerSVC
        def status(field):
            return 1024 * int(re.findall(rf"{field}:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[0])
        machine = CrammerSingerSVC(fit_intercept=False, tol=1e-1)
        machine.fit(*text(100, 100, 20))
        rows, labels = text(4000, 9000, 1000)
        before = status("VmRSS")
        pathlib.Path("/proc/self/clear_refs").write_text("5")
        machine.fit(rows.astype(np.float32), labels)
        print((status("VmHWM") - before) / (8 * 9000 * 1000))
        """
    here = pathlib.Path(__file__).parent
    assert float(run_python(code, str(here), str(here.parent / "support"))) < 1.6


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("machine", [CrammerSingerSVC, WestonWatkinsSVC])
def test_short_lists_among_very_many_classes_miss_nothing(machine, fit_intercept):
    """Rows list the few classes they have moved at once; the certificate is of all classes."""
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat(np.arange(520), 2))
    rows = np.abs(rng.normal(size=(1040, 40))) * (rng.random((1040, 40)) < 0.2) + np.eye(520, 40)[labels]
    fit = machine(C=0.1, tol=1e-4, fit_intercept=fit_intercept, random_state=0).fit(sparse.csr_array(rows), labels)
    assert fit.certificate_.converged
    dense = machine(C=0.1, tol=1e-4, fit_intercept=fit_intercept, random_state=1).fit(rows, labels)
    assert fit.objective_ == pytest.approx(dense.objective_, rel=2e-4)
