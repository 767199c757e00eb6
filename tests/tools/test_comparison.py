"""The comparison: honest splits, corrected tests, budgets, a report that stands alone."""

import json
import re
import signal
import time
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.datasets import load_digits, load_iris, load_wine, make_classification, make_multilabel_classification
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.utils.metaestimators import available_if

from polymargin import CrammerSingerSVC, WestonWatkinsSVC, compare_machines
from polymargin.comparison import Candidate, candidates_for, default_candidates, plan
from polymargin.comparison.candidates import FAMILY
from polymargin.comparison.evaluation import Record, stopped_at
from polymargin.comparison.plan import Race
from polymargin.comparison.report import html_report
from polymargin.comparison.scoring import OutOfTime
from polymargin.comparison.statistics import corrected_t_test, half_width, holm
from polymargin.metrics import known_label_score

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
        assert ("neg_log_loss" in row.scores) == (row.machine == "lr")
        assert row.params["C"] in (0.1, 1.0) and row.fit_seconds > 0 and row.n_splits == 6
        assert row.scores["accuracy"] == pytest.approx(np.mean(list(wine.scores(row.machine).values())))
    frame = wine.to_frame()
    assert frame.index.tolist() == [row.machine for row in wine.table] and "accuracy" in frame
    assert json.loads(wine.to_json())["winner"] == wine.winner


def test_equal_means_are_not_decided_by_time():
    """The other metrics decide, then the order of the candidates: a comparison can be repeated."""
    X, y = load_iris(return_X_y=True)
    sleepy, awake = Candidate("first", Sleeper(0.02), {}), Candidate("second", Sleeper(0.0), {})
    assert compare_machines(X, y, machines=[sleepy, awake], cv=3).winner == "first"


def test_the_winner_can_be_fitted_at_once(wine):
    again = compare_machines(*load_wine(return_X_y=True), machines=FEW, cv=3, repeats=2, refit=True)
    X, _ = load_wine(return_X_y=True)
    assert again.fit_winner() is again.fit_winner()
    np.testing.assert_array_equal(again.fit_winner().decision_function(X), wine.fit_winner().decision_function(X))


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
    assert "all others are worse (p < 0.05 each)" in result.recommendation


def test_failing_machine_says_why_and_others_go_on():
    X, y = load_iris(return_X_y=True)
    broken = Candidate("broken", LinearSVC(C=-1.0), {})
    result = compare_machines(X, y, machines=[broken, FEW[0]], cv=3)
    assert [row.machine for row in result.table] == ["cs"]
    assert "'C' parameter" in result.dropped["broken"]
    with pytest.raises(RuntimeError, match=r"broken: .*'C' parameter"):
        compare_machines(X, y, machines=[broken], cv=3)


class Clock:
    """Time that passes only when a task takes some; one worker."""

    def __init__(self, monkeypatch, costs, scores):
        self.now, self.costs, self.scores = 1000.0, costs, scores
        monkeypatch.setattr(plan.time, "time", lambda: self.now)

    def run(self, tasks, limits):
        for name, split in tasks:
            given = limits((name, split))
            if self.now + given.expected > given.until:
                yield Record(name, split, {}, {}, 0.0, 0.0, 0, progress=0.0)
                continue
            seconds = min(self.costs[name], given.allowed, given.until - self.now)
            self.now += seconds
            if seconds < self.costs[name]:
                yield Record(name, split, {}, {}, seconds, 0.0, 0, progress=seconds / self.costs[name])
            else:
                yield Record(name, split, {"accuracy": self.scores(name, split)}, {}, seconds, 0.0, 0)


def raced(monkeypatch, costs, scores, budget, n_splits=10, **settings):
    clock = Clock(monkeypatch, costs, scores)
    race = Race(list(costs), "accuracy", budget, resolution=0.001, **settings)
    race.run(n_splits, 5, clock.run)
    return race, clock.now - 1000.0


def measured(race, name):
    return sorted(record.split for record in race.records if record.machine == name)


def test_one_bad_split_is_no_reason_to_leave(monkeypatch):
    """The best of eight machines is the worst of all on the first split."""
    noise = np.random.default_rng(0).normal(scale=0.003, size=(8, 10))

    def score(name, split):
        level = (0.5 if split == 0 else 0.95) if name == "0" else 0.9
        return level + noise[int(name), split]

    race, _ = raced(monkeypatch, {str(k): 1.0 for k in range(8)}, score, budget=45.0)
    assert "0" in race.alive and len(measured(race, "0")) >= 5


def test_the_clearly_worse_leave_after_several_splits_and_keep_their_scores(monkeypatch):
    noise = np.random.default_rng(0).normal(scale=0.01, size=(4, 10))
    levels = {"a": 0.9, "b": 0.89, "c": 0.3, "d": 0.2}
    race, seconds = raced(
        monkeypatch, dict.fromkeys(levels, 1.0), lambda name, k: levels[name] + noise[ord(name) - 97, k], budget=30.0
    )
    assert race.alive == ["a", "b"] and set(race.dropped) == {"c", "d"} and seconds <= 30
    assert all(why.startswith("clearly worse than a after 3 splits, by 0.") for why in race.dropped.values())
    assert measured(race, "c") == [0, 1, 2] and measured(race, "a") == list(range(10))


def test_the_same_small_difference_on_three_splits_is_no_proof(monkeypatch):
    """One test row each time: without the resolution of the scores the standard error would be 0."""
    race, _ = raced(monkeypatch, {"a": 1.0, "b": 1.0}, lambda name, k: 0.9 + 0.001 * (name == "a"), budget=15.0)
    assert race.dropped == {} and measured(race, "b") == measured(race, "a")


def test_the_slow_leave_so_that_others_get_several_splits(monkeypatch):
    costs = {"a": 0.5, "b": 0.5, "c": 0.5, "slow": 3.0, "endless": 1e6}
    race, seconds = raced(monkeypatch, costs, lambda name, _: 0.8005 if name == "a" else 0.8, budget=14.0)
    assert race.alive == ["a", "b", "c"] and seconds <= 14
    assert all(why.startswith("too slow for the budget") for why in race.dropped.values())
    assert measured(race, "slow") == [0] and measured(race, "endless") == [] and len(measured(race, "a")) >= 3


def test_who_leads_is_not_too_slow(monkeypatch):
    costs = {"a": 0.5, "b": 0.5, "c": 0.5, "slow": 3.0}
    race, seconds = raced(monkeypatch, costs, lambda name, _: 0.8005 if name == "slow" else 0.8, budget=14.0)
    assert "slow" in race.alive and measured(race, "slow") == measured(race, "a") and seconds <= 14


@pytest.mark.parametrize("budget", [3.0, 10.0, 30.0, 100.0])
@pytest.mark.parametrize("fits_after", [0.0, 1.3])
def test_races_keep_their_budget(monkeypatch, budget, fits_after):
    rng = np.random.default_rng(int(budget))
    for _ in range(20):
        costs = dict(zip("abcdefghijkl", rng.lognormal(0, 1.2, size=12), strict=True))
        scores = rng.uniform(0.7, 1.0, size=(128, 10))
        race, seconds = raced(
            monkeypatch, costs, lambda name, k, s=scores: s[ord(name), k], budget, fits_after=fits_after
        )
        leader = max(race.alive, key=lambda name: np.mean(list(race._scores(name).values())))
        assert seconds + fits_after * costs[leader] <= 1.2 * budget or len(measured(race, leader)) == 1
        counts = [len(measured(race, name)) for name in race.alive]
        assert max(counts) - min(counts) <= 1  # the same splits for all who stayed, the last one aside


def test_a_budget_that_is_too_small_still_gives_a_result(monkeypatch):
    race, _ = raced(monkeypatch, {"a": 900.0, "b": 500.0}, lambda *_: 0.5, budget=10.0)
    assert race.alive == ["b"] and measured(race, "b") == [0] and set(race.dropped) == {"a"}
    X, y = make_classification(3200, 5, n_informative=4, n_redundant=0, n_classes=3, random_state=0)
    result = compare_machines(X, y, machines=FEW, cv=3, budget=1e-6)
    assert [len(result.scores(name)) for name in (result.winner, *result.ties)] == [1]
    assert "2 left early (2 too slow for the budget), 2 of them without a score" in result.recommendation
    assert "nan" not in str(result)


class Sleeper(DummyClassifier):
    """Takes its time."""

    def __init__(self, seconds=0.1, strategy="prior"):
        super().__init__(strategy=strategy)
        self.seconds = seconds

    def fit(self, X, y, sample_weight=None):
        time.sleep(self.seconds)
        return super().fit(X, y, sample_weight)


def test_budgets_are_kept_by_the_clock():
    """Thirty-one fits a split, and one machine that would sleep for an hour in its first one."""
    X, y = load_iris(return_X_y=True)
    grid = {"strategy": ["prior", "stratified"]}
    slow = [Candidate(f"sleeper {k}", Sleeper(0.05 * k), grid) for k in range(1, 5)]
    began = time.perf_counter()
    result = compare_machines(X, y, machines=[*slow, Candidate("asleep", Sleeper(3600.0), grid), FEW[0]], cv=5, budget=4.0)
    assert time.perf_counter() - began < 1.2 * 4.0
    assert result.winner == "cs" and "asleep: too slow for the budget" in str(result)


def test_a_fit_in_the_core_is_stopped():
    X, y = make_classification(20_000, 100, n_informative=60, n_classes=10, random_state=0)
    began = time.perf_counter()
    with pytest.raises(OutOfTime), stopped_at(time.time() + 0.3):
        WestonWatkinsSVC(C=1000.0, tol=1e-9, max_iter=10**6).fit(X, y)
    assert time.perf_counter() - began < 1.0
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


def test_the_end_of_the_time_is_no_missing_attribute():
    """scikit-learn makes an AttributeError of every Exception in a check of its `available_if`."""

    class Slow:
        @available_if(lambda self: time.sleep(20.0) or True)
        def transform(self):
            """Never there."""

    with pytest.raises(OutOfTime), stopped_at(time.time() + 0.1):
        hasattr(Slow(), "transform")


def test_sparse_and_multilabel_data():
    X, y = load_digits(return_X_y=True)
    result = compare_machines(sparse.csr_matrix(X[:300]), y[:300], machines=FEW[:1], cv=3)
    assert result.table[0].scores["accuracy"] > 0.8
    X, Y = make_multilabel_classification(200, 10, n_classes=4, random_state=0)
    candidates = default_candidates(200, 4, multilabel=True)
    result = compare_machines(X, Y, machines=candidates[-3:], cv=3)
    assert set(result.table[0].scores) == {"jaccard", "micro_f1", "macro_f1", "subset_accuracy"}


def some_known(seed=0):
    """A label matrix of which half the entries are known."""
    X, Y = make_multilabel_classification(150, 8, n_classes=4, random_state=seed)
    signed = np.where(Y > 0, 1, -1) * (np.random.default_rng(seed).random(Y.shape) < 0.5)
    signed[:2], signed[2:4] = 1, -1  # every label is known both ways in every fold or is handled
    return X, Y, signed


def test_unknown_labels_count_nowhere():
    truth = np.array([[1, -1, 0], [0, 1, -1]])
    predicted = np.array([[1, 1, 1], [1, 1, 0]])
    assert known_label_score(truth, predicted, metric="label_accuracy") == 0.75
    weighted = known_label_score(truth, predicted, metric="label_accuracy", sample_weight=[3, 1])
    assert weighted == pytest.approx((3 + 1 + 1) / 8)
    with pytest.raises(ValueError, match="no known entry"):
        known_label_score(np.zeros((2, 2)), np.zeros((2, 2)), zeros="unknown")
    X, _, signed = some_known()
    names = {"OneVsNoneSVC": {"C": (0.1, 1.0)}, "LinearSVC per label": {"estimator__C": (0.1,)}}
    chosen = [replace(c, grid=names[c.name]) for c in candidates_for(X, signed) if c.name in names]
    result = compare_machines(X, signed, machines=chosen, cv=3, metric="label_accuracy")
    for candidate in chosen:
        model = result.fitted_on_split(candidate.name)
        known = model.y_test != 0
        right = (np.asarray(model.model.predict(model.X_test)) > 0) == (model.y_test > 0)
        record = next(r for r in result.records if r.machine == candidate.name and r.split == 0)
        assert record.scores["label_accuracy"] == pytest.approx(right[known].mean())
        hits = (right & (model.y_test > 0)).sum(axis=1)
        union = (known & (~right | (model.y_test > 0))).sum(axis=1)
        jaccard = np.where(union, hits / np.maximum(union, 1), 1.0)[known.any(axis=1)]  # of rows that know something
        assert record.scores["jaccard"] == pytest.approx(jaccard.mean())
    assert result.table[0].scores["label_accuracy"] > 0.7


def test_a_matrix_of_minus_one_is_not_a_matrix_of_ones():
    """-1 and 1 without any 0, which scikit-learn takes for an indicator matrix: all entries are known."""
    X, Y, _ = some_known()
    signed = np.where(Y > 0, 1, -1)
    everyone = zip(candidates_for(X, signed), candidates_for(X, Y), strict=True)
    pair = next(pair for pair in everyone if pair[0].name == "LinearSVC per label")
    first, second = (
        compare_machines(X, labels, machines=[replace(c, grid={"estimator__C": (0.1, 1.0)})], cv=3)
        for c, labels in zip(pair, (signed, Y), strict=True)
    )
    assert first.scores(first.winner) == second.scores(second.winner)


def test_default_candidates_have_all_machines_once():
    names = [candidate.name for candidate in default_candidates(500, 5)]
    assert len(set(names)) == len(names)
    assert {"CrammerSingerSVC", "WestonWatkinsSVC", "SVC rbf", "LogisticRegression"} <= set(names)
    assert "SVC rbf" not in [candidate.name for candidate in default_candidates(100_000, 5)]
    assert "LinearSVC one-vs-one" not in [candidate.name for candidate in default_candidates(500, 2)]


def test_products_of_the_family_take_part(iris):
    """As they are, in a comparison by probabilities too; where several labels are wanted they cannot."""
    X, y = iris
    everyone = {candidate.name: candidate for candidate in default_candidates(len(X), 3, probabilities=True)}
    assert set(FAMILY) <= set(everyone) and not set(FAMILY) & {c.name for c in default_candidates(200, 4, multilabel=True)}
    for name, product in FAMILY.items():
        machine = everyone[name].estimator.fit(X, y)
        assert {key: machine.get_params()[key] for key in product} == product
        assert machine.predict_proba(X).shape == (len(X), 3) and machine.certificate_.converged


def test_the_loss_of_label_sets_is_chosen_by_the_data():
    grids = {candidate.name: candidate.grid for candidate in default_candidates(200, 4, multilabel=True)}
    assert grids["MultiLabelSVC"]["loss"] == ("relevance", "squared_relevance")


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
    floor = corrected_t_test([0.9, 0.9, 0.9], [0.8, 0.8, 0.8], 0.25, resolution=0.1)
    assert floor.standard_error == pytest.approx(np.sqrt(1 / 3 + 0.25) * 0.1) and floor.p_value > 0.1
    assert half_width([1.0, 1.0, 1.0], 0.25, resolution=0.01) == pytest.approx(stats.t.ppf(0.975, 2) * np.sqrt(7 / 12) / 100)
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


def test_a_metric_of_probabilities_asks_for_machines_that_have_them(iris):
    X, y = iris
    mine = [Candidate("ours", CrammerSingerSVC(probability=True), {"C": [0.1, 1.0]}, ours=True)]
    for metric in ("neg_log_loss", "neg_brier_score"):
        found = compare_machines(X, y, machines=mine, metric=metric, cv=2, inner=2)
        assert -1.0 < found.table[0].scores[metric] < 0.0
    with pytest.raises(ValueError, match="'without' does not have"):
        compare_machines(X, y, machines=[Candidate("without", CrammerSingerSVC())], metric="neg_log_loss")
    everyone = candidates_for(X, y, metric="neg_log_loss")
    assert "LogisticRegression" in [candidate.name for candidate in everyone]
    assert all(hasattr(candidate.estimator, "predict_proba") for candidate in everyone)
