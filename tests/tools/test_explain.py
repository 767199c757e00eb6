"""The one-page summary: its numbers are those of the diagnostics; with and without rich; for every machine."""

import numpy as np
import pytest
from interpreters import run_warm
from registry import each_machine
from scipy.sparse import csr_array
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polymargin import CrammerSingerSVC, MultiLabelSVC
from polymargin.diagnostics import generalization_bound, pairwise_margins
from polymargin.diagnostics.explain import describe, explain


@each_machine
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_every_machine_explains_itself(machine, kernel, overlapping, capsys):
    X, y = overlapping
    est = machine(kernel=kernel).fit(X, y)
    est.explain()
    short = capsys.readouterr().out
    est.explain(X, y)
    page = capsys.readouterr().out
    for word in ("Machine", "Fit", "Class vectors", "Closest classes"):
        assert word in short and word in page
    assert "Margins of these rows" in page and "vacuous" in page and "Margins of these rows" not in short
    assert type(est).__name__ in page and est.certificate_.status in page


def test_numbers_on_the_page_are_those_of_the_diagnostics(overlapping):
    X, y = overlapping
    est = CrammerSingerSVC().fit(X, y)
    page = str(describe(est, X, y))
    assert f"{pairwise_margins(est).min():.4g} to" in page
    assert f"{generalization_bound(est, X, y).value:.3g}" in page
    assert f"{np.mean(est.predict(X) != y):.1%}" in page
    assert max(map(len, page.splitlines())) <= 110 and len(page.splitlines()) <= 45


def test_other_machines_and_pipelines(overlapping, capsys):
    X, y = overlapping
    explain(make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y), X, y)
    page = capsys.readouterr().out
    assert "LogisticRegression" in page and "Fit\n" not in page


def test_precomputed_kernel_says_what_it_needs(overlapping):
    X, y = overlapping
    K = rbf_kernel(X)
    est = CrammerSingerSVC(kernel="precomputed").fit(K, y)
    assert "K=" in str(describe(est)) and "Closest classes" not in str(describe(est))
    assert "Closest classes" in str(describe(est, K=K)) and "Margins of these rows" in str(describe(est, K, y))


def test_multilabel_has_margins_but_no_bounds():
    X, Y = make_multilabel_classification(60, 5, n_classes=4, random_state=0)
    page = str(describe(RidgeClassifier().fit(X, Y), X, Y))
    assert "Margins of these rows" in page and "bounds" not in page


@pytest.mark.parametrize("as_sparse", [False, True])
def test_probabilities_of_labels_are_judged_entry_by_entry(as_sparse):
    X, Y = make_multilabel_classification(80, 5, n_classes=4, random_state=0)
    Y = 2 * Y - 1
    Y[::7, 1] = 0  # unknown
    est = MultiLabelSVC(probability=True, random_state=0).fit(X, Y)
    known, P = Y != 0, est.predict_proba(X)
    expected = log_loss(Y[known] > 0, P[known])
    assert f"log loss {expected:.3g}" in str(describe(est, X, csr_array(Y) if as_sparse else Y))


def test_a_trivial_machine_has_a_page():
    X = np.zeros((6, 2))
    y = np.arange(6) % 3
    with pytest.warns(UserWarning, match="trivial"):
        est = CrammerSingerSVC().fit(X, y)
    assert "none (zero vectors)" in str(describe(est, X, y))


def test_rows_without_labels_are_refused(overlapping):
    X, y = overlapping
    with pytest.raises(ValueError, match="belong together"):
        CrammerSingerSVC().fit(X, y).explain(X)


def test_plain_text_without_rich_is_the_same_page():
    out = run_warm(
        """
        import sys
        sys.modules["rich"] = None
        from sklearn.datasets import load_iris
        from polymargin import CrammerSingerSVC, MultiLabelSVC
        from polymargin.diagnostics.explain import describe
        X, y = load_iris(return_X_y=True)
        machine = CrammerSingerSVC(random_state=0).fit(X, y)
        machine.explain(X, y)
        print("=====")
        print(describe(machine, X, y))
        """
    )
    first, _, second = out.partition("=====\n")
    assert first == second and "optimal" in first
