"""The papers' tables: records, resuming, and pages that are nothing but a function of the records."""

import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
papers = pytest.importorskip("benchmarks.papers", reason="the benchmarks are not part of an installed package")
from benchmarks.papers import harness, plan, ranks, records, summary  # noqa: E402
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
    chosen = [small("m3svm", ("table-1", "released")), small("lp_norm", ("table-2",)), small("one_vs_none", ("table-3",))]
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
        assert set(record["params"]) <= {"C", "p"} and 0.8 < record["scores"]["accuracy"] <= 1.0


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
                assert said, f"{paper.key} {one.table.key} {one.data}: worse than printed, and nothing is said about it"

    def test_no_record_is_there_twice(self):
        for path in records.DIRECTORY.glob("*.jsonl"):
            lines = records.read(path)
            keys = {(r["table"], r["data"], r["split"], r["machine"], r["settings"]) for r in lines}
            assert len(keys) == len(lines), path.name


class _Broken:
    """An estimator that cannot be fitted."""

    def get_params(self, deep=True):
        return {}

    def fit(self, X, y):
        raise ValueError("nothing fits")


