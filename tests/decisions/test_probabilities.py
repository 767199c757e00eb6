"""probability=True: what is fitted, to which rows, at which price; the same for every machine."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from registry import all_estimators, each_machine, supports_multilabel
from scipy.special import expit, log_softmax, softmax
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polymargin import M3SVC, CrammerSingerSVC, OneVsNoneSVC, PathCV, WestonWatkinsSVC, load, regularization_path, save
from polymargin.calibration import ClassOutcomes, LabelOutcomes, fit_scaling
from polymargin.calibration.scaling import Scaling, newton, with_biases, with_lapse, with_mixing
from polymargin.estimators.fitting import out_of_fold
from polymargin.selection.folds import NEVER, label_folds

NAMES = {"temperature_", "class_biases_", "class_mixing_", "lapse_"}


def noisy(n, c=4, d=5, seed=0):
    """Overlapping classes whose true probabilities are known."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((d, c))
    X = rng.standard_normal((n, d))
    P = softmax(1.5 * X @ W, axis=1)
    y = (P.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return X, y, P


# -- what all machines promise -----------------------------------------------------------------------------


@each_machine
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_probabilities_are_near_the_truth(machine, kernel):
    X, y, P = noisy(900)
    test = slice(600, None)
    est = machine(kernel=kernel, probability=True).fit(X[:600], y[:600])
    found = est.predict_proba(X[test])
    assert found.shape == (300, 4) and est.temperature_ > 0.0
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(est.predict_log_proba(X[test]), np.log(found), rtol=1e-9, atol=1e-12)
    truth = -(P[test] * np.log(P[test])).sum(axis=1).mean()
    achieved = -(P[test] * np.log(found)).sum(axis=1).mean()
    most = 0.5 if machine is OneVsNoneSVC else 0.25  # of what there is to know; a machine without negatives learns less
    assert achieved - truth < most * (np.log(4) - truth), (achieved, truth)


@each_machine
def test_probabilities_do_not_change_the_machine(machine, overlapping):
    X, y = overlapping
    plain, with_them = machine().fit(X, y), machine(probability=True).fit(X, y)
    np.testing.assert_array_equal(plain.class_vectors_, with_them.class_vectors_)
    np.testing.assert_array_equal(plain.class_offsets_, with_them.class_offsets_)
    assert plain.certificate_.primal == with_them.certificate_.primal
    assert plain.n_iter_ == with_them.n_iter_
    assert {name for name in vars(with_them) if name not in vars(plain)} == NAMES


@each_machine
def test_fits_can_be_repeated_pickled_saved_and_cloned(machine, overlapping, tmp_path):
    X, y = overlapping
    est = machine(probability=True, random_state=3).fit(X, y)
    P = est.predict_proba(X)
    for other in (clone(est).fit(X, y), pickle.loads(pickle.dumps(est)), _round_trip(est, tmp_path)):
        np.testing.assert_array_equal(other.predict_proba(X), P)
    assert clone(est).probability is True


def _round_trip(est, folder):
    save(est, folder / "m.pm")
    return load(folder / "m.pm")


@each_machine
def test_two_classes_have_two_columns(machine, two_classes):
    X, y = two_classes
    names = np.array(["no", "yes"])[y]
    est = machine(probability=True).fit(X, names)
    P = est.predict_proba(X)
    assert P.shape == (80, 2)
    odds = est.decision_function(X) / est.temperature_ + np.diff(est.class_biases_)
    np.testing.assert_allclose(P[:, 1], (1 - est.lapse_) * expit(odds) + est.lapse_ / 2, rtol=1e-9)


@each_machine
def test_float32_stays_and_sparse_rows_are_the_same(machine, overlapping, tmp_path):
    X, y = overlapping
    est = machine(probability=True).fit(X.astype(np.float32), y)
    P = est.predict_proba(X.astype(np.float32))
    assert P.dtype == np.float32
    log_loss(y, P)  # which warns if rows do not add up to 1
    np.testing.assert_array_equal(_round_trip(est, tmp_path).predict_proba(X.astype(np.float32)), P)
    np.testing.assert_allclose(est.predict_proba(X.astype(np.float32).astype(np.float64)), P, atol=1e-5)
    dense, sparse = (machine(probability=True, tol=1e-8).fit(form, y).predict_proba(form) for form in (X, sp.csr_matrix(X)))
    np.testing.assert_allclose(dense, sparse, atol=2e-2)


@each_machine
def test_without_probability_there_is_none_and_it_says_what_to_do(machine, overlapping):
    X, y = overlapping
    est = machine().fit(X, y)
    assert not hasattr(est, "predict_proba") and not hasattr(est, "predict_log_proba")
    with pytest.raises(AttributeError) as caught:
        est.predict_proba(X)
    assert "probability=True" in str(caught.value.__cause__ or caught.value)
    est.set_params(probability=True)
    with pytest.raises(AttributeError, match="it again with probability=True"):
        est.predict_proba(X)
    est.fit(X, y).set_params(probability=False).fit(X, y)
    assert not NAMES & set(vars(est))
    with pytest.raises((ValueError, TypeError), match="probability"):
        machine(probability="yes").fit(X, y)


@each_machine
def test_weights_of_two_count_twice(machine, overlapping):
    """The folds differ, so temperatures agree roughly only; a weight of 0 is the row left out exactly."""
    X, y = overlapping
    weight = np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0)
    weighted = machine(probability=True).fit(X, y, weight)
    twice = machine(probability=True).fit(np.repeat(X, weight.astype(int), axis=0), np.repeat(y, weight.astype(int)))
    assert abs(np.log(weighted.temperature_ / twice.temperature_)) < 0.7
    out = np.arange(len(y)) % 5 == 0
    zero = machine(probability=True).fit(X, y, np.where(out, 0.0, 1.0))
    less = machine(probability=True).fit(X[~out], y[~out])
    np.testing.assert_allclose(zero.predict_proba(X), less.predict_proba(X), rtol=1e-9)


def test_class_weights_move_the_probabilities(overlapping):
    X, y = overlapping
    plain = CrammerSingerSVC(probability=True).fit(X, y).predict_proba(X)[:, 0].mean()
    heavy = CrammerSingerSVC(probability=True, class_weight={0: 5.0}).fit(X, y).predict_proba(X)[:, 0].mean()
    assert heavy > plain + 0.1


# -- folds -------------------------------------------------------------------------------------------------


@each_machine
def test_the_temperature_is_that_of_rows_left_out(machine):
    """Close to what slow, cold, exact fits of folds give; that of the training rows themselves is another."""
    X, y, _ = noisy(240, c=3, d=40, seed=1)
    est = machine(probability=True).fit(X, y)
    scores = cross_val_predict(
        machine(), X, y, cv=StratifiedKFold(3, shuffle=True, random_state=0), method="decision_function"
    )
    outcomes = ClassOutcomes(y, np.ones(len(y)), 3)
    slow = 1.0 / fit_scaling(scores, outcomes).slope
    seen = 1.0 / fit_scaling(est.decision_function(X), outcomes).slope
    assert abs(np.log(est.temperature_ / slow)) < 0.35, (est.temperature_, slow)
    assert abs(np.log(est.temperature_ / slow)) < 0.5 * abs(np.log(seen / slow))


def test_folds_start_from_the_whole_fit_and_share_its_map(monkeypatch, overlapping):
    X, y = overlapping
    maps, starts = [], []
    original = out_of_fold.solve_near_zero

    def watched(*args, **settings):
        starts.append(settings["start"])
        return original(*args, **settings)

    monkeypatch.setattr(out_of_fold, "solve_near_zero", watched)
    from polymargin.features.kernel_map import KernelMap

    fit_transform = KernelMap.fit_transform
    monkeypatch.setattr(KernelMap, "fit_transform", lambda self, *a: maps.append(1) or fit_transform(self, *a))
    M3SVC(kernel="rbf", probability=True).fit(X, y)
    assert len(maps) == 1 and len(starts) == 3
    assert all(start is not None and len(start.duals.values) for start in starts)


def test_the_kernel_dual_scores_rows_left_out(monkeypatch):
    from polymargin.estimators.kernels import expansion

    X, y, _ = noisy(900, d=12)
    monkeypatch.setattr(expansion, "_FEWEST_ROWS", 100)
    est = CrammerSingerSVC(kernel="rbf", probability=True).fit(X[:600], y[:600])
    assert [stage.method for stage in est.certificate_.stages] == ["kernel dual"]
    monkeypatch.setattr(expansion, "_FEWEST_ROWS", 10_000)
    mapped = CrammerSingerSVC(kernel="rbf", probability=True).fit(X[:600], y[:600])
    assert abs(np.log(est.temperature_ / mapped.temperature_)) < 0.1
    assert log_loss(y[600:], est.predict_proba(X[600:])) < np.log(4)


def test_a_start_that_rounding_spoils_is_left_out():
    """A sparse column far from zero, wild weights: what is left of the duals is rounding in the centred sums."""
    from fuzz.machines import build, draw

    case = build(draw(900583))
    for seed in (0, 2, 7, 12345):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the scale of the column
            est = case.estimator(probability=True, random_state=seed).fit(case.X, case.y, case.sample_weight)
        assert np.isfinite(est.predict_log_proba(case.X)).all()


@pytest.mark.parametrize("n, n_folds", [(4_000, 3), (8_000, 1), (10_000, 1), (18_000, 1)])
def test_many_rows_need_few_folds(n, n_folds, monkeypatch):
    """Just enough rows are left out, in one fold where there are plenty."""
    calls = []
    original = out_of_fold.FoldFits.scores
    monkeypatch.setattr(out_of_fold.FoldFits, "scores", lambda self, out: calls.append(out.sum()) or original(self, out))
    X, y, _ = noisy(n, c=3)
    CrammerSingerSVC(probability=True).fit(X, y)
    assert len(calls) == n_folds and 1800 <= sum(calls) <= 2400


def test_classes_of_one_row_are_never_left_out_and_a_sentence_says_so(iris):
    X, y = iris
    rows = np.r_[0:30, 50:80, 100]
    with pytest.warns(UserWarning, match="1 of 61 rows are the only ones of a class"):
        est = CrammerSingerSVC(probability=True).fit(X[rows], y[rows])
    assert np.isfinite(est.predict_log_proba(X)).all()
    with pytest.raises(ValueError, match="needs a class with two rows or more"):
        CrammerSingerSVC(probability=True).fit(X[[0, 60, 120]], y[[0, 60, 120]])
    two = np.r_[0:2, 50:52, 100:102]
    assert CrammerSingerSVC(probability=True).fit(X[two], y[two]).predict_proba(X).shape == (150, 3)


def test_each_label_keeps_members_outside_every_fold():
    rng = np.random.default_rng(0)
    for _ in range(50):
        Y = rng.random((30, 12)) < 0.08
        Y[0, ~Y.any(axis=0)] = True
        folds = label_folds(sp.csr_array(Y), 3, int(rng.integers(1000)))
        for fold in range(3):
            assert Y[folds != fold].any(axis=0).all()
        assert ((folds >= NEVER) & (folds < 3)).all()


def test_an_interrupted_fold_is_the_last_one_if_the_machine_is_to_be_kept(monkeypatch, overlapping):
    X, y = overlapping
    solved, original = [], CrammerSingerSVC._solve

    def interrupted(self, problem, ledger, **settings):
        solved.append(problem.n_rows)
        if len(solved) == 1:
            solved[0] = original(self, problem, ledger, **settings)
            return solved[0]
        ledger.at_hand = lambda: solved[0].machine  # inside the first fold
        raise KeyboardInterrupt

    monkeypatch.setattr(CrammerSingerSVC, "_solve", interrupted)
    est = CrammerSingerSVC(probability=True, on_interrupt="keep").fit(X, y)
    assert len(solved) == 2 and est.certificate_.status == "optimal"
    assert 0.0 < est.temperature_ < np.inf and est.predict_proba(X).shape == (120, 4)


def test_an_interrupt_leaves_the_last_machine(monkeypatch, overlapping):
    X, y = overlapping
    est = CrammerSingerSVC(probability=True).fit(X, y)
    before = est.temperature_

    def stop(self, out):
        raise KeyboardInterrupt

    monkeypatch.setattr(out_of_fold.FoldFits, "scores", stop)
    with pytest.raises(KeyboardInterrupt):
        est.set_params(C=100.0).fit(X, y)
    assert est.temperature_ == before and est.certificate_.converged


# -- label matrices ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def labelled():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((500, 6))
    W = rng.standard_normal((6, 4))
    Y = (rng.random((500, 4)) < expit(2.0 * X @ W - 0.5)).astype(int)
    return X, Y, expit(2.0 * X @ W - 0.5)


@pytest.mark.parametrize("machine", [m for m in all_estimators() if supports_multilabel(m)])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_labels_have_a_probability_each(machine, as_sparse, labelled):
    X, Y, _ = labelled
    est = machine(C=0.1, probability=True).fit(X[:350], sp.csr_array(Y[:350]) if as_sparse else Y[:350])
    found = est.predict_proba(X[350:])
    assert found.shape == (150, 4) and ((found > 0) & (found < 1)).all()
    losses = [log_loss(Y[350:, k], found[:, k]) for k in range(4)]
    chance = [log_loss(Y[350:, k], np.full(150, Y[:350, k].mean())) for k in range(4)]
    assert np.mean(losses) < 0.95 * np.mean(chance)
    # near 1 the logarithm of a probability has lost digits
    np.testing.assert_allclose(est.predict_log_proba(X[350:]), np.log(found), rtol=1e-9, atol=1e-15)


def test_unknown_entries_do_not_count(labelled):
    X, Y, _ = labelled
    signed = np.where(Y > 0, 1, -1)
    all_known = OneVsNoneSVC(probability=True, C=0.1).fit(X, signed)
    signed[::2, 1] = 0
    fewer = OneVsNoneSVC(probability=True, C=0.1).fit(X, signed)
    assert abs(np.log(all_known.temperature_ / fewer.temperature_)) < 0.4
    outcomes = LabelOutcomes(np.array([[1, 0], [-1, 1]], dtype=np.int8), np.ones((2, 2)))
    assert outcomes.weight[0, 1] == 0.0


# -- the scaling itself ------------------------------------------------------------------------------------


def scores_of(n, c, slope, biases, seed=0):
    rng = np.random.default_rng(seed)
    S = rng.standard_normal((n, c))
    P = softmax(slope * S + biases, axis=1)
    return S, (P.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


def test_slope_and_biases_are_found():
    biases = np.array([1.0, -1.0, 0.5, -0.5])
    S, y = scores_of(20_000, 4, 3.0, biases)
    found = fit_scaling(S, ClassOutcomes(y, np.ones(len(y)), 4))
    assert found.slope == pytest.approx(3.0, rel=0.05)
    np.testing.assert_allclose(found.biases, biases, atol=0.1)
    assert found.lapse < 0.005


def test_biases_that_do_not_pay_are_seldom_taken():
    """A standard error is no proof: chance gains more than that now and then."""
    taken = 0
    for seed in range(20):
        S, y = scores_of(600, 6, 2.0, 0.0, seed=seed)
        outcomes = ClassOutcomes(y, np.ones(600), 6)
        taken += fit_scaling(S, outcomes).biases.any()
        assert with_biases(S, outcomes, newton(S, outcomes, outcomes.bases()[0])).biases.any()
    assert taken <= 5
    few = ClassOutcomes(y[:250], np.ones(250), 6)
    assert not fit_scaling(S[:250] - 3.0 * np.eye(6)[0], few).biases.any()  # fewer than fifty rows a class


def test_the_gradient_is_zero_at_the_end():
    S, y = scores_of(300, 5, 2.0, 1.0, seed=1)
    outcomes = ClassOutcomes(y, np.random.default_rng(0).uniform(0.5, 2.0, 300), 5)
    found = newton(S, outcomes, np.eye(5))
    terms = outcomes.terms(found.apply(S))
    assert abs(np.vdot(terms.gradient, S)) < 0.3
    assert np.abs(terms.gradient.sum(axis=0) + found.biases).max() < 0.3
    Z, h = found.apply(S), 1e-6
    bumped = Z.copy()
    bumped[7, 2] += h
    assert (outcomes.terms(bumped).value - terms.value) / h == pytest.approx(terms.gradient[7, 2], rel=1e-3)


def test_a_finite_temperature_where_all_rows_are_right():
    X, y = load_iris(return_X_y=True)
    rows = y != 1
    est = CrammerSingerSVC(probability=True).fit(X[rows], y[rows])
    P = est.predict_proba(X[rows])
    assert 1e-6 < est.temperature_ < 1.0 and P.max() < 1.0 and log_loss(y[rows], P) < 0.05


def test_scores_that_say_nothing_are_chance():
    S, y = np.zeros((50, 3)), np.arange(50) % 3
    found = fit_scaling(S, ClassOutcomes(y, np.ones(50), 3))
    assert np.isfinite(found.slope) and np.isfinite(found.biases).all()
    rng = np.random.default_rng(0)
    backwards = -5.0 * np.eye(3)[y] + 0.1 * rng.standard_normal((50, 3))
    P = softmax(newton(backwards, ClassOutcomes(y, np.ones(50), 3), np.zeros((3, 0))).apply(backwards), axis=1)
    np.testing.assert_allclose(P, 1 / 3, atol=1e-3)


def minimised_by_mixing(scaling, S, outcomes):
    """The likelihood with the prior of D and of the biases."""
    deviation = scaling.mixing - np.eye(S.shape[1])
    return outcomes.terms(scaling.apply(S)).value + 50.0 * (deviation**2).sum() + 0.5 * (scaling.biases**2).sum()


def test_mixing_repairs_scores_that_are_confused_and_the_lapse_odd_rows():
    S, y = scores_of(4000, 4, 4.0, 0.0)
    outcomes = ClassOutcomes(y, np.ones(4000), 4)
    confused = S @ (np.eye(4) + 0.6 * np.roll(np.eye(4), 1, axis=0))
    found = fit_scaling(confused, outcomes)
    assert found.mixing is not None
    plain = newton(confused, outcomes, np.zeros((4, 0)))
    assert outcomes.losses(found.apply(confused)).mean() < 0.8 * outcomes.losses(plain.apply(confused)).mean()
    assert with_mixing(S, outcomes, newton(S, outcomes, np.zeros((4, 0)))).mixing is not None
    # the same end from anywhere, beside the same slope
    cold_start = Scaling(found.slope, np.zeros(4))
    again, cold = (with_mixing(confused, outcomes, start) for start in (found, cold_start))
    values = [minimised_by_mixing(one, confused, outcomes) for one in (again, cold)]
    assert values[0] == pytest.approx(values[1], rel=1e-5)
    y[::20] = np.random.default_rng(1).integers(4, size=200)
    odd = with_lapse(S, ClassOutcomes(y, np.ones(4000), 4), newton(S, ClassOutcomes(y, np.ones(4000), 4), np.zeros((4, 0))))
    assert 0.02 < odd.lapse < 0.09 and odd.slope == pytest.approx(4.0, rel=0.2)


def test_labels_share_a_slope():
    rng = np.random.default_rng(0)
    S = rng.standard_normal((5000, 3))
    Y = rng.random((5000, 3)) < expit(2.5 * S - np.array([1.0, 0.0, -1.0]))
    found = fit_scaling(S, LabelOutcomes(np.where(Y, 1, -1).astype(np.int8), np.ones(Y.shape)))
    assert found.slope == pytest.approx(2.5, rel=0.1)
    np.testing.assert_allclose(found.biases, [-1.0, 0.0, 1.0], atol=0.15)


# -- beside scikit-learn -----------------------------------------------------------------------------------


def test_better_than_platt_and_isotonic_on_digits():
    X, y = load_digits(return_X_y=True)
    X = X / 16
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:1200], order[1200:]
    ours = CrammerSingerSVC(probability=True).fit(X[train], y[train])
    mine = log_loss(y[test], ours.predict_proba(X[test]))
    for method in ("sigmoid", "isotonic"):
        theirs = CalibratedClassifierCV(CrammerSingerSVC(), method=method).fit(X[train], y[train])
        assert mine < log_loss(y[test], theirs.predict_proba(X[test]))


def test_pipelines_searches_paths_and_scikit_learns_own_calibration(iris):
    X, y = iris
    model = make_pipeline(StandardScaler(), WestonWatkinsSVC(probability=True)).fit(X, y)
    assert model.predict_proba(X).shape == (150, 3)
    search = PathCV(CrammerSingerSVC(probability=True), {"C": [0.1, 1.0]}, scoring="neg_log_loss", cv=3).fit(X, y)
    assert search.predict_proba(X).shape == (150, 3) and search.best_score_ > -0.5
    path = regularization_path(CrammerSingerSVC(probability=True), X, y, [0.1, 1.0])
    assert path.machines[0].temperature_ != path.machines[1].temperature_
    assert CalibratedClassifierCV(CrammerSingerSVC(probability=True), cv=3).fit(X, y).predict_proba(X).shape == (150, 3)


def test_smooth_losses_have_their_own_and_are_calibrated_on_request(iris):
    X, y = iris
    own = M3SVC(loss="softmax").fit(X, y)
    np.testing.assert_allclose(own.predict_log_proba(X), log_softmax(own.decision_function(X), axis=1), rtol=1e-9)
    assert not NAMES & set(vars(own))
    asked = M3SVC(loss="softmax", probability=True).fit(X, y)
    assert asked.temperature_ != 1.0
    assert log_loss(y, asked.predict_proba(X)) < log_loss(y, own.predict_proba(X))


def test_no_warnings_come_from_the_folds(overlapping):
    X, y = overlapping
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CrammerSingerSVC(probability=True, max_iter=1, tol=1e-10).fit(X, y)
    assert len(caught) == 1  # of the fit itself
