"""Each display: its data, its labels, from one machine and from several, with 2, 3 and 100 classes, without matplotlib."""

import itertools
import runpy
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from interpreters import run_python
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, recall_score
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from polymargin import CrammerSingerSVC, OneVsNoneSVC, PathCV, RejectOption, WestonWatkinsSVC, regularization_path
from polymargin.diagnostics import angles, margins, pairwise_margins
from polymargin.metrics import expected_calibration_error
from polymargin.problems.certificate import Certificate, Record

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
pyplot = pytest.importorskip("matplotlib.pyplot")  # by name: that `polymargin.plotting` has loaded it is no promise

from polymargin import plotting  # noqa: E402


@pytest.fixture
def machines(iris):
    return [CrammerSingerSVC(tol=1e-6).fit(*iris), WestonWatkinsSVC(tol=1e-6).fit(*iris), LogisticRegression().fit(*iris)]


@pytest.fixture(scope="module")
def hundred():
    X, y = make_blobs(1000, 8, centers=100, random_state=0)
    X = StandardScaler().fit_transform(X)
    return CrammerSingerSVC(max_iter=3000, tol=1e-2).fit(X, y), X, y


def overlaps(display):
    """Pairs of tick labels, axis labels and legend that cover each other, and texts outside of the figure."""
    figure = display.figure_
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    for ax in figure.axes:
        for ticks in (ax.get_xticklabels(), ax.get_yticklabels()):
            shown = [tick.get_window_extent(renderer) for tick in ticks if tick.get_text() and tick.get_visible()]
            shown = [box for box in shown if box.width > 0]
            for first, second in itertools.pairwise(shown):
                yield from ["ticks"] if first.overlaps(second) else []
        labels = [text for text in (ax.xaxis.label, ax.yaxis.label) if text.get_text()]
        for text in labels:
            box = text.get_window_extent(renderer)
            width, height = figure.canvas.get_width_height()
            inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1
            yield from [] if inside else [f"label {text.get_text()!r} is cut off"]


def test_margin_distribution_of_several_machines(machines, iris):
    display = plotting.MarginDistributionDisplay.from_estimator(machines, *iris)
    for machine in machines:
        np.testing.assert_array_equal(display.margins[type(machine).__name__], margins(machine, *iris))
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert len(texts) == 3 and texts[0].startswith("CrammerSingerSVC (mean")
    line = display.lines_[0]
    np.testing.assert_array_equal(line.get_xdata(), np.sort(display.margins["CrammerSingerSVC"]))
    assert line.get_ydata()[-1] == 1.0 and len({line.get_linestyle() for line in display.lines_}) == 3
    assert "margin" in display.ax_.get_xlabel() and "share" in display.ax_.get_ylabel()
    assert not list(overlaps(display))


def test_decision_regions_are_those_of_predict(iris):
    X, y = iris[0][:, 2:], iris[1]
    machine = CrammerSingerSVC(C=10.0, tol=1e-8).fit(X, y)
    display = plotting.DecisionRegionsDisplay.from_estimator(machine, X, y, resolution=40)
    points = np.column_stack([part.ravel() for part in np.meshgrid(display.x, display.y)])
    np.testing.assert_array_equal(machine.classes_[display.regions.ravel()], machine.predict(points))
    S = machine.decision_function(points)
    leads = np.column_stack([S[:, k] - np.delete(S, k, axis=1).max(axis=1) for k in range(3)])
    np.testing.assert_allclose(display.values.reshape(3, -1).T, leads, atol=1e-12)
    np.testing.assert_array_equal(display.support, machine.support_)
    assert len(display.lines_) == len(display.points_) == 3 and display.lines == "margin"
    np.testing.assert_array_equal(display.support_.get_offsets(), X[machine.support_])
    assert not list(overlaps(display))


def test_decision_regions_of_one_versus_none_have_lines_of_scores(iris):
    X, y = iris[0][:, 2:], iris[1]
    machine = OneVsNoneSVC().fit(X, y)
    display = plotting.DecisionRegionsDisplay.from_estimator(machine, X, y, resolution=10)
    points = np.column_stack([part.ravel() for part in np.meshgrid(display.x, display.y)])
    assert display.lines == "score"
    np.testing.assert_allclose(display.values.reshape(3, -1).T, machine.decision_function(points))
    plain = plotting.DecisionRegionsDisplay.from_estimator(LogisticRegression().fit(X, y), X, y, resolution=10)
    assert plain.support_ is None and plain.lines == "margin"


def test_decision_regions_of_two_classes_have_the_scores_of_each(iris):
    X, y = iris[0][50:, 2:], iris[1][50:]
    machine = OneVsNoneSVC(kernel="rbf").fit(X, y)
    display = plotting.DecisionRegionsDisplay.from_estimator(machine, X, y, resolution=10)
    points = np.column_stack([part.ravel() for part in np.meshgrid(display.x, display.y)])
    first, second = display.values.reshape(2, -1)
    np.testing.assert_allclose(second - first, machine.decision_function(points), atol=1e-12)
    np.testing.assert_array_equal(machine.classes_[display.regions.ravel()], machine.predict(points))
    own = machine._scores(X, machine.dual_coef_, machine.class_offsets_)
    assert abs(own[np.arange(len(y)), (y == machine.classes_[1]).astype(int)].min() - 1.0) < 0.5  # members reach about 1


@pytest.mark.parametrize(
    "change, says", [({"lines": "both"}, "lines='both'"), ({"resolution": 1}, "resolution=1"), ({}, "two columns")]
)
def test_decision_regions_say_what_they_need(iris, change, says):
    X, y = iris
    part = X[:, :2] if change else X
    with pytest.raises(ValueError, match=says):
        plotting.DecisionRegionsDisplay.from_estimator(CrammerSingerSVC().fit(part, y), part, y, **change)


def test_margin_histogram_shares_add_up_to_one_on_given_axes(machines, iris):
    _, ax = pyplot.subplots()
    display = plotting.MarginDistributionDisplay.from_estimator(
        {"ours": machines[0]}, *iris, kind="histogram", normalize=True, ax=ax
    )
    assert display.ax_ is ax and display.lines_[0].get_data().values.sum() == pytest.approx(1.0)
    assert "units of X" in ax.get_xlabel()
    with pytest.raises(ValueError, match="kind='pie'"):
        display.plot(kind="pie")


def test_margins_from_predictions(machines, iris, two_classes):
    X, y = iris
    display = plotting.MarginDistributionDisplay.from_predictions(y, machines[0].decision_function(X), name="ours")
    np.testing.assert_allclose(display.margins["ours"], margins(machines[0], X, y))
    binary = LogisticRegression().fit(*two_classes)
    scores = binary.decision_function(two_classes[0])
    display = plotting.MarginDistributionDisplay.from_predictions(two_classes[1], scores)
    np.testing.assert_allclose(display.margins["machine"], margins(binary, *two_classes))
    with pytest.raises(ValueError, match="pass classes="):
        plotting.MarginDistributionDisplay.from_predictions(y[:50], machines[0].decision_function(X[:50]))
    with pytest.raises(ValueError, match="not in classes"):
        plotting.MarginDistributionDisplay.from_predictions(y, machines[0].decision_function(X), classes=[0, 1, 7])


@pytest.mark.parametrize(
    "display, function", [(plotting.PairwiseMarginDisplay, pairwise_margins), (plotting.AngleDisplay, angles)]
)
def test_heat_maps_show_the_matrix(display, function, machines, iris):
    shown = display.from_estimator(machines[0])
    np.testing.assert_array_equal(shown.matrix, function(machines[0]))
    off_diagonal = ~np.eye(3, dtype=bool)
    np.testing.assert_array_equal(shown.image_.get_array()[off_diagonal], shown.matrix[off_diagonal])
    assert shown.image_.get_array().mask.diagonal().all() and len(shown.ax_.texts) == 6
    colorbar = shown.figure_.axes[-1]
    assert ("units of X" if display is plotting.PairwiseMarginDisplay else "degrees") in colorbar.get_ylabel()
    again = display.from_predictions(shown.matrix, classes=["setosa", "versicolor", "virginica"], order="similar")
    assert sorted(again.order_) == [0, 1, 2] and not list(overlaps(again))
    rbf = display.from_estimator(CrammerSingerSVC(kernel="rbf").fit(*iris))
    assert "units of X" not in rbf.figure_.axes[-1].get_ylabel()
    with pytest.raises(ValueError, match="square"):
        display(np.ones((3, 3)), classes=[0, 1])
    with pytest.raises(ValueError, match="order='random'"):
        shown.plot(order="random")


def test_a_hundred_classes_can_be_read(hundred):
    machine, X, y = hundred
    shown = plotting.PairwiseMarginDisplay.from_estimator(machine, order="similar")
    assert len(shown.ax_.get_xticks()) <= 25 and not shown.ax_.texts and "of 100" in shown.ax_.get_xlabel()
    assert sorted(shown.order_) == list(range(100)) and not list(overlaps(shown))
    bars = plotting.ClassAccuracyDisplay.from_estimator(machine, X, y)
    assert len(bars.ax_.get_yticks()) <= 50 and not list(overlaps(bars))
    assert bars.figure_.get_size_inches()[1] <= 9


def test_two_classes(two_classes):
    machine = CrammerSingerSVC().fit(*two_classes)
    shown = plotting.AngleDisplay.from_estimator(machine, order="similar")
    assert shown.matrix[0, 1] == pytest.approx(180.0) and not list(overlaps(shown))


def test_class_accuracies_are_recalls(machines, iris):
    X, y = iris
    display = plotting.ClassAccuracyDisplay.from_estimator({"a": machines[0], "b": machines[2]}, X, y)
    np.testing.assert_allclose(display.accuracies["b"], recall_score(y, machines[2].predict(X), average=None))
    assert display.counts.tolist() == [50, 50, 50] and not list(overlaps(display))
    single = plotting.ClassAccuracyDisplay.from_predictions(np.array(["x", "y", "y"]), np.array(["x", "x", "y"]), sort=False)
    assert single.accuracies["machine"].tolist() == [1.0, 0.5]
    with pytest.raises(ValueError, match="one class per row"):
        plotting.ClassAccuracyDisplay.from_predictions(np.ones((3, 2)), np.ones((3, 2)))


def test_convergence_shows_the_certified_gaps(machines):
    display = plotting.ConvergenceDisplay.from_estimator(machines[:2])
    end = machines[0].certificate_
    history = np.array(end.history)
    np.testing.assert_array_equal(display.seconds["CrammerSingerSVC"], history[:, 0])
    np.testing.assert_allclose(display.gaps["CrammerSingerSVC"], (history[:, 1] - history[:, 2]) / history[:, 1])
    assert display.certified == {"CrammerSingerSVC": True, "WestonWatkinsSVC": True}
    assert display.ax_.get_yscale() == "log" and display.ax_.texts[0].get_text() == "tol = 1e-06"
    with pytest.raises(TypeError, match="no certificate_"):
        plotting.ConvergenceDisplay.from_estimator(machines[2])


def test_convergence_without_a_bound_says_so():
    history = (Record(0.1, 4.0, -np.inf), Record(0.2, 2.0, -np.inf), Record(0.3, 1.0, -np.inf))
    end = Certificate("stationary", 1.0, -np.inf, np.inf, np.inf, 1e-4, 3, 0.3, history)
    display = plotting.ConvergenceDisplay.from_certificates({"bent": end})
    np.testing.assert_allclose(display.gaps["bent"], [0.75, 0.5, 0.0])
    assert "no bound" in display.ax_.get_legend().get_texts()[0].get_text()
    with pytest.raises(ValueError, match="no history"):
        plotting.ConvergenceDisplay.from_certificates(Certificate("optimal", 1.0, 1.0, 0.0, 0.0, 1e-4, 1, 0.1))


def test_convergence_never_rises():
    """The objective falls from 4 to 1 beside a bound of -1: the share rises from 1.25 to 2."""
    history = (Record(0.1, 4.0, -1.0), Record(0.2, 1.0, -1.0), Record(0.3, 1.0, 0.9))
    end = Certificate("optimal", 1.0, 0.9, 0.1, 0.1, 0.2, 3, 0.3, history=history)
    display = plotting.ConvergenceDisplay.from_certificates({"machine": end})
    np.testing.assert_allclose(display.gaps["machine"], [1.25, 1.25, 0.1])


def test_regularization_path_from_arrays_and_from_a_path():
    values = [1.0, 0.01, 100.0]
    folds = np.array([[0.9, 0.8], [0.5, 0.6], [0.7, 0.7]])
    display = plotting.RegularizationPathDisplay(
        values, scores={"train": [1, 0.5, 0.9], "held out": folds}, norms=[1.0, 0.1, 5.0], param_name="C"
    ).plot()
    assert len(display.axes_) == 2 and display.axes_[0].get_xscale() == "log" and display.axes_[-1].get_xlabel() == "C"
    drawn = display.axes_[0].get_lines()
    np.testing.assert_allclose(drawn[0].get_xdata(), [0.01, 1.0, 100.0])
    np.testing.assert_allclose(drawn[1].get_ydata(), [0.55, 0.85, 0.7])

    class Path:
        param_name, values, objectives = "p", [1.2, 1.5], [3.0, 4.0]
        coefs = np.array([[[3.0, 4.0]], [[0.0, 2.0]]])

    found = plotting.RegularizationPathDisplay.from_path(Path())
    np.testing.assert_allclose(found.norms[""], [5.0, 2.0])
    assert found.axes_[-1].get_xlabel() == "p" and found.axes_[0].get_xscale() == "linear"
    with pytest.raises(ValueError, match="no effect"):
        plotting.RegularizationPathDisplay.from_path(Path(), [[1.0]], [0])
    with pytest.raises(ValueError, match="nothing to draw"):
        plotting.RegularizationPathDisplay(values)
    with pytest.raises(ValueError, match=r"norms has shape \(2,\)"):
        plotting.RegularizationPathDisplay(values, norms=[1.0, 2.0])
    with pytest.raises(ValueError, match="1 axes for 2 panels"):
        display.plot(pyplot.figure().add_subplot())


def test_paths_and_searches_are_drawn(iris):
    X, y = iris
    path = regularization_path(CrammerSingerSVC(random_state=0), X, y, [0.01, 0.1, 1.0])
    display = plotting.RegularizationPathDisplay.from_path(path, X, y)
    assert len(display.axes_) == 3
    np.testing.assert_allclose(display.norms[""], [np.linalg.norm(machine.class_vectors_) for machine in path.machines])
    np.testing.assert_allclose(display.scores[""], path.scores(X, y))
    assert len(plotting.RegularizationPathDisplay.from_path(path).axes_) == 2
    for search in (PathCV, GridSearchCV):
        found = search(CrammerSingerSVC(random_state=0), {"C": [0.01, 1.0]}, cv=3).fit(X, y)
        shown = plotting.RegularizationPathDisplay.from_search(found)
        np.testing.assert_allclose(shown.scores["held-out folds"].mean(axis=1), found.cv_results_["mean_test_score"])
    two = GridSearchCV(CrammerSingerSVC(), {"C": [0.1, 1.0], "fit_intercept": [True, False]}, cv=2).fit(X, y)
    with pytest.raises(ValueError, match="one parameter"):
        plotting.RegularizationPathDisplay.from_search(two)


def test_names_of_equal_machines_differ(iris):
    first, second = CrammerSingerSVC(C=0.1).fit(*iris), CrammerSingerSVC(C=10).fit(*iris)
    display = plotting.MarginDistributionDisplay.from_estimator([first, second], *iris)
    assert list(display.margins) == ["CrammerSingerSVC", "CrammerSingerSVC 2"]


def test_drawing_makes_no_warning(machines, iris):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for display in (
            plotting.MarginDistributionDisplay.from_estimator(machines, *iris),
            plotting.ConvergenceDisplay.from_estimator(machines[:2]),
            plotting.ClassAccuracyDisplay.from_estimator(machines, *iris),
        ):
            display.figure_.canvas.draw()


def test_matplotlib_is_loaded_on_drawing_only():
    run_python(
        """
        import sys
        import polymargin
        assert "polymargin.diagnostics" not in sys.modules
        import polymargin.plotting
        assert "matplotlib" not in sys.modules
        sys.modules["matplotlib"] = None
        display = polymargin.plotting.RegularizationPathDisplay([1, 2], norms=[1, 2])
        try:
            display.plot()
        except ModuleNotFoundError as error:
            assert "polymargin[plot]" in str(error), error
        else:
            raise AssertionError("drawn without matplotlib")
        """
    )


def test_the_example_draws_every_display(tmp_path, monkeypatch, capsys):
    script = Path(__file__).resolve().parents[2] / "examples" / "diagnostics.py"
    monkeypatch.setattr(sys, "argv", [str(script), str(tmp_path)])
    runpy.run_path(str(script), run_name="__main__")
    assert len(list(tmp_path.glob("*.png"))) >= 11 and "Closest classes" in capsys.readouterr().out


# -- probabilities -----------------------------------------------------------------------------------------


def test_reliability_of_several_machines(iris):
    X, y = iris
    machines = [CrammerSingerSVC(probability=True).fit(X, y), LogisticRegression().fit(X, y)]
    display = plotting.ReliabilityDisplay.from_estimator(machines, X, y)
    for machine in machines:
        kept, P = display.kept[type(machine).__name__], machine.predict_proba(X)
        assert kept.log_loss == pytest.approx(log_loss(y, P))
        assert kept.calibration_error == pytest.approx(expected_calibration_error(y, P, n_bins=10))
        assert kept.bins.weight.sum() == 150
    texts = [text.get_text() for text in display.axes_[0].get_legend().get_texts()]
    assert "ECE" in texts[0] and "log loss" in texts[0] and "Brier" in texts[0]
    assert not list(overlaps(display))
    with pytest.raises(ValueError, match="two are needed"):
        display.plot(display.axes_[:1])
    one = plotting.ReliabilityDisplay.from_predictions(y, machines[0].predict_proba(X), strategy="quantile")
    assert len(one.lines_) == 1


def test_risk_and_coverage(iris):
    X, y = iris
    option = RejectOption(CrammerSingerSVC(), coverage=0.5).fit(X, y)
    display = plotting.RiskCoverageDisplay.from_estimator({"half": option, "all": option.estimator_}, X, y)
    half, everything = display.curves["half"], display.curves["all"]
    assert half.chosen == (option.accepts(X).mean(), pytest.approx(1 - option.score(X, y)))
    assert everything.chosen is None and half.area == everything.area
    assert everything.coverage[-1] == 1.0 and everything.risk[-1] == (option.estimator_.predict(X) != y).mean()
    assert not list(overlaps(display))
    tied = plotting.RiskCoverageDisplay.from_predictions([0, 1, 0, 1], [0, 1, 1, 0], [0.9, 0.5, 0.5, 0.1])
    np.testing.assert_allclose(tied.curves["machine"].coverage, [0.25, 0.75, 1.0])
    np.testing.assert_allclose(tied.curves["machine"].risk, [0.0, 1 / 3, 0.5])
    assert tied.curves["machine"].area == pytest.approx(0.5 / 3 + 0.125)
    with pytest.raises(ValueError, match="confidence has shape"):
        plotting.RiskCoverageDisplay.from_predictions([0, 1], [0, 1], [0.5])


def test_displays_of_many_labels():
    from polymargin import MultiLabelSVC
    from polymargin.plotting import LabelErrorsDisplay, LabelScoresDisplay

    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 6))
    Y = (X @ rng.standard_normal((6, 40)) + rng.standard_normal((80, 40)) > 0.5).astype(int)
    machine = MultiLabelSVC(C=0.01).fit(X, Y)
    scores = LabelScoresDisplay.from_estimator(machine, X, Y)
    assert scores.scores.shape == (3, 40) and (np.diff(scores.members[scores.order_]) <= 0).all()
    errors = LabelErrorsDisplay.from_estimator(machine, X, Y, order="similar")
    wrong = machine.predict(X) != Y
    k, other = 3, 17
    expected = (wrong[:, k] & wrong[:, other]).sum() / (wrong[:, k] | wrong[:, other]).sum()
    assert errors.matrix[k, other] == pytest.approx(expected)
    with pytest.raises(ValueError, match="3 rows"):
        LabelScoresDisplay(np.zeros((2, 4)), np.ones(4))
