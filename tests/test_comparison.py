"""The comparison: honest splits, corrected tests, budgets, a report that stands alone."""

import json
import re

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.datasets import load_digits, load_iris, load_wine, make_classification, make_multilabel_classification
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from polymargin import CrammerSingerSVC, WestonWatkinsSVC, compare_machines
from polymargin.comparison import Candidate, default_candidates
from polymargin.comparison.evaluation import Record
from polymargin.comparison.plan import Race, rungs_of
from polymargin.comparison.statistics import corrected_t_test, half_width, holm
from polymargin.report import html_report

FEW = (
    Candidate("cs", CrammerSingerSVC(random_state=0), {"C": (0.1, 1.0)}, ours=True),
    Candidate("ww", WestonWatkinsSVC(random_state=0), {"C": (0.1, 1.0)}, ours=True),
    Candidate("lr", LogisticRegression(max_iter=1000), {"C": (0.1, 1.0)}),
)


@pytest.fixture(scope="module")
def wine():
    return compare_machines(*load_wine(return_X_y=True), machines=FEW, cv=3, repeats=2)


def test_table_and_records(wine):
    assert len(wine.records) == 3 * 6 and {record.split for record in wine.records} == set(range(6))
    assert wine.table[0].machine == wine.winner
    assert [row.scores["accuracy"] for row in wine.table] == sorted((r.scores["accuracy"] for r in wine.table), reverse=True)
    for row in wine.table:
        assert set(row.scores) >= {"accuracy", "balanced_accuracy", "macro_f1"}
        assert ("log_loss" in row.scores) == (row.machine == "lr")
        assert row.params["C"] in (0.1, 1.0) and row.fit_seconds > 0 and row.n_splits == 6
        assert row.scores["accuracy"] == pytest.approx(np.mean(list(wine.scores(row.machine).values())))
    frame = wine.to_frame()
    assert frame.index.tolist() == [row.machine for row in wine.table] and "accuracy" in frame
    assert json.loads(wine.to_json())["winner"] == wine.winner


def test_same_seed_same_scores(wine):
    again = compare_machines(*load_wine(return_X_y=True), machines=FEW[::-1], cv=3, repeats=2, n_jobs=2)
    for name in ("cs", "ww", "lr"):
        assert again.scores(name) == wine.scores(name)


def test_recommendation_names_winner_and_doubt(wine):
    assert wine.recommendation.startswith(f"Use {wine.winner} (C=")
    assert re.search(r"with probability \d+%", wine.recommendation)
    model = wine.fit_winner()
    X, y = load_wine(return_X_y=True)
    assert model.score(X, y) > 0.9


def test_a_clear_loser_is_told_apart():
    X, y = load_iris(return_X_y=True)
    guess = Candidate("guess", DummyClassifier(), {})
    result = compare_machines(X, y, machines=[guess, FEW[0]], cv=5)
    assert result.winner == "cs" and result.ties == ()
    assert result.table[1].p_value < 0.01
    assert "beyond doubt" in result.recommendation


def test_failing_machine_says_why_and_others_go_on():
    X, y = load_iris(return_X_y=True)
    broken = Candidate("broken", LinearSVC(C=-1.0), {})
    result = compare_machines(X, y, machines=[broken, FEW[0]], cv=3)
    assert [row.machine for row in result.table] == ["cs"]
    assert "'C' parameter" in result.dropped["broken"]
    with pytest.raises(RuntimeError, match=r"broken: .*'C' parameter"):
        compare_machines(X, y, machines=[broken], cv=3)


def test_budget_gives_time_to_the_better_half():
    X, y = load_digits(return_X_y=True)
    bad = [Candidate(f"guess {k}", DummyClassifier(strategy="stratified", random_state=k), {}) for k in range(6)]
    result = compare_machines(X, y, machines=[*bad, FEW[0], FEW[1]], cv=5, repeats=40, budget=4.0)
    assert result.winner in ("cs", "ww")
    assert len(result.dropped) >= 3 and all("guess" in name for name in result.dropped)
    assert set(result.left_early) == set(result.dropped) and not set(result.ties) & set(result.dropped)
    assert f"{len(result.dropped)} left early" in result.recommendation and "nan" not in str(result)
    assert len(result.scores(result.winner)) > min(len(result.scores(name)) for name in result.dropped)


def test_race_halves_until_the_rest_fits():
    race = Race(["a", "b", "c", "d"], "accuracy", budget=1000.0)
    scores = {"a": 0.9, "b": 0.8, "c": 0.5, "d": 0.4}

    def run(tasks):
        return [Record(name, split, {"accuracy": scores[name]}, {}, 100.0, 0.0, 0) for name, split in tasks]

    race.run(rungs_of(5, 5), run)
    assert race.alive == ["a", "b"] and set(race.dropped) == {"c", "d"}
    assert rungs_of(10, 5) == [[0], [1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_a_budget_that_scouting_eats_still_gives_a_result():
    race = Race(["a", "b", "c", "d"], "accuracy", budget=1e-9)

    def run(tasks):
        return [Record(name, split, {"accuracy": 0.1 * ord(name)}, {}, 1.0, 0.0, 0) for name, split in tasks]

    race.run([[-1], [0], [1, 2]], run)
    measured = [(record.machine, record.split) for record in race.records if record.split >= 0]
    assert measured == [("c", 0), ("d", 0)]
    X, y = make_classification(3200, 5, n_informative=4, n_redundant=0, n_classes=3, random_state=0)
    result = compare_machines(X, y, machines=FEW, cv=3, budget=1e-6)
    assert [len(result.scores(name)) for name in (result.winner, *result.ties)] == [1, 1]
    assert result.winner in result.recommendation and "nan" not in str(result)


def test_sparse_and_multilabel_data():
    X, y = load_digits(return_X_y=True)
    result = compare_machines(sparse.csr_matrix(X[:300]), y[:300], machines=FEW[:1], cv=3)
    assert result.table[0].scores["accuracy"] > 0.8
    X, Y = make_multilabel_classification(200, 10, n_classes=4, random_state=0)
    candidates = default_candidates(200, 4, multilabel=True)
    result = compare_machines(X, Y, machines=candidates[-3:], cv=3)
    assert set(result.table[0].scores) == {"jaccard", "micro_f1", "macro_f1", "subset_accuracy"}


def test_default_candidates_have_all_machines_once():
    names = [candidate.name for candidate in default_candidates(500, 5)]
    assert len(set(names)) == len(names)
    assert {"CrammerSingerSVC", "WestonWatkinsSVC", "SVC rbf", "LogisticRegression"} <= set(names)
    assert "SVC rbf" not in [candidate.name for candidate in default_candidates(100_000, 5)]
    assert "LinearSVC one-vs-one" not in [candidate.name for candidate in default_candidates(500, 2)]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"metric": "precision"}, "metric='precision'"),
        ({"cv": 1}, "cv"),
        ({"budget": -1}, "budget"),
        ({"machines": []}, "machines is empty"),
        ({"machines": [FEW[0], FEW[0]]}, "'cs' twice"),
        ({"cv": 60}, "the largest class"),
    ],
)
def test_bad_arguments(change, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        compare_machines(X, y, **{"machines": FEW, **change})


def test_bad_targets():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="y is continuous"):
        compare_machines(X, y + 0.5, machines=FEW)
    with pytest.raises(ValueError, match="X has 150 rows and y has 149"):
        compare_machines(X, y[1:], machines=FEW)


def test_corrected_t_test_by_hand():
    first, second = np.array([0.9, 0.8, 0.85, 0.95]), np.array([0.8, 0.8, 0.8, 0.85])
    found = corrected_t_test(first, second, test_share=1 / 3)
    d = first - second
    error = np.sqrt((1 / 4 + 1 / 3) * d.var(ddof=1))
    assert found.mean == pytest.approx(d.mean()) and found.standard_error == pytest.approx(error)
    assert found.p_value == pytest.approx(2 * stats.t.sf(d.mean() / error, 3))
    assert found.probability == pytest.approx(1 - found.p_value / 2)
    assert corrected_t_test(first, first, 0.3).p_value == 1.0
    assert corrected_t_test(first, second, 0.0).p_value == pytest.approx(stats.ttest_rel(first, second).pvalue)
    assert half_width(first, 0.0) == pytest.approx(stats.t.ppf(0.975, 3) * stats.sem(first))


def test_false_alarms_are_rare():
    """Two equal machines, scores that share training rows: the plain t-test errs far more often than 5 %."""
    rng, alarms = np.random.default_rng(0), []
    for _ in range(300):
        shared = rng.normal(size=2)  # what both repetitions' training sets have in common
        scores = shared[:, None] * np.sqrt(0.2) + rng.normal(size=(2, 10)) * np.sqrt(0.8)
        alarms.append(corrected_t_test(*scores, test_share=0.25).p_value < 0.05)
    assert np.mean(alarms) < 0.08


def test_holm():
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03]), [0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]).tolist() == [1.0, 1.0]


def test_report_stands_alone(wine):
    pytest.importorskip("matplotlib")
    page = html_report(wine, title="wine & <cheese>", command="polymargin compare wine.csv")
    assert "wine &amp; &lt;cheese&gt;" in page and wine.winner in page
    assert "polymargin compare wine.csv" in page
    assert page.count("<svg") >= 3 and "Classes that sit closest" in page
    fetched = re.findall(r'(?:src|href)="(?!#)([^"]*)"', page)
    assert fetched == [] and "<script" not in page
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert page == html_report(wine, title="wine & <cheese>", command="polymargin compare wine.csv")
