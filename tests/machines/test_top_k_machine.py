"""TopKSVC: other k than the default, against Clarabel; its limits; its use from the command line and in comparisons."""

import numpy as np
import pytest
from problems import random_problem
from reference import row_weights, top_k
from sklearn.datasets import load_digits
from sklearn.metrics import top_k_accuracy_score

from polymargin import CrammerSingerSVC, TopKSVC


@pytest.mark.filterwarnings("ignore:.*trivial solution")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("k", [1, 3, 4, 5])
@pytest.mark.parametrize("seed", [3, 5, 11, 12, 17, 24, 26, 31, 75, 81, 146])
def test_optimum_and_honest_gap(k, seed):
    """From k = 3 on the domain has a cone, which the repair for a free intercept must not leave."""
    problem = random_problem(seed)
    if k > len(np.unique(problem.y)):
        return
    v = row_weights(problem.y, problem.sample_weight, problem.class_weight)
    est = TopKSVC(problem.C, k=k, fit_intercept=problem.fit_intercept, random_state=0)
    end = est.fit(problem.X, problem.y, v).certificate_
    F_star = top_k(problem.X, problem.y, problem.C, v, problem.fit_intercept, k)
    error = (1e-5 if problem.single else 1e-9) * F_star
    assert -1e-7 * F_star - error <= end.primal - F_star <= end.gap + error
    assert end.dual <= F_star * (1 + 1e-9)
    assert end.rel_gap <= 0.02


def test_k_1_is_the_crammer_singer_machine(iris):
    X, y = iris
    first = TopKSVC(k=1, tol=1e-8, random_state=0).fit(X, y)
    assert first.objective_ == pytest.approx(CrammerSingerSVC(tol=1e-8, random_state=0).fit(X, y).objective_, rel=1e-7)


def test_k_may_be_the_number_of_classes_and_no_more(iris):
    X, y = iris
    assert TopKSVC(k=3, random_state=0).fit(X, y).certificate_.status == "optimal"
    with pytest.raises(ValueError, match=r"k=4 is not valid: y has 3 classes"):
        TopKSVC(k=4).fit(X, y)
    for k in (0, 2.0, True, "2"):
        with pytest.raises(ValueError, match="k must be an integer of at least 1"):
            TopKSVC(k=k).fit(X, y)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_right_class_is_among_the_k_best(fit_intercept):
    X, y = load_digits(return_X_y=True)
    est = TopKSVC(0.1, k=3, fit_intercept=fit_intercept, random_state=0).fit(X / 16, y)
    assert est.certificate_.status == "optimal"
    assert top_k_accuracy_score(y, est.decision_function(X / 16), k=3) > 0.995


def test_a_warm_start_is_of_the_same_k(iris):
    X, y = iris
    est = TopKSVC(k=2, warm_start=True, random_state=0).fit(X, y)
    again = est.set_params(C=1.1).fit(X, y).n_iter_
    assert again <= TopKSVC(C=1.1, k=2, random_state=0).fit(X, y).n_iter_
    assert est.set_params(k=3).fit(X, y).objective_ == TopKSVC(C=1.1, k=3, random_state=0).fit(X, y).objective_


def test_kernel_machine(iris):
    X, y = iris
    est = TopKSVC(10.0, kernel="rbf", random_state=0).fit(X, y)
    assert est.certificate_.status == "optimal" and est.score(X, y) > 0.95
