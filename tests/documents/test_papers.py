"""The papers' tables: records, resuming, and pages that are nothing but a function of the records."""

import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale

from polymargin import M3SVC

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
papers = pytest.importorskip("benchmarks.papers", reason="the benchmarks are not part of an installed package")
from benchmarks.papers import (  # noqa: E402
    adam,
    arithmetic,
    chances,
    figures,
    harness,
    missed,
    networks,
    plan,
    protocol,
    ranks,
    reading,
    records,
    summary,
)
from benchmarks.papers.pages import PAGES, all_pages  # noqa: E402
from benchmarks.papers.reading import Results  # noqa: E402


def small(key, tables):
    """A paper as `--quick` runs it, with some of its tables."""
    paper = papers.quick(papers.PAPERS[key])
    return dataclasses.replace(paper, tables=tuple(table for table in paper.tables if table.key in tables))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three papers, run once."""
    folder = tmp_path_factory.mktemp("papers")
    m3svm = small("m3svm", ("table-1", "released", "seeds", "equal"))
    chosen = [m3svm, small("lp_norm", ("table-2",)), small("one_vs_none", ("table-3",))]
    said = []
    new = harness.run(chosen, directory=folder, workers=2, echo=said.append)
    return folder, chosen, new, said


def test_every_unit_is_recorded_once(runs):
    folder, chosen, new, said = runs
    lines = [record for paper in chosen for record in records.read(folder / f"{paper.key}.jsonl")]
    units = {(r["table"], r["data"], r["split"], r["machine"]) for r in lines}
    assert len(lines) == len(units) == new == len(said)
    expected = {
        (table.key, case.data, split, one.name)
        for paper in chosen
        for table in paper.tables
        for case in table.cases
        for one in table.candidates(case)
        for split in range(table.splits)
    }
    assert units == expected
    assert "min left" in said[0]


def test_records_say_how_the_fits_ended(runs):
    folder = runs[0]
    ours = [r for r in records.read(folder / "m3svm.jsonl") if r["machine"] in ("M3SVM", "Crammer")]
    for record in ours:
        assert record["status"] == "optimal" and record["gap"] <= 1e-2
        assert record["not_converged"] == 0 < record["fits"] and record["seconds"] > 0
        assert set(record["versions"]) == {"polymargin", "numpy", "scikit-learn"}
        assert set(record["params"]) <= {"C", "p", "scaling", "fit_intercept"} and 0.8 < record["scores"]["accuracy"] <= 1.0


def test_scaling_and_intercept_are_chosen_with_equal_chances(runs):
    folder = runs[0]
    found = [r for r in records.read(folder / "m3svm.jsonl") if r["table"] == "equal"]
    assert {r["machine"] for r in found} == {"OvR", "OvO", "Crammer", "M-SVM", "Multi-LR", "M3SVM"}
    for record in found:
        assert record["params"]["scaling"] in ("unit", "symmetric", "standard") and 0.8 < record["train"] <= 1.0
        (switch,) = [value for key, value in record["params"].items() if key.endswith("fit_intercept")]
        assert not (switch and record["params"]["scaling"] == "symmetric")  # that is [0, 1] with a quarter of C
        assert "intercept on and off" in record["settings"]


def test_every_machine_has_the_same_range_of_C():
    """Except where a table's protocol says otherwise."""
    for paper in papers.PAPERS.values():
        for table in paper.tables:
            if table.scalings or paper.key == "alike":
                assert table.grows == plan.LIMITS
                for case in table.cases:
                    ranges = {one.grid[key] for one in table.candidates(case) for key in one.grid if key.endswith("C")}
                    assert ranges == {chances.CS if case.grid == "full" else chances.CS[1:4]}


def test_of_equals_the_middle_one_is_chosen():
    start = {"p": (1, 2), "machine__C": (0.01, 1.0, 100.0)}
    points = [(s, {"p": 1, "machine__C": C}) for s, C in ((0.9, 0.01), (0.9, 1.0), (0.9, 100.0), (0.8, 1e4))]
    assert chances.best(points, start)["machine__C"] == 1.0
    assert chances.best(points)["machine__C"] == 0.01  # the first, where C does not grow
    assert chances.best([*points, (0.91, {"p": 2, "machine__C": 1e4})], start) == {"p": 2, "machine__C": 1e4}


def test_C_goes_on_beyond_an_end_while_it_is_the_best():
    def found(where):
        """Scores with a peak, as a search over the start (0.1, 1, 10) sees them."""
        tried = []

        def search(grid):
            tried.extend(grid["C"])
            return [(-abs(np.log10(C / where)), {"C": C}) for C in grid["C"]]

        points = protocol._grown({"C": (0.1, 1.0, 10.0)}, search, (1e-3, 1e5))
        return chances.best(points, {"C": (0.1, 1.0, 10.0)})["C"], tried

    assert found(1.0) == (1.0, [0.1, 1.0, 10.0])
    assert found(1e4) == (1e4, [0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5])  # and the one behind it
    assert found(1e-9) == (1e-3, [0.1, 1.0, 10.0, 0.01, 1e-3])  # the limit
    assert chances.beyond((0.1, 1.0), 1.0, (0.1, 5.0)) is None


def test_apart_each_value_of_an_own_parameter_has_a_C_that_goes_on():
    """p = 1 has its best C inside of the start, p = 2 a better one beyond it: only a search of its own gets there."""
    table = dataclasses.replace(small("m3svm", ("equal",)).tables[0], grows=(1e-3, 1e5))

    def search(grid):
        """Peaks of 1 at C = 1 for p = 1, and of 2 at C = 1000 for p = 2."""
        return [(p - abs(np.log10(C / 10 ** (3 * p - 3))), {"p": p, "C": C}) for p in grid["p"] for C in grid["C"]]

    own = {"p": (1, 2), "C": (0.1, 1.0, 10.0)}
    together, apart = (
        chances.best(protocol._searched(own, search, dataclasses.replace(table, apart=flag)), own) for flag in (False, True)
    )
    assert together == {"p": 1, "C": 1.0} and apart == {"p": 2, "C": 1e3}


def test_a_search_apart_is_another_setting():
    """So that no table mixes records of both; machines without own parameters have the same search, and keep theirs."""
    table = papers.PAPERS["alike"].tables[0]
    for case in table.cases[:1]:
        for one in table.candidates(case):
            both = [plan.settings_of(dataclasses.replace(table, apart=flag), case, one) for flag in (False, True)]
            assert (both[0] != both[1]) == (len(one.grid) > 1)


def test_edges_are_counted():
    table = small("m3svm", ("equal",)).tables[0]
    case = table.cases[0]
    first, last = plan.LIMITS
    inside = [{"machine": "Crammer", "params": {"C": C}} for C in (chances.CS[0], chances.CS[-1])]
    assert chances.edges(table, case, inside) == (0, 0, 2)
    chosen = [("Crammer", first), ("Crammer", 1.0), ("M-SVM", last), ("M-SVM", last)]
    found = [{"machine": name, "params": {"C": C}} for name, C in chosen]
    assert chances.edges(table, case, found) == (1, 2, 4)
    assert chances.edges(table, case, found, "M-SVM") == (0, 2, 2) and chances.edges(table, case, found).share == 0.75
    one = [{"machine": "OvO", "params": {"estimator__C": first}}]
    assert chances.edges(table, case, one) == (1, 0, 1)


def test_released_steps_fall_towards_the_optimum():
    """The NumPy port minimises what M3SVC(loss="softmax") with the right C minimises."""
    X, y = load_iris(return_X_y=True)
    X, lam, p = scale(X), 1e-2, 4
    optimum = M3SVC(C=1.25 / (2 * lam * 3), p=p, scale="power", loss="softmax", epsilon=1e-9, tol=1e-6).fit(X, y)
    steps = [adam.ReleasedM3(lam, p, steps=n).fit(X, y) for n in (20, 5000)]
    far = [np.linalg.norm(m.coef_ - m.coef_.mean(axis=0) - optimum.class_vectors_) for m in steps]
    assert far[1] < 1e-2 * far[0]
    np.testing.assert_array_equal(steps[1].predict(X), optimum.predict(X))
    again = adam.ReleasedM3(lam, p, steps=20).fit(X, y)
    np.testing.assert_array_equal(again.coef_, steps[0].coef_)


def test_arithmetic_of_printed_numbers():
    assert arithmetic.is_share(92.15, 650) and not arithmetic.is_share(95.38, 120) and arithmetic.is_share(95.38, 130)
    assert arithmetic.neighbours(95.38, 120) == (95.0, pytest.approx(95.8333, abs=1e-4))
    y, predicted = np.eye(6)[[0, 1, 2, 3]], np.eye(6)[[0, 1, 2, 5]]
    assert arithmetic.entries_right(75.0, 6) == pytest.approx(100 * (y == predicted).mean())


def test_label_sets_never_seen_are_predicted(runs):
    folder = runs[0]
    lines = records.read(folder / "one_vs_none.jsonl")
    found = {r["machine"]: r["scores"]["subset_accuracy"] for r in lines if r["table"] == "table-3"}
    assert found["OvN L"] == 1.0  # the paper's Table 3, all six rows
    assert found["OvR L"] == pytest.approx(1 / 3, abs=1e-4)  # the paper says one half


def test_a_second_run_does_nothing(runs):
    folder, chosen, _, _ = runs
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert harness.run(chosen, directory=folder, workers=2) == 0
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_half_written_line_is_repaired_and_done_again(runs, tmp_path):
    folder, chosen, _, _ = runs
    text = (folder / "m3svm.jsonl").read_text("utf-8")
    lines = text.splitlines(keepends=True)
    broken = tmp_path / "m3svm.jsonl"
    broken.write_text("".join(lines[:-1]) + lines[-1][:40], "utf-8")
    assert harness.run(chosen[:1], directory=tmp_path, echo=lambda line: None) == 1
    again, before = json.loads(broken.read_text("utf-8").splitlines()[-1]), json.loads(lines[-1])
    assert [again[key] for key in ("split", "machine", "scores", "params")] == [
        before[key] for key in ("split", "machine", "scores", "params")
    ]


def test_other_settings_are_run_again(runs, tmp_path):
    folder, chosen, _, _ = runs
    (tmp_path / "m3svm.jsonl").write_bytes((folder / "m3svm.jsonl").read_bytes())
    table = chosen[0].tables[0]
    finer = dataclasses.replace(table, cases=tuple(dataclasses.replace(case, tol=1e-3) for case in table.cases))
    store = records.Store(dataclasses.replace(chosen[0], tables=(finer,)), tmp_path)
    machines = {record["machine"] for record in store.of(finer, "iris")}
    assert "OvR" in machines and "M3SVM" not in machines  # the tolerance is a setting of our machines only


def test_budgets_stop_at_complete_splits(tmp_path):
    paper = small("m3svm", ("table-1",))
    case = plan.Case("iris", budget=10.0)
    table = dataclasses.replace(paper.tables[0], cases=(case,), splits=10)
    store = records.Store(dataclasses.replace(paper, tables=(table,)), tmp_path)
    job = harness.Job(store, table, case)
    names = [one.name for one in table.candidates(case)]
    seconds = dict.fromkeys(names, 0.4) | {names[0]: 5.0}  # the first is too slow for a second split
    while unit := job.next_unit():
        settings = plan.settings_of(table, case, unit.machine)
        fields = {"seconds": seconds[unit.machine.name], "settings": settings, "scores": {"accuracy": 1.0}}
        store.append({"table": table.key, "data": "iris", "split": unit.split, "machine": unit.machine.name, **fields})
    found = job.records
    assert [r["machine"] for r in found if r["split"] == 1] == names[1:]
    rest = 0.4 * len(names[1:])
    last = max(r["split"] for r in found)
    assert last == int((10.0 - 5.0) / rest) - 1 and len(found) == len(names) + last * len(names[1:])


def test_a_machine_that_fails_says_why(tmp_path):
    paper = small("one_vs_none", ("table-3",))
    table = paper.tables[0]
    broken = dataclasses.replace(table, machines=lambda case: [plan.Candidate("broken", _Broken(), {})])
    chosen = [dataclasses.replace(paper, tables=(broken,))]
    assert harness.run(chosen, directory=tmp_path, echo=lambda line: None) == 1
    (record,) = records.read(tmp_path / "one_vs_none.jsonl")
    assert record["error"] == "nothing fits" and "scores" not in record


def test_data_that_is_not_to_be_had_is_left_out(tmp_path):
    paper = small("m3svm", ("table-1",))
    table = dataclasses.replace(paper.tables[0], cases=(plan.Case("no such data", 10.0),))
    said = []
    assert harness.run([dataclasses.replace(paper, tables=(table,))], directory=tmp_path, echo=said.append) == 0
    assert len(said) == 1 and "left out" in said[0]


def test_pages_are_a_function_of_the_records(runs):
    folder, chosen, _, _ = runs
    pages = all_pages(chosen[:2], folder)
    assert set(pages) == {"m3svm.md", "lp_norm.md", "README.md"}
    assert pages == all_pages(chosen[:2], folder)
    assert "| iris | 2 |" in pages["m3svm.md"]


def test_figures_are_measured_once_and_made_of_their_records(tmp_path):
    pytest.importorskip("matplotlib")
    wanted = ("m3svm-2", "m3svm-6", "mcodm-2", "one_vs_none-1", "one_vs_none-2", "one_vs_none-3", "angular-5")
    chosen = []
    for paper in (papers.quick(papers.PAPERS[key]) for key in ("m3svm", "mcodm", "one_vs_none", "angular")):
        kept = tuple(figure for figure in paper.figures if figure.key in wanted)
        chosen.append(dataclasses.replace(paper, figures=kept))
    said = []
    parts = sum(len(figure.parts) for paper in chosen for figure in paper.figures)
    assert figures.run_figures(chosen, tmp_path, said.append) == len(said) == parts
    assert figures.run_figures(chosen, tmp_path, said.append) == 0  # all is there
    drawn = figures.draw_figures(chosen, tmp_path, tmp_path / "images")
    assert {path.stem for path in drawn} == set(wanted)
    for paper in chosen:
        text = "\n".join(figures.section(paper, tmp_path))
        assert all(f"images/papers/{figure.key}.png" in text and figure.title in text for figure in paper.figures)
        assert text.count("\n- The paper's figure") == text.count("\n- Ours") == len(paper.figures)


def test_figures_with_other_settings_are_measured_again(tmp_path):
    paper = papers.PAPERS["one_vs_none"]
    (figure,) = (one for one in paper.figures if one.key == "one_vs_none-2")
    assert figures.run_figures([dataclasses.replace(paper, figures=(figure,))], tmp_path, lambda line: None) == 1
    other = dataclasses.replace(figure, settings="C = 1.")
    assert not figures.found_of(paper, other, tmp_path) and figures.found_of(paper, figure, tmp_path)


def test_figures_without_their_data_are_left_out(tmp_path):
    paper = papers.PAPERS["m3svm"]
    figure = dataclasses.replace(paper.figures[0], parts=("no such data",))
    said = []
    assert figures.run_figures([dataclasses.replace(paper, figures=(figure,))], tmp_path, said.append) == 0
    assert "left out" in said[0]


def test_two_splits_are_not_tested(runs):
    folder, chosen, _, _ = runs
    results = Results(chosen[0], folder)
    table = results.table("equal")
    assert len(results.splits(table, table.cases[0])) == 2
    few = results.tally(table, "M3SVM", "OvR")
    assert few == (0, 0, 0, 1) and few.tested == 0 and str(few) == "1 too few splits"
    assert str(reading.Tally(1, 2, 0)) == "1/2/0" and str(reading.Tally(1, 2, 0, 3)) == "1/2/0, 3 too few splits"


def test_networks_of_one_seed_start_alike_and_differ_by_their_loss():
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = (rng.random((60, 64)) * 0.2 + np.eye(3).repeat(22, axis=1)[y][:, :64]).astype(np.float32)
    part = (X, y)

    def trained(loss, lam):
        found = networks.train(networks.Trial("usps", 0, loss, lam), part, part, part)
        return {name: found[name] for name in ("training", "test", "margin")}

    plain = trained("softmax", 0.0)
    assert plain["training"] == plain["test"] == 1.0
    assert trained("ISM3", 0.0) == plain == trained("softmax", 0.0)
    assert min(trained(loss, 1.0)["margin"] for loss in networks.LOSSES) > 1.2 * plain["margin"]


def test_the_page_of_the_networks_has_complete_seeds_only(tmp_path):
    assert networks.page(tmp_path) == ""
    trials = [trial for trial in networks.trials() if trial.data == "usps" and trial.seed < 2]
    lines = []
    for k, trial in enumerate(trials[:-1]):
        values = {"training": 1.0, "choosing": 0.9 + 1e-4 * k, "test": 0.9 + 1e-4 * k, "margin": 1.0, "seconds": 1.0}
        lines.append(json.dumps({**trial._asdict(), "settings": networks.SETTINGS, **values}))
    (tmp_path / networks.FILE).write_text("\n".join(lines) + "\n", "utf-8")
    page = networks.page(tmp_path)
    assert "1 seed." in page and "too few seeds" in page
    assert "| ISM3, tuned | 90.1 |" in page and "| ISM3, pairwise logistic, tuned | **90.2** |" in page
    assert "## usps" in page and "## mnist" not in page


def test_critical_difference():
    """Demšar (2006), section 3.2.2: four machines on 14 data sets, 2.569 sqrt(4 * 5 / (6 * 14)) = 1.25."""
    scores = np.random.default_rng(0).normal(size=(14, 4))
    found = ranks.average_ranks(("a", "b", "c", "d"), scores)
    assert found.critical == pytest.approx(1.25, abs=0.005)
    assert sum(found.average) == pytest.approx(10.0)
    apart = dataclasses.replace(found, average=(1.0, 2.0, 3.0, 4.0))
    assert apart.groups == [(0, 1), (1, 2), (2, 3)]
    assert ranks.picture(apart).count("<text") == 4 + 4 + 1


class TestCommitted:
    """What is in the repository."""

    def test_pages_are_those_of_the_records(self):
        for name, content in all_pages(list(papers.PAPERS.values())).items():
            assert (PAGES / name).read_text("utf-8") == content, f"{name}: run python -m benchmarks papers pages"

    def test_readme_has_the_lines_of_the_records(self):
        text = (ROOT / "README.md").read_text("utf-8")
        shown = text.partition(summary.BEGIN)[2].partition(summary.END)[0].strip()
        results = {key: Results(paper) for key, paper in papers.PAPERS.items()}
        assert shown == summary.readme_lines(results)

    def test_what_is_worse_than_printed_is_explained(self):
        for paper in papers.PAPERS.values():
            for one in Results(paper).shortfalls():
                said = paper.tried.get((one.table.key, one.data)) or paper.tried.get((one.table.key, ""))
                marked = said and said.split(".")[0].split(":")[0].split(" ")[0] in ("Proven", "Likely", "Open")
                assert marked, f"{paper.key} {one.table.key} {one.data}: worse than printed, and nothing is said about it"

    def test_reasons_are_marked(self):
        for paper in papers.PAPERS.values():
            for reason in paper.reasons(Results(paper)):
                assert reason.mark in ("Proven", "Likely", "Open") and reason.text.endswith(".")

    def test_pages_count_choices_on_an_edge(self):
        for paper in papers.PAPERS.values():
            results = Results(paper)
            page = (PAGES / f"{paper.key}.md").read_text("utf-8")
            for table in paper.tables:
                found = results.edges(table)
                if found.searches:
                    numbers = f"{found.lowest} | {found.highest} | {found.searches} | **{100 * found.share:.0f} %**"
                    (line,) = (one for one in page.splitlines() if one.startswith(f"| {table.title} | **all** |"))
                    assert line.endswith(f"| {numbers} |")

    def test_less_than_a_tenth_is_on_an_edge(self):
        for paper in papers.PAPERS.values():
            results = Results(paper)
            for table in paper.tables:
                found = results.edges(table)
                assert found.share < 0.1, f"{paper.key} {table.key}: {found}"
        found = networks.found_in()
        chosen = [
            networks._chosen(found, d, s, loss)
            for d in networks.SETS
            for s in range(networks.SEEDS)
            for loss in networks.LOSSES
        ]
        assert sum(one["lam"] == networks.LOSSES[one["loss"]][-1] for one in chosen) < 0.1 * len(chosen)

    def test_the_largest_shortfalls_are_marked_and_sorted(self):
        found = missed.missed([Results(paper) for paper in papers.PAPERS.values()])
        assert [one.short for one in found] == sorted((one.short for one in found), reverse=True)
        assert all(one.mark in ("Proven", "Likely", "Open") for one in found)
        assert len({(one.results.paper.key, one.worst.table.metrics[0], one.data, one.machine) for one in found}) == len(
            found
        )
        assert all(max(one.here.values()) >= one.worst.ours - 1e-9 and one.short > 0 for one in found)

    def test_figures_have_all_their_parts_and_a_small_picture(self, tmp_path):
        for paper in papers.PAPERS.values():
            for figure in paper.figures:
                advice = f"run python -m benchmarks papers figures {paper.key}"
                assert tuple(figures.found_of(paper, figure)) == figure.parts, advice
                assert (figures.IMAGES / f"{figure.key}.png").stat().st_size < 80_000
            lines = records.read(figures.path_of(paper))
            assert len({(r["figure"], r["part"], r["settings"]) for r in lines}) == len(lines)
        known = {figure.key for paper in papers.PAPERS.values() for figure in paper.figures}
        assert {path.stem for path in figures.IMAGES.glob("*.png")} == known

    def test_pictures_are_drawn_from_the_records_alone(self, tmp_path):
        pytest.importorskip("matplotlib")
        drawn = figures.draw_figures(list(papers.PAPERS.values()), target=tmp_path)
        assert len(drawn) == sum(len(paper.figures) for paper in papers.PAPERS.values())

    def test_no_record_is_there_twice(self):
        unit = ("table", "data", "split", "machine", "settings")
        for path in records.DIRECTORY.glob("*.jsonl"):
            lines = records.read(path)
            names = (*networks.Trial._fields, "settings") if path.name == networks.FILE else unit
            assert len({tuple(record[name] for name in names) for record in lines}) == len(lines), path.name


class _Broken:
    """An estimator that cannot be fitted."""

    def get_params(self, deep=True):
        return {}

    def fit(self, X, y):
        raise ValueError("nothing fits")
