"""RejectOption: its guarantees on random splits, its manners, and decisions by expected cost."""

import pickle
import warnings

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from polymargin import CrammerSingerSVC, OneVsNoneSVC, RejectOption, load, save
from polymargin.calibration.costs import cost_matrix
from polymargin.rejection import thresholds

pd = pytest.importorskip("pandas")


class Stubborn(ClassifierMixin, BaseEstimator):
    """A classifier that never says how sure it is."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


def rows(n, seed=0, c=3):
    """Rows with a label that is often wrong far from the means: the farther, the safer."""
    rng = np.random.default_rng(seed)
    y = rng.integers(c, size=n)
    return 1.3 * np.eye(c)[y] + rng.standard_normal((n, c)), y


@pytest.fixture(scope="module")
def machine():
    return CrammerSingerSVC(probability=True).fit(*rows(1500, seed=99))


# A test of scikit-learn's checks: with coverage=1 nothing is rejected, and it is a classifier like any other.
@pytest.mark.filterwarnings("ignore:.*trivial solution", "ignore:probability=True")
@parametrize_with_checks(
    [RejectOption(LogisticRegression(), coverage=1.0)],
    expected_failed_checks=lambda estimator: {
        f"check_sample_weight_equivalence_on_{kind}_data": "a row twice may be held out once" for kind in ("dense", "sparse")
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# -- guarantees --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_probabilities", [True, False])
def test_the_risk_is_kept_in_nearly_all_splits(machine, with_probabilities):
    """200 draws of held-out rows; the true risk of each threshold is known from very many rows."""
    base = machine if with_probabilities else CrammerSingerSVC().fit(*rows(1500, seed=99))
    X, y = rows(60_000, seed=1)
    option = RejectOption(FrozenEstimator(base), risk=0.2, delta=0.1)
    sure = option.fit(X[:2000], y[:2000]).confidence(X)
    wrong = base.predict(X) != y
    rng = np.random.default_rng(2)
    broken, coverage = 0, []
    for _ in range(200):
        some = rng.integers(len(y), size=800)
        aside = np.arange(800) % 5 == 0
        found = thresholds.for_risk(sure[some][~aside], wrong[some][~aside], sure[some][aside], 0.2, 0.1)
        accepted = sure >= found
        coverage.append(accepted.mean())
        broken += bool(accepted.any() and wrong[accepted].mean() > 0.2)
    assert broken <= binom.ppf(0.999, 200, 0.1)
    assert np.median(coverage) > 0.3  # it does not buy its guarantee by rejecting everything


def test_the_coverage_is_kept(machine):
    X, y = rows(40_000, seed=3)
    sure = RejectOption(FrozenEstimator(machine), coverage=0.7).fit(X[:100], y[:100]).confidence(X)
    rng = np.random.default_rng(0)
    for n, wanted in ((50, 0.7), (9, 0.9), (333, 0.37)):
        shares = [(sure >= thresholds.for_coverage(sure[rng.integers(len(y), size=n)], wanted)).mean() for _ in range(600)]
        error = np.std(shares) / np.sqrt(600)
        assert wanted - 4 * error <= np.mean(shares) <= wanted + 1 / (n + 1) + 4 * error


@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_sets_hold_the_truth(machine, alpha):
    X, y = rows(30_000, seed=4)
    found = []
    for k in range(60):
        some = slice(200 * k, 200 * (k + 1))
        option = RejectOption(FrozenEstimator(machine), coverage=0.9).fit(X[some], y[some])
        sets = option.predict_set(X[15_000:], alpha)
        found.append(sets[np.arange(15_000), y[15_000:]].mean())
    error = np.std(found) / np.sqrt(len(found))
    assert 1 - alpha - 4 * error <= np.mean(found) <= 1 - alpha + 1 / 201 + 4 * error
    assert sets.sum(axis=1).mean() < 3


def test_a_set_of_few_rows_is_everything():
    assert thresholds.quantile_of_strangeness(np.zeros(5), 0.1) == np.inf
    assert thresholds.quantile_of_strangeness(np.arange(9.0), 0.1) == 8.0


def test_the_p_values_are_those_of_clopper_and_pearson():
    """40 rows without an error prove 0.075 at 0.05, and not 0.07; one error more needs more rows."""
    assert thresholds.fewest_rows(0.075, 0.05) == 39
    sure, right = np.linspace(0, 1, 40), np.zeros(40, dtype=bool)
    assert thresholds.for_risk(sure, right, sure, 0.075, 0.05) == -np.inf
    assert thresholds.for_risk(sure, right, sure, 0.07, 0.05) == np.inf


def test_chows_rule(machine):
    X, y = rows(500, seed=5)
    option = RejectOption(FrozenEstimator(machine), cost=0.3).fit(X, y)
    np.testing.assert_array_equal(option.accepts(X), machine.predict_proba(X).max(axis=1) >= 0.7)


# -- manners -----------------------------------------------------------------------------------------------


def test_labels_of_rejected_rows():
    X, y = rows(600)
    option = RejectOption(CrammerSingerSVC(probability=True), coverage=0.6).fit(X, y)
    labels, accepted = option.predict_or_reject(X)
    assert 0.4 < accepted.mean() < 0.8 and option.coverage_ >= 0.6
    predicted = option.predict(X)
    assert predicted.dtype.kind == "i" and (predicted[~accepted] == -1).all()
    np.testing.assert_array_equal(predicted[accepted], labels[accepted])
    assert option.score(X, y) == (labels == y)[accepted].mean() > (labels == y).mean()
    names = np.array(["a", "b", "c"])[y]
    text = RejectOption(CrammerSingerSVC(), coverage=0.6).fit(X, names)
    assert set(text.predict(X)) == {"a", "b", "c", "rejected"}
    mine = RejectOption(CrammerSingerSVC(), coverage=0.6, reject_label="ask someone").fit(X, names)
    assert "ask someone" in set(mine.predict(X))
    signed = RejectOption(CrammerSingerSVC(), coverage=0.6).fit(X, y - 1)
    assert set(signed.predict(X)) == {-2, -1, 0, 1} and signed.reject_label_ == -2


def test_pickles_clones_frames_pipelines_weights_and_searches():
    X, y = rows(600)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    option = RejectOption(make_pipeline(StandardScaler(), CrammerSingerSVC(probability=True)), risk=0.35)
    fitted = clone(option).fit(frame, y, sample_weight=np.ones(600))
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(frame), fitted.predict(frame))
    np.testing.assert_array_equal(clone(option).fit(frame, y).predict(frame), fitted.predict(frame))
    assert list(fitted.feature_names_in_) == ["a", "b", "c"]
    search = GridSearchCV(RejectOption(CrammerSingerSVC(), coverage=0.8), {"estimator__C": [0.1, 1.0]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.6
    heavy = RejectOption(LogisticRegression(), coverage=0.9).fit(X, y, np.where(y == 0, 50.0, 1.0))
    assert (heavy.predict(X) == 0).mean() > 0.5


def test_it_is_saved_with_its_machine(tmp_path):
    X, y = rows(600)
    option = RejectOption(CrammerSingerSVC(probability=True), risk=0.35).fit(X, y)
    save(option, tmp_path / "m.pm")
    again = load(tmp_path / "m.pm")
    np.testing.assert_array_equal(again.predict(X), option.predict(X))
    np.testing.assert_array_equal(again.predict_set(X), option.predict_set(X))


@pytest.mark.parametrize(
    "params, said",
    [
        ({}, "exactly one of coverage=, risk= and cost="),
        ({"risk": 0.1, "cost": 0.1}, "risk=0.1 and cost=0.1"),
        ({"risk": 0.0}, "risk=0.0 is not valid"),
        ({"coverage": 1.2}, "coverage=1.2 is not valid"),
        ({"risk": 0.1, "delta": 1}, "delta=1.0 is not valid"),
        ({"risk": 0.001}, "can be proven by 2995 held-out rows"),
        ({"cost": 0.1}, "has no predict_proba"),
        ({"coverage": 0.9, "reject_label": 1}, "reject_label=1 is a class"),
    ],
)
def test_bad_parameters_are_refused_with_a_sentence(params, said):
    X, y = rows(100)
    with pytest.raises(ValueError, match=said):
        RejectOption(CrammerSingerSVC(), **params).fit(X, y)


def test_precomputed_kernels_must_be_fitted_before():
    X, y = rows(300)
    K = X @ X.T
    with pytest.raises(ValueError, match="precomputed kernel matrix"):
        RejectOption(CrammerSingerSVC(kernel="precomputed"), coverage=0.9).fit(K, y)
    fitted = CrammerSingerSVC(kernel="precomputed").fit(K[:200, :200], y[:200])
    option = RejectOption(FrozenEstimator(fitted), coverage=0.8).fit(K[200:, :200], y[200:])
    assert option.accepts(K[:200, :200]).mean() > 0.5


def test_what_cannot_be_proven_rejects_everything_and_says_so():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((800, 2)), rng.integers(2, size=800)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noise = LogisticRegression().fit(X, y)
    with pytest.warns(UserWarning, match="all rows are rejected"):
        option = RejectOption(FrozenEstimator(noise), risk=0.1).fit(X, y)
    assert not option.accepts(X).any() and option.score(X, y) == 1.0 and (option.predict(X) == -1).all()


def test_label_matrices_and_classifiers_that_are_never_unsure():
    X, y = rows(100)
    with pytest.raises(ValueError, match="y should be a 1d array"):
        RejectOption(OneVsNoneSVC(), coverage=0.9).fit(X, np.eye(3, dtype=int)[y])
    with pytest.raises(TypeError, match="how sure it is"):
        RejectOption(Stubborn(), coverage=0.9).fit(X, y)


# -- expected cost -----------------------------------------------------------------------------------------


def test_the_cheapest_class_by_expected_cost(machine):
    X, _ = rows(400, seed=6)
    P = machine.predict_proba(X)
    errors = 1.0 - np.eye(3)
    np.testing.assert_array_equal(machine.predict_min_cost(X, errors), P.argmax(axis=1))
    dear = errors.copy()
    dear[2] *= 50.0  # to miss the last class
    found = machine.predict_min_cost(X, dear)
    np.testing.assert_array_equal(found, (P @ dear).argmin(axis=1))
    assert (found == 2).mean() > (P.argmax(axis=1) == 2).mean()


def test_costs_by_name_in_any_order():
    classes = np.array(["cat", "dog"])
    frame = pd.DataFrame([[0.0, 1.0], [5.0, 0.0]], index=["dog", "cat"], columns=["dog", "cat"])
    np.testing.assert_array_equal(cost_matrix(frame, classes), [[0.0, 5.0], [1.0, 0.0]])
    for cost, said in (
        (frame.drop(index="cat"), "no rows for the class 'cat'"),
        ([[0, 1, 2]], r"shape \(1, 3\)"),
        ([[0, np.inf], [1, 0]], "NaN or infinity"),
        ([["a", "b"], ["c", "d"]], "must hold numbers"),
    ):
        with pytest.raises(ValueError, match=said):
            cost_matrix(cost, classes)
    X, y = rows(60)
    with pytest.raises(AttributeError):
        CrammerSingerSVC().fit(X, y).predict_min_cost(X, np.eye(3))
    with pytest.raises(ValueError, match="among classes"):
        OneVsNoneSVC(probability=True).fit(X, np.eye(3, dtype=int)[y]).predict_min_cost(X, np.eye(3))


def test_unknown_classes_are_mostly_rejected():
    """Digits of two classes that were never shown are less sure than the others."""
    X, y = load_digits(return_X_y=True)
    X, known = X / 16, y < 8
    option = RejectOption(CrammerSingerSVC(kernel="rbf", C=10.0, probability=True), coverage=0.9).fit(X[known], y[known])
    assert option.accepts(X[~known]).mean() < 0.5 < option.accepts(X[known]).mean()
