"""Margins, pairs of classes and bounds against direct formulas, and kernels against linear machines in the exact map."""

import copy
import json

import numpy as np
import pytest
from registry import each_machine
from scipy import sparse
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import confusion_matrix
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from polymargin import M3SVC, CrammerSingerSVC, WestonWatkinsSVC
from polymargin.diagnostics import (
    angles,
    confusable_pairs,
    generalization_bound,
    logistic_margins,
    margin_summary,
    margins,
    pairwise_margins,
    pairwise_norm_bound,
    spectrum,
)
from polymargin.diagnostics import formulas as f
from polymargin.features.kernel_map import KernelMap

KINDS = ("lp", "lp_sharp", "mcodm", "angular")


def direct_margins(scores, y):
    return np.array([row[k] - max(np.delete(row, k)) for row, k in zip(scores, y, strict=True)])


def direct_pairs(V):
    c = len(V)
    widths, degrees = np.full((c, c), np.inf), np.zeros((c, c))
    for k in range(c):
        for m in range(c):
            if k != m:
                widths[k, m] = 2 / np.linalg.norm(V[k] - V[m])
                cosine = V[k] @ V[m] / np.linalg.norm(V[k]) / np.linalg.norm(V[m])
                degrees[k, m] = np.degrees(np.arccos(np.clip(cosine, -1, 1)))
    return widths, degrees


def in_the_exact_map(kernel_machine, X, y):
    """The same machine, linear on the exact features: a copy of the kernel machine's W and b."""
    mapping = KernelMap("rbf", gamma=kernel_machine.gamma)
    Phi = mapping.fit_transform(X)
    linear = type(kernel_machine)(tol=1e-3).fit(Phi, y)
    linear.class_vectors_ = kernel_machine.dual_coef_ @ Phi[kernel_machine.support_]
    linear.class_offsets_ = kernel_machine.class_offsets_
    return linear, Phi


# ---- margins of rows ------------------------------------------------------------------------------------------------


@each_machine
def test_margins_are_own_score_minus_best_other(machine, overlapping):
    X, y = overlapping
    est = machine().fit(X, y)
    np.testing.assert_allclose(margins(est, X, y), direct_margins(est.decision_function(X), y), rtol=1e-12)


@pytest.mark.parametrize("rival", [LogisticRegression(), LinearSVC(), RidgeClassifier()])
def test_margins_and_pairs_of_scikit_learns_linear_classifiers(rival, overlapping):
    X, y = overlapping
    names = np.array(["d", "b", "a", "c"])[y]  # labels whose order is not that of the rows
    rival.fit(X, names)
    own = np.searchsorted(rival.classes_, names)
    np.testing.assert_allclose(margins(rival, X, names), direct_margins(rival.decision_function(X), own))
    widths, degrees = direct_pairs(rival.coef_)
    np.testing.assert_allclose(pairwise_margins(rival), widths, rtol=1e-9)
    np.testing.assert_allclose(angles(rival), degrees, atol=1e-5)


@pytest.mark.parametrize("machine", [CrammerSingerSVC(), LogisticRegression(), LinearSVC()])
def test_two_classes(machine, two_classes):
    X, y = two_classes
    machine.fit(X, y)
    np.testing.assert_allclose(margins(machine, X, y), np.where(y == 1, 1, -1) * machine.decision_function(X), rtol=1e-9)
    np.testing.assert_allclose(pairwise_margins(machine)[0, 1], 2 / np.linalg.norm(machine.coef_), rtol=1e-6)
    np.testing.assert_allclose(angles(machine)[0, 1], 180.0, atol=1e-4)
    summary = margin_summary(machine, X, y)
    assert summary.overall.wrong == np.mean(machine.predict(X) != y)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_normalized_margins_are_distances_from_the_border(kernel, overlapping):
    """In the feature space, a row moved by its distance straight at the nearest border ties with the rival class there."""
    X, y = overlapping
    est = WestonWatkinsSVC(kernel=kernel, gamma=0.2, tol=1e-8).fit(X, y)
    linear, Phi = (est, X) if kernel == "linear" else in_the_exact_map(est, X, y)
    V, b = linear.class_vectors_, linear.class_offsets_
    distances = margins(est, X, y, normalize=True)
    S = Phi @ V.T + b
    for i in np.flatnonzero(distances > 0)[:20]:
        k = y[i]
        leads = [(S[i, k] - S[i, m]) / np.linalg.norm(V[k] - V[m]) if m != k else np.inf for m in range(4)]
        rival = int(np.argmin(leads))
        moved = Phi[i] - distances[i] * (V[k] - V[rival]) / np.linalg.norm(V[k] - V[rival])
        scores = V @ moved + b
        assert scores[k] == pytest.approx(scores[rival], abs=1e-5) and scores[k] == pytest.approx(scores.max(), abs=1e-5)
    np.testing.assert_array_equal(distances > 0, margins(est, X, y) > 0)


def test_summary_against_numpy(overlapping):
    X, y = overlapping
    est = CrammerSingerSVC().fit(X, y)
    values, summary = margins(est, X, y), margin_summary(est, X, y)
    assert summary.overall.mean == pytest.approx(values.mean()) and summary.overall.variance == pytest.approx(values.var())
    assert summary.overall.minimum == values.min() and summary.overall.inside == np.mean(values < 1)
    for k in range(4):
        part = summary.per_class[k]
        assert part.n_rows == (y == k).sum() and part.mean == pytest.approx(values[y == k].mean())
        np.testing.assert_allclose(part.quantiles[0.25], np.quantile(values[y == k], 0.25))
    assert str(summary).count("\n") == 5


def test_sparse_rows_pipelines_and_searches(overlapping):
    X, y = overlapping
    est = CrammerSingerSVC().fit(X, y)
    np.testing.assert_allclose(margins(est, sparse.csr_matrix(X), y), margins(est, X, y), rtol=1e-12)
    for kind in KINDS:
        bounds = [generalization_bound(est, rows, y, kind=kind).value for rows in (X, sparse.csr_matrix(X))]
        assert bounds[0] == pytest.approx(bounds[1], rel=1e-12)
    pipe = make_pipeline(StandardScaler(), CrammerSingerSVC(random_state=0)).fit(X, y)
    Z = pipe[0].transform(X)
    np.testing.assert_array_equal(margins(pipe, X, y), margins(pipe[-1], Z, y))
    np.testing.assert_array_equal(pairwise_margins(pipe), pairwise_margins(pipe[-1]))
    bound = generalization_bound(pipe, X, y)
    assert bound.value == generalization_bound(pipe[-1], Z, y).value
    assert any("pipeline" in item.statement for item in bound.assumptions)
    search = GridSearchCV(pipe, {"crammersingersvc__C": [0.1, 1.0]}, cv=2).fit(X, y)
    np.testing.assert_array_equal(angles(search), angles(search.best_estimator_[-1]))


def test_data_frames_with_names_make_no_warning(iris):
    pandas = pytest.importorskip("pandas")
    X, y = pandas.DataFrame(iris[0], columns=list("abcd")), iris[1]
    rival = LogisticRegression().fit(X, y)
    assert pairwise_margins(rival).shape == (3, 3) and margins(rival, X, y).shape == (150,)


# ---- multi-label ------------------------------------------------------------------------------------------------------


def test_multilabel_margins_are_signed_scores():
    X, Y = make_multilabel_classification(60, 5, n_classes=4, random_state=0)
    machine = RidgeClassifier().fit(X, Y)
    S = machine.decision_function(X)
    np.testing.assert_allclose(margins(machine, X, Y), np.where(Y == 1, S, -S))
    machine.threshold = 0.25  # a machine with its own cut
    np.testing.assert_allclose(margins(machine, X, Y), np.where(Y == 1, 1, -1) * (S - 0.25))
    partly = np.where(Y == 1, 1, np.where(S > 0, -1, 0))
    np.testing.assert_array_equal(np.isnan(margins(machine, X, partly)), partly == 0)
    summary = margin_summary(machine, X, partly)
    assert summary.overall.n_rows == np.count_nonzero(partly) and len(summary.per_class) == 4
    with pytest.raises(ValueError, match="one class per row"):
        generalization_bound(machine, X, Y)
    with pytest.raises(ValueError, match="0 and 1"):
        margins(machine, X, Y * 3)
    with pytest.raises(ValueError, match="shape"):
        margins(machine, X, Y[:, :3])


# ---- pairs of classes ---------------------------------------------------------------------------------------------------


@each_machine
def test_pairwise_margins_and_angles_by_the_formula(machine, overlapping):
    X, y = overlapping
    est = machine().fit(X, y)
    widths, degrees = direct_pairs(est.class_vectors_)
    np.testing.assert_allclose(pairwise_margins(est), widths, rtol=1e-9)
    np.testing.assert_allclose(angles(est), degrees, atol=1e-5)
    sizes = spectrum(est)
    np.testing.assert_allclose(sizes.singular_values, np.linalg.svd(est.class_vectors_, compute_uv=False), atol=1e-6)
    expected = sizes.singular_values[0] / sizes.singular_values[sizes.rank - 1]
    assert sizes.condition == pytest.approx(expected)


@each_machine
@pytest.mark.parametrize("n_components", [None, 20])
def test_kernel_machines_equal_linear_ones_in_the_exact_map(machine, n_components, overlapping):
    X, y = overlapping
    est = machine(kernel="rbf", gamma=0.1, n_components=n_components, random_state=0).fit(X, y)
    linear, Phi = in_the_exact_map(est, X, y)
    np.testing.assert_allclose(pairwise_margins(est), pairwise_margins(linear), rtol=1e-6)
    np.testing.assert_allclose(angles(est), angles(linear), atol=1e-3)
    assert spectrum(est).rank == spectrum(linear).rank
    for kind in KINDS:
        ours, theirs = generalization_bound(est, X, y, kind=kind), generalization_bound(linear, Phi, y, kind=kind)
        assert ours.value == pytest.approx(theirs.value, rel=1e-6)
    assert pairwise_norm_bound(est, X, p=3.0) == pytest.approx(pairwise_norm_bound(linear, Phi, p=3.0), rel=1e-5)


def test_precomputed_kernel_needs_its_matrix(overlapping):
    X, y = overlapping
    K = rbf_kernel(X, gamma=0.1)
    direct = CrammerSingerSVC(kernel="rbf", gamma=0.1, tol=1e-8, random_state=0).fit(X, y)
    est = CrammerSingerSVC(kernel="precomputed", tol=1e-8, random_state=0).fit(K, y)
    with pytest.raises(ValueError, match="pass K="):
        pairwise_margins(est)
    with pytest.raises(ValueError, match="120 x 120"):
        angles(est, K=K[:50, :50])
    np.testing.assert_allclose(pairwise_margins(est, K=K), pairwise_margins(direct), rtol=1e-3)
    assert generalization_bound(est, K, y).value == pytest.approx(generalization_bound(direct, X, y).value, rel=1e-3)
    with pytest.raises(ValueError, match="X has shape"):
        generalization_bound(est, K[:50], y[:50])
    assert margins(est, K[:50], y[:50], normalize=True, K=K).shape == (50,)


def test_confusable_pairs_against_a_confusion_matrix(overlapping):
    X, y = overlapping
    est = CrammerSingerSVC(C=0.01).fit(X, y)
    counts, S = confusion_matrix(y, est.predict(X)), est.decision_function(X)
    widths, degrees = pairwise_margins(est), angles(est)
    pairs = confusable_pairs(est, X, y, n_pairs=None)
    assert len(pairs) == 6
    for pair in pairs:
        k, m = pair.first, pair.second
        assert (pair.margin, pair.angle) == (widths[k, m], degrees[k, m])
        assert (pair.first_as_second, pair.second_as_first) == (counts[k, m], counts[m, k])
        assert pair.error_rate == pytest.approx((counts[k, m] + counts[m, k]) / counts[[k, m]].sum())
        leads = np.concatenate([(S[:, k] - S[:, m])[y == k], (S[:, m] - S[:, k])[y == m]])
        assert pair.distance == pytest.approx(leads.mean() * widths[k, m] / 2)
    assert [pair.distance for pair in pairs] == sorted(pair.distance for pair in pairs)
    by_errors = confusable_pairs(est, X, y, by="errors", n_pairs=3)
    errors = [pair.first_as_second + pair.second_as_first for pair in by_errors]
    assert errors == sorted(errors, reverse=True) and errors[0] > 0
    blind = confusable_pairs(est, n_pairs=2)
    assert blind[0].margin == widths.min() and blind[0].error_rate is None
    for wrong, said in (({"X": X}, "belong together"), ({"by": "errors"}, "needs rows"), ({"by": "size"}, "by='size'")):
        with pytest.raises(ValueError, match=said):
            confusable_pairs(est, **wrong)


def test_equal_and_zero_vectors_have_no_numbers_but_no_warnings(overlapping):
    X, y = overlapping
    est = CrammerSingerSVC().fit(X, y)
    est.class_vectors_ = np.array([[1.0, 0, 0, 0, 0], [1.0, 0, 0, 0, 0], [0.0] * 5, [0, 2.0, 0, 0, 0]])
    assert np.isinf(pairwise_margins(est)[0, 1]) and np.isnan(angles(est)[2]).all() and angles(est)[0, 1] == 0
    assert np.isfinite(margins(est, X, y)).all() and not np.isnan(margins(est, X, y, normalize=True)).any()
    est.class_vectors_ = np.zeros((4, 5))
    assert spectrum(est).rank == 0 and np.isfinite(generalization_bound(est, X, y, kind="angular").value)


@pytest.mark.parametrize("stranger", [SVC(kernel="linear"), KNeighborsClassifier()])
def test_vectors_of_pairs_or_none_are_refused(stranger, iris):
    """SVC has as many vectors as classes for three classes, but they are those of pairs."""
    stranger.fit(*iris)
    with pytest.raises(TypeError, match=r"one vector per class|neither class_vectors_"):
        pairwise_margins(stranger)


def test_strangers_are_refused_kindly(overlapping):
    X, y = overlapping
    with pytest.raises(TypeError, match="no decision_function"):
        margins(KNeighborsClassifier().fit(X, y), X, y)
    with pytest.raises(TypeError, match="6 columns for 4 classes"):
        margins(SVC(decision_function_shape="ovo").fit(X, y), X, y)
    with pytest.raises(ValueError, match="not seen in fit"):
        margins(CrammerSingerSVC().fit(X, y), X, y + 1)
    with pytest.raises(ValueError, match="120 rows, but y has 7"):
        margins(CrammerSingerSVC().fit(X, y), X, y[:7])


# ---- bounds ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def toy():
    """Three classes in the plane and a machine without offsets: all numbers can be had by hand."""
    X = np.array([[2.0, 0.0], [0.0, 1.0], [-1.0, -1.0], [3.0, 4.0]])
    y = np.array([0, 1, 2, 0])
    est = CrammerSingerSVC(fit_intercept=False).fit(X, y)
    est.class_vectors_ = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    # scores: (2, 0, -2), (0, 1, -1), (-1, -1, 2), (3, 4, -7): margins 2, 1, 3, -1; |w|^2 = 1, 1, 2; longest row 5
    return est, X, y


def test_bounds_by_hand(toy):
    est, X, y = toy
    np.testing.assert_allclose(margins(est, X, y), [2.0, 1.0, 3.0, -1.0])
    price = 3 * np.sqrt(np.log(2 / 0.05) / 8)

    lp = generalization_bound(est, X, y, margin=2.0)
    assert lp.terms["empirical"] == pytest.approx((0 + 0.5 + 0 + 1) / 4)
    # p* = 2 < 2 log 3 = 2.197: (2 p*)^(1 + 1/p*) c^(1/p*) = 8 sqrt 3; |W|_{2,2} = 2; trace = 4 + 1 + 2 + 25
    assert lp.terms["complexity"] == pytest.approx(2 * 0.5 * 2 / 4 * np.sqrt(32) * 8 * np.sqrt(3))
    assert lp.terms["confidence"] == pytest.approx(price)
    assert lp.value == pytest.approx(sum(lp.terms.values())) and lp.constants["case"] == "polynomial"

    log_case = generalization_bound(est, X, y, p=1.5)
    norm = (1 + 1 + 2**0.75) ** (1 / 1.5)
    log3 = np.log(3)
    factor = np.sqrt(np.e) * (4 * log3) ** (1 + 1 / (2 * log3))
    assert log_case.constants["case"] == "logarithmic" and log_case.constants["norm"] == pytest.approx(norm)
    assert log_case.terms["complexity"] == pytest.approx(2 * norm / 4 * np.sqrt(32) * factor)

    sharp = generalization_bound(est, X, y, kind="lp_sharp")  # t = 2 is the only exponent for p = 2; E g^2 = 1
    assert sharp.terms["complexity"] == pytest.approx(2 / 4 * np.sqrt(32) * np.sqrt(16 * np.pi) * np.sqrt(3))

    mcodm = generalization_bound(est, X, y, kind="mcodm", margin=0.8)
    assert mcodm.terms["empirical"] == pytest.approx(0.25)
    assert mcodm.terms["complexity"] == pytest.approx(16 * 5 * 2 / 0.8 * np.sqrt(2 * np.pi * 3 / 4))

    angular = generalization_bound(est, X, y, kind="angular")  # one row is wrong: no angles
    C1C2 = 5 * np.sqrt(2)
    assert angular.terms["complexity"] == pytest.approx(8 * 9 * C1C2 / 2) and angular.terms["offset"] == pytest.approx(1.0)
    assert angular.terms["confidence"] == pytest.approx((2 * C1C2 + 1) * np.sqrt(2 * np.log(40) / 4))

    right = generalization_bound(est, X[:3], y[:3], kind="angular")  # smallest angle between lines: 45 degrees
    reach = np.sqrt((2 / 3) * (np.sqrt(0.5) + 4 / 2)) * 2 * np.sqrt(2) + 1
    assert right.constants["min_angle"] == pytest.approx(45.0) and right.constants["separated"]
    assert right.terms["confidence"] == pytest.approx(reach * np.sqrt(2 * np.log(40) / 3))
    assert right.trivial == pytest.approx(reach)


def test_offsets_are_a_constant_feature(overlapping):
    """The bound of a machine with offsets is that of the same machine without, on rows with one more column."""
    X, y = overlapping
    est = CrammerSingerSVC().fit(X, y)
    r = np.linalg.norm(X, axis=1).max()
    wide = np.column_stack([X, np.full(len(X), r)])
    same = CrammerSingerSVC(fit_intercept=False).fit(wide, y)
    same.class_vectors_ = np.column_stack([est.class_vectors_, est.class_offsets_ / r])
    for kind in KINDS:
        assert generalization_bound(est, X, y, kind=kind).value == pytest.approx(
            generalization_bound(same, wide, y, kind=kind).value, rel=1e-9
        )


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_do_not_depend_on_the_units_of_X(kind, overlapping):
    X, y = overlapping
    est = CrammerSingerSVC(random_state=0).fit(X, y)
    other = copy.deepcopy(est)
    other.class_vectors_ = est.class_vectors_ / 1000
    assert generalization_bound(other, 1000 * X, y, kind=kind).value == pytest.approx(
        generalization_bound(est, X, y, kind=kind).value, rel=1e-9
    )


FORMULAS = {
    "lp": lambda n=100, norm=2.0, radius=3.0, c=5, p=1.5: f.lp_bound(0.1, n, c, p, norm, n * radius**2, 1.0, 0.05),
    "lp_sharp": lambda n=100, norm=2.0, radius=3.0, c=5, p=1.5: f.lp_sharp_bound(
        0.1, n, c, p, norm, n * radius**2, 1.0, 0.05
    ),
    "mcodm": lambda n=100, norm=2.0, radius=3.0, c=5: f.mcodm_bound(0.1, n, c, norm, radius, 0.8, 0.05),
    "angular": lambda n=100, norm=2.0, radius=3.0, c=5: f.angular_bound(n, c, norm, radius, 1.0, 0.5, True, 0.05),
    "angular, not separated": lambda n=100, norm=2.0, radius=3.0, c=5: f.angular_bound(
        n, c, norm, radius, 1.0, 0.5, False, 0.05
    ),
}


@pytest.mark.parametrize("formula", FORMULAS.values(), ids=FORMULAS)
def test_bounds_fall_with_rows_and_grow_with_norm_radius_and_classes(formula):
    def values(name, grid):
        return np.array([sum(formula(**{name: value}).values()) for value in grid])

    assert (np.diff(values("n", [50, 100, 1000, 10**6])) < 0).all()
    for name, grid in (("norm", [0.5, 1.0, 10.0]), ("radius", [0.5, 1.0, 10.0]), ("c", [3, 10, 100, 1000])):
        assert (np.diff(values(name, grid)) > 0).all(), name
    assert sum(formula(n=10**14).values()) < 0.11  # the empirical term is left


@pytest.mark.parametrize("kind", KINDS)
def test_a_larger_given_norm_or_radius_gives_a_larger_bound(kind, toy):
    est, X, y = toy
    base = generalization_bound(est, X, y, kind=kind)
    assert generalization_bound(est, X, y, kind=kind, norm=10.0).value > base.value
    larger = generalization_bound(est, X, y, kind=kind, radius=50.0).value
    assert larger > base.value if kind in ("mcodm", "angular") else larger == base.value  # Corollary 8 uses the rows' own
    assert generalization_bound(est, X, y, kind=kind, delta=0.001).value > base.value


@pytest.mark.parametrize("c", [2, 3, 5, 10, 100, 10**4])
def test_the_printed_corollary_is_above_what_its_proof_shows(c):
    """The proof drops a factor sqrt(pi) and bounds moments generously; with two classes its case leaves q <= 2."""
    for p in np.linspace(1.0, 2.0, 41):
        assert f.lp_sharp_class_factor(p, c) <= 2 * f.lp_class_factor(p, c)
    edge = 2 * np.log(c)  # p* where the case changes
    if edge > 2:
        p = edge / (edge - 1)
        assert f.lp_case(p - 1e-6, c) == "logarithmic" and f.lp_case(p + 1e-6, c) == "polynomial"
        assert f.lp_class_factor(p - 1e-9, c) == pytest.approx(f.lp_class_factor(p + 1e-9, c), rel=1e-6)


def test_sharp_moments_are_those_of_a_gaussian():
    t = np.array([2.0, 3.0, 4.6])
    g = np.abs(np.random.default_rng(0).standard_normal(10**6))
    for exponent in t:
        p = exponent / (exponent - 1)
        direct = min(
            np.sqrt(8 * np.pi * s) * 10 ** (1 / s) * np.mean(g**s) ** (1 / s) for s in np.linspace(2, exponent, 30)
        )
        assert f.lp_sharp_class_factor(p, 10) == pytest.approx(direct, rel=5e-3)


def test_a_bound_says_whether_it_means_anything():
    X = np.repeat([[-1.0], [1.0]], 100_000, axis=0)
    y = np.repeat([0, 1], 100_000)
    est = CrammerSingerSVC(C=1e-3, fit_intercept=False).fit(X, y)
    good = generalization_bound(est, X, y, kind="lp_sharp")
    assert 0 < good.value < 0.1 and not good.vacuous and "not vacuous" in str(good)
    few = generalization_bound(est, X[99_990:100_010], y[99_990:100_010])
    assert few.value > 1 and few.vacuous and "vacuous: at least 1" in str(few)


def test_assumptions_are_checked(toy):
    est, X, y = toy
    status = {item.status for item in generalization_bound(est, X, y).assumptions}
    assert status == {"assumed"}
    fits, short = generalization_bound(est, X, y, norm=3.0), generalization_bound(est, X, y, norm=1.0)
    assert fits.holds and "holds" in {item.status for item in fits.assumptions}
    assert not short.holds and "fails" in str(short)
    assert not generalization_bound(est, X, y, kind="mcodm", radius=1.0).holds
    rbf = CrammerSingerSVC(kernel="rbf").fit(X, y)
    said = [item for item in generalization_bound(rbf, X, y, kind="mcodm").assumptions if "same length" in item.statement]
    assert said[0].status == "holds"


def test_own_parameters_of_the_machine_are_used(toy):
    est, X, y = toy
    est.p, est.theta = 1.5, 0.2
    assert generalization_bound(est, X, y).constants["p"] == 1.5
    assert generalization_bound(est, X, y, kind="mcodm").constants["margin"] == pytest.approx(0.8)
    est.p = 4  # an exponent of another norm
    assert generalization_bound(est, X, y).constants["p"] == 2.0 and pairwise_norm_bound(est, X).p == 4.0
    est.p = "auto"
    assert generalization_bound(est, X, y).constants["p"] == 2.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "vc"},
        {"delta": 0.0},
        {"delta": 1.0},
        {"p": 3},
        {"p": 1.5, "kind": "mcodm"},
        {"margin": 0.0},
        {"norm": -1},
        {"radius": 0},
    ],
)
def test_wrong_arguments_of_bounds_are_named(wrong, toy):
    est, X, y = toy
    with pytest.raises(ValueError, match=next(iter(wrong))):
        generalization_bound(est, X, y, **wrong)


@pytest.mark.parametrize("p", [1.0, 2.0, 4.0, 300.0, np.inf])
def test_theorem_6_of_m3svm(p, overlapping):
    X, y = overlapping
    est = CrammerSingerSVC().fit(X, y)
    V = est.class_vectors_
    pairs = [(k, m) for k in range(4) for m in range(k + 1, 4)]

    def norm(values):
        top = np.max(np.abs(values))  # powers of 300 overflow
        return top * np.linalg.norm(np.array(values) / top, ord=p)

    largest = max(norm([(V[k] - V[m]) @ x for k, m in pairs]) for x in X)
    radius = np.linalg.norm(X, axis=1).max()
    found = pairwise_norm_bound(est, X, p)
    assert found.largest == pytest.approx(largest) and found.largest <= found.bound
    assert found.bound == pytest.approx(radius * norm([np.linalg.norm(V[k] - V[m]) for k, m in pairs]))


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
def test_sampled_bound_is_theorem_5(overlapping, p):
    """The dual norm of random sums, drawn by other numbers; below Corollary 8, and the same for a kernel that is linear."""
    X, y = overlapping
    est = CrammerSingerSVC(fit_intercept=False).fit(X, y)
    bound = generalization_bound(est, X, y, kind="lp_sampled", p=p)
    draw, exponent = np.random.default_rng(7), f.conjugate_exponent(p)
    sums = (X.T @ draw.standard_normal((400, len(X), 4))).transpose(0, 2, 1)
    norms = np.linalg.norm(np.linalg.norm(sums, axis=2), ord=exponent, axis=1)
    expected = 2 * np.sqrt(2 * np.pi) * bound.constants["norm"] * norms.mean() / len(X)
    assert bound.terms["complexity"] == pytest.approx(expected, rel=0.15)
    assert bound.value < generalization_bound(est, X, y, kind="lp_sharp", p=p).value and bound.holds
    kernel = CrammerSingerSVC(kernel="precomputed", fit_intercept=False).fit(X @ X.T, y)
    other = generalization_bound(kernel, X @ X.T, y, kind="lp_sampled", p=p)
    assert other.constants["class_factor"] == pytest.approx(bound.constants["class_factor"], rel=1e-9)


def test_class_factors_side_by_side():
    """Few classes: each for itself is not worse. Many: only p near 1 keeps the factor small."""
    few, many = f.lp_class_factors(1.1, 10), f.lp_class_factors(1.1, 1000)
    assert few["Remark 6"] == 40 and many["Remark 6"] == 4000
    assert many["Corollary 8, before its last step"] < many["Corollary 8"] < many["Remark 6"]
    for found in (few, many, f.lp_class_factors(1.5, 26)):
        assert found["Theorem 7, sampled"] < found["Corollary 8, before its last step"]
    plain = f.lp_class_factors(2.0, 26)  # there E |g|_2^2 is c, and nothing is given away
    assert plain["Theorem 7, sampled"] == pytest.approx(plain["Corollary 8, before its last step"], rel=0.01)


def test_a_bound_is_a_dictionary_for_json(overlapping):
    X, y = overlapping
    for kind in (*KINDS, "lp_sampled"):
        bound = generalization_bound(CrammerSingerSVC().fit(X, y), X, y, kind=kind, **({"p": 1.0} if "lp" in kind else {}))
        found = json.loads(json.dumps(bound.as_dict(), allow_nan=False))
        assert found["value"] == bound.value and found["terms"] == bound.terms and found["vacuous"] is bound.vacuous
        assert [item["status"] for item in found["assumptions"]] == [item.status for item in bound.assumptions]


def test_logistic_margins_are_where_the_loss_reaches_the_level(overlapping):
    X, y = overlapping
    est = M3SVC(loss="logistic").fit(X, y)
    widths, S = logistic_margins(est, X, y), est.decision_function(X)
    V = est.class_vectors_
    rows = np.isin(y, est.classes_[[0, 2]])
    t = np.where(y[rows] == est.classes_[0], 1.0, -1.0)
    gaps = S[rows, 0] - S[rows, 2]
    b = np.linspace(-60, 60, 240_001)
    losses = np.array([np.logaddexp(0.0, -t * (gaps + one)).mean() for one in b[::40]])
    inside = b[::40][losses <= np.log(2.0)]
    expected = (inside.max() - inside.min()) / np.linalg.norm(V[0] - V[2])
    assert widths[0, 2] == pytest.approx(expected, abs=0.06 / np.linalg.norm(V[0] - V[2]))
    np.testing.assert_array_equal(widths, widths.T)
    assert np.isinf(widths.diagonal()).all() and (logistic_margins(est, X, y, level=0.3) <= widths).all()
    assert np.isinf(logistic_margins(est, X[y != est.classes_[1]], y[y != est.classes_[1]])[1]).all()
    assert (logistic_margins(est, X, y, level=1e-9)[np.triu_indices(4, 1)] == 0.0).all()
    with pytest.raises(ValueError, match="level=-1"):
        logistic_margins(est, X, y, level=-1)
