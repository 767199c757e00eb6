"""C=inf: the smallest machine that leaves no training row a loss, or a sentence; max_iter=-1: no limit."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import scale
from sklearn.svm import SVC

from polymargin import (
    M3SVC,
    AngularSVC,
    CrammerSingerSVC,
    LpNormSVC,
    MarginDistributionSVC,
    MarginSVC,
    MultiLabelSVC,
    OneVsNoneSVC,
    TopKSVC,
    WestonWatkinsSVC,
    load,
    save,
)
from polymargin.distributed import Parts

X, Y = load_wine(return_X_y=True)
X = scale(X)
IRIS = load_iris(return_X_y=True)  # cannot be separated by planes


def least_margin(machine, rows, y):
    S = machine._scores(rows, machine.class_vectors_, machine.class_offsets_)
    own = S[np.arange(len(y)), y]
    S[np.arange(len(y)), y] = -np.inf
    return (own - S.max(axis=1)).min()


@pytest.mark.parametrize(
    "machine",
    [CrammerSingerSVC(), WestonWatkinsSVC(), LpNormSVC(), M3SVC(), M3SVC(scale="power"), TopKSVC(), MarginSVC(squared=True)],
    ids=repr,
)
def test_no_row_has_a_loss(machine):
    hard = machine.set_params(C=np.inf, tol=1e-5).fit(X, Y)
    end = hard.certificate_
    assert end.status == "optimal" and np.isfinite(hard.C_)
    assert hard.objective(X, Y) == pytest.approx(end.primal)
    assert least_margin(hard, X, Y) > 1 - 1e-4
    softer = machine.set_params(C=100 * hard.C_).fit(X, Y)  # a larger C changes nothing
    assert not hasattr(softer, "C_")
    assert softer.objective_ == pytest.approx(end.primal, rel=1e-3 if "squared" in repr(machine) else 1e-4)


@pytest.mark.parametrize("rows", [X, sparse.csr_array(X), X.astype(np.float32)], ids=["dense", "csr", "float32"])
def test_two_classes_are_those_of_svc(rows):
    two = Y < 2
    theirs = SVC(C=1e8, kernel="linear", tol=1e-9).fit(X[two], Y[two])
    ours = WestonWatkinsSVC(C=np.inf, tol=1e-6).fit(rows[two], Y[two])
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-2)
    assert ours.objective_ == pytest.approx(0.25 * np.sum(theirs.coef_**2), rel=1e-4)  # two vectors, each half of coef_


def test_kernels_probabilities_and_files(tmp_path):
    rows, y = IRIS
    machine = CrammerSingerSVC(np.inf, kernel="rbf", probability=True).fit(rows, y)
    assert machine.certificate_.status == "optimal" and machine.score(rows, y) == 1.0
    save(machine, tmp_path / "hard.pm")
    again = load(tmp_path / "hard.pm")
    assert np.inf == again.C and again.objective(rows, y) == machine.objective(rows, y)
    np.testing.assert_array_equal(again.predict_proba(rows), machine.predict_proba(rows))


@pytest.mark.parametrize("machine", [CrammerSingerSVC(np.inf), WestonWatkinsSVC(np.inf)], ids=repr)
def test_rows_that_cannot_be_separated(machine):
    with pytest.raises(ValueError, match=r"C=inf is not valid here: .* objective above .* use a finite C, for example C=\d"):
        machine.fit(*IRIS)


@pytest.mark.parametrize("machine", [MarginDistributionSVC, AngularSVC, OneVsNoneSVC, MultiLabelSVC])
def test_machines_without_a_hard_margin(machine):
    with pytest.raises(ValueError, match=f"C=inf is not valid: {machine.__name__} has no hard margin"):
        machine(np.inf).fit(X, Y)


def test_losses_that_are_never_zero():
    for loss in ("logistic", "softmax"):
        with pytest.raises(ValueError, match="C=inf is not valid: the loss of M3SVC is never 0"):
            M3SVC(np.inf, loss=loss).fit(X, Y)


def test_rows_in_parts_have_none():
    with pytest.raises(ValueError, match="C=inf is not valid"):
        CrammerSingerSVC(np.inf).fit(Parts((X, Y)))


def test_no_limit():
    machine = CrammerSingerSVC(max_iter=-1).fit(X, Y)
    assert machine.certificate_.status == "optimal" and machine.n_iter_ == CrammerSingerSVC().fit(X, Y).n_iter_
    with pytest.raises(ValueError, match=r"max_iter=-2 is not valid: .* -1 for no limit"):
        CrammerSingerSVC(max_iter=-2).fit(X, Y)
