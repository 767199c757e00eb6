"""probability="averaged": the machine is the mean of those fitted for probabilities, and its certificate says so."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from registry import all_estimators, supports_multilabel
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from polymargin import AngularSVC, CrammerSingerSVC, MarginDistributionSVC, MultiLabelSVC, WestonWatkinsSVC, load, save
from polymargin.estimators.fitting import out_of_fold

CONVEX = [machine for machine in all_estimators() if machine not in (AngularSVC, MarginDistributionSVC)]


@pytest.mark.parametrize("machine", CONVEX)
def test_the_mean_of_all_machines_with_its_own_certificate(machine, overlapping, monkeypatch):
    X, y = overlapping
    parts, solve = [], out_of_fold.solve_near_zero

    def remembered(*args, **settings):
        found = solve(*args, **settings)
        parts.append(found.machine)
        return found

    monkeypatch.setattr(out_of_fold, "solve_near_zero", remembered)
    est = machine(probability="averaged").fit(X, y)
    whole = machine().fit(X, y)
    assert len(parts) == out_of_fold.FEW
    W = np.mean([whole.class_vectors_.T, *(part.W for part in parts)], axis=0)
    np.testing.assert_allclose(est.class_vectors_.T, W, atol=1e-10)
    end = est.certificate_
    assert end.primal == pytest.approx(est.objective(X, y), rel=1e-10) and est.objective_ == end.primal
    assert end.status == "averaged" and end.rel_gap > end.tol
    assert end.dual == whole.certificate_.dual and end.price == pytest.approx(end.primal - whole.objective_, rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_files_sparse_rows_and_single_precision(dtype, overlapping, tmp_path):
    X, y = overlapping[0].astype(dtype), overlapping[1]
    est = CrammerSingerSVC(probability="averaged", random_state=1).fit(X, y)
    P = est.predict_proba(X)
    assert P.dtype == dtype
    save(est, tmp_path / "mean.pm")
    np.testing.assert_array_equal(load(tmp_path / "mean.pm").predict_proba(X), P)
    np.testing.assert_array_equal(clone(est).fit(X, y).predict_proba(X), P)
    np.testing.assert_allclose(clone(est).fit(sp.csr_matrix(X), y).predict_proba(X), P, atol=0.1)  # coarse fits of few rows


@pytest.mark.parametrize("machine", [machine for machine in CONVEX if supports_multilabel(machine)])
def test_label_matrices(machine, overlapping):
    X, y = overlapping
    Y = np.eye(4, dtype=int)[y] | np.eye(4, dtype=int)[X[:, :4].argmax(axis=1)]
    est = machine(probability="averaged", loss="ranking") if machine is MultiLabelSVC else machine(probability="averaged")
    est.fit(X, Y)
    assert est.certificate_.status == "averaged" and est.predict_proba(X).shape == Y.shape


def test_a_later_fit_starts_from_the_whole_machine_not_the_mean(overlapping):
    X, y = overlapping
    est = WestonWatkinsSVC(probability="averaged", warm_start=True, tol=1e-6).fit(X, y)
    first = est.n_iter_
    with pytest.raises(AttributeError, match="dual_coef_"):  # the duals make another machine
        _ = est.dual_coef_
    assert est.fit(X, y).n_iter_ < first
    assert est.set_params(probability=True).fit(X, y).certificate_.status == "optimal"


def test_better_probabilities_where_machines_differ():
    X, y = load_digits(return_X_y=True)
    X, train, test = X / 16.0, slice(0, 1200), slice(1200, None)
    losses = {}
    for how in (True, "averaged"):
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)  # a mean is no fit that stopped early
            est = WestonWatkinsSVC(probability=how).fit(X[train], y[train])
        losses[how] = log_loss(y[test], est.predict_proba(X[test]))
    assert losses["averaged"] < 0.97 * losses[True], losses


def test_what_has_no_mean_is_refused(overlapping):
    X, y = overlapping
    with pytest.raises(ValueError, match=r"kernel='rbf' has no class vectors"):
        CrammerSingerSVC(kernel="rbf", probability="averaged").fit(X, y)
    for machine in (AngularSVC, MarginDistributionSVC):
        with pytest.raises(ValueError, match=rf"{machine.__name__} is not convex"):
            machine(probability="averaged").fit(X, y)
    with pytest.raises(ValueError, match="probability='mean' is not valid"):
        CrammerSingerSVC(probability="mean").fit(X, y)


def test_other_words_are_answered_with_the_right_one():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r"probability='average' is not valid: .* True, False or 'averaged'"):
        CrammerSingerSVC(probability="average").fit(X, y)
