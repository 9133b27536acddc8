"""The page, its files and its numbers, against the results that they are of."""

import csv
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import altair as alt
import numpy as np
import pytest

from ovor.config import Run, Vor
from ovor.errors import OvorError
from ovor.experiments.folder import Folder
from ovor.experiments.runner import execute
from ovor.presets import settings
from ovor.report import make, page
from ovor.report.page import drawings
from ovor.report.timing import HEAD, TESTING, TRAINING, seconds_by_phase
from report import synthetic

LOADED = re.compile(
    r"""(?:src|href|action|data|poster|srcset)\s*=\s*["']?\s*(?:https?:)?//|@import|url\(\s*["']?\s*http"""
)


class Page(HTMLParser):
    """Tables as lists of cells with their values, and the JSON in scripts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[tuple[str, dict[str, str | None]]]]] = {}
        self.scripts: dict[str, str] = {}
        self.rows: list[list[tuple[str, dict[str, str | None]]]] = []
        self.open: str | None = None
        self.tags: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append(tag)
        if tag == "table":
            self.rows = self.tables.setdefault(str(found["data-table"]), [])
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append(("", found))
        self.open = tag
        if tag == "script" and found.get("id"):
            self.scripts[str(found["id"])] = ""

    def handle_endtag(self, tag: str) -> None:
        self.open = None

    def handle_data(self, data: str) -> None:
        if self.open in ("td", "th"):
            text, found = self.rows[-1][-1]
            self.rows[-1][-1] = (text + data, found)
        elif self.open == "script" and self.scripts:
            name = list(self.scripts)[-1]
            self.scripts[name] += data
            if len(self.scripts) == 2:
                self.open = None


@pytest.fixture(scope="module")
def report(finished: Path) -> make.Report:
    return make.of_folders([finished])


@pytest.fixture(scope="module")
def html(report: make.Report) -> str:
    return page.html(report.contents, report.title, report.notes)


def results(root: Path, name: str) -> list[dict[str, Any]]:
    return [Folder(root / f"{name}-{seed}").result() for seed in (0, 1)]


NAMES = {"oneprompt": "plain", "oneprompt+vor": "vor", "simplecil": "simplecil"}


def test_numbers_of_the_table_are_those_of_the_results(html: str, finished: Path) -> None:
    rows = Page(html).tables["accuracy"][1:]
    assert [row[0][0] for row in rows] == list(NAMES)
    for row in rows:
        runs = results(finished, NAMES[row[0][0]])
        for cell, metric in ((row[2], "A_T"), (row[3], "F_T")):
            values = [run["metrics"][metric] for run in runs]
            assert float(cell[1]["data-value"] or "") == pytest.approx(np.mean(values), abs=1e-12)
            assert float(cell[1]["data-std"] or "") == pytest.approx(np.std(values), abs=1e-12)
            assert cell[0] == f"{np.mean(values):.2f} ± {np.std(values):.2f}"
        assert float(row[-2][1]["data-value"] or "") == runs[0]["learnable_parameters"]
        seconds = np.mean([run["seconds"] for run in runs])
        assert float(row[-1][1]["data-value"] or "") == pytest.approx(seconds)


def test_the_results_inside_are_those_of_the_folders(html: str, finished: Path) -> None:
    (group,) = json.loads(Page(html).scripts["results"])["groups"]
    for row in group["rows"]:
        runs = results(finished, NAMES[row["method"]])
        assert row["A_T"] == [run["metrics"]["A_T"] for run in runs]
        assert row["F_T"] == [run["metrics"]["F_T"] for run in runs]
        assert row["seeds"] == [0, 1]


def test_vor_is_compared_with_the_same_without_it(report: make.Report, finished: Path) -> None:
    first = report.contents[0].differences[0]
    assert (first["method"], first["against"]) == ("oneprompt+vor", "oneprompt")
    gains = [
        tight["metrics"]["A_T"] - loose["metrics"]["A_T"]
        for tight, loose in zip(results(finished, "vor"), results(finished, "plain"), strict=True)
    ]
    assert first["A_T"]["mean"] == pytest.approx(np.mean(gains))
    assert first["A_T"]["seeds"] == 2
    pairs = [(one["method"], one["against"]) for one in report.contents[0].differences]
    assert pairs == [("oneprompt+vor", "oneprompt"), ("simplecil", "oneprompt")]


def test_another_row_may_be_the_reference(finished: Path) -> None:
    found = make.of_folders([finished], "simplecil").contents[0].differences
    assert [(one["method"], one["against"]) for one in found] == [
        ("oneprompt+vor", "oneprompt"),
        ("oneprompt", "simplecil"),
        ("oneprompt+vor", "simplecil"),
    ]
    with pytest.raises(OvorError, match="no row 'nobody' to compare with"):
        make.of_folders([finished], "nobody")


def test_errors_add_up(report: make.Report) -> None:
    for row in report.contents[0].rows:
        assert row["errors"] == pytest.approx(row["errors_between"] + row["errors_within"])
    charts = {chart.name: chart for chart in report.contents[0].charts}
    confusion = charts["confusion"].records
    for method in NAMES:
        for task in (1, 2, 3):
            row = [
                one["percent"]
                for one in confusion
                if (one["method"], one["true task"]) == (method, task)
            ]
            assert sum(row) == pytest.approx(100, abs=0.05)


def test_every_section_is_there(report: make.Report, html: str) -> None:
    names = [chart.name for chart in report.contents[0].charts]
    assert names == [
        "differences",
        "curves",
        "matrix",
        "confusion",
        "errors",
        "energies",
        "plane",
        "changes",
        "cost",
        "work",
        "time",
    ]
    for words in ("What was run", "population standard deviation", "--keep tasks", "first seed"):
        assert words in html
    assert html.count("<figure ") == html.count('role="img" aria-label=') == len(names)
    assert html.count("<caption>") == html.count("<table ")


def test_curves_are_means_over_tasks_so_far(report: make.Report, finished: Path) -> None:
    (curves,) = [chart for chart in report.contents[0].charts if chart.name == "curves"]
    runs = results(finished, "vor")
    for one in curves.records:
        if one["method"] == "oneprompt+vor":
            values = [np.mean(run["accuracy"][one["task"] - 1][: one["task"]]) for run in runs]
            assert one["accuracy"] == pytest.approx(np.mean(values), abs=1e-3)
            assert one["low"] == pytest.approx(min(values), abs=1e-3)
            assert one["high"] == pytest.approx(max(values), abs=1e-3)


def test_nothing_is_loaded(html: str) -> None:
    assert not LOADED.search(html)
    assert "default-src 'none'" in html
    assert "unsafe-eval" not in html
    assert not {"link", "img", "iframe", "object", "embed", "base"} & set(Page(html).tags)


def test_csv_files_are_the_data(report: make.Report, tmp_path: Path) -> None:
    page.write_csv(report.contents, tmp_path)
    for chart in report.contents[0].charts:
        with (tmp_path / f"{chart.name}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        told = [{k: "" if v is None else str(v) for k, v in one.items()} for one in chart.records]
        assert [{k: row[k] for k in one} for row, one in zip(rows, told, strict=True)] == told


def test_svg_files_are_whole(report: make.Report, tmp_path: Path) -> None:
    page.write_svg(report.contents, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"curves.svg", "matrix-oneprompt.svg", "energies-oneprompt+vor.svg"} <= names
    for path in tmp_path.iterdir():
        text = path.read_text()
        assert ElementTree.fromstring(text).tag.endswith("svg")
        assert "var(--" not in text
        assert "@" not in re.sub(r"<style.*?</style>", "", text, flags=re.S)


def test_charts_are_vega_lite(report: make.Report) -> None:
    for chart in report.contents[0].charts:
        for _, spec in drawings(chart, report.contents[0]):
            alt.Chart.from_dict(spec)  # checks it


def test_the_paper_stands_beside_with_its_setting(tmp_path: Path) -> None:
    synthetic.write(tmp_path / "a", settings("quickdraw", "oneprompt"))
    synthetic.write(tmp_path / "b", settings("imagenet-r", "oneprompt"))
    report = make.of_folders([tmp_path])
    assert [group.title for group in report.contents] == [
        "quickdraw, 10 tasks",
        "imagenet-r, 10 tasks",
    ]
    told = [" ".join(group.sections[0].words) for group in report.contents]
    assert "those shown are of imagenet-r/10" in told[0]
    assert "those shown are of" not in told[1]
    assert {group.rows[0]["A_T_paper"] for group in report.contents} == {73.34}


def test_every_method_and_five_seeds_fit_in_two_megabytes(tmp_path: Path) -> None:
    runs = synthetic.every_method()
    assert len(runs) >= 26
    for run in runs:
        for seed in range(5):
            synthetic.write(tmp_path / f"{run.name}-{seed}", replace(run, seed=seed))
    report = make.of_folders([tmp_path])
    text = page.html(report.contents, report.title, report.notes)
    assert len(text.encode()) < 2_000_000
    (group,) = report.contents
    assert [row["method"] for row in group.rows] == [run.name for run in runs]
    assert 0 < len(group.picked) <= 8


def test_names_are_only_text(tmp_path: Path) -> None:
    evil = '<script>alert("x")</script><!--'
    run = replace(settings("quickdraw", "oneprompt"), data=f"folder:/x/{evil}")
    synthetic.write(tmp_path / "a", run)
    report = make.of_folders([tmp_path])
    text = page.html(report.contents, report.title, report.notes)
    assert "<script>alert" not in text
    assert "<!--" not in text
    assert json.loads(Page(text).scripts["results"])["groups"][0]["facts"]["data"] == run.data


def test_variants_of_a_method_are_told_apart(tmp_path: Path) -> None:
    run = settings("quickdraw", "ovor")
    assert run.vor is not None
    synthetic.write(tmp_path / "a", run)
    synthetic.write(tmp_path / "b", settings("quickdraw", "ovor", "current-only"))
    synthetic.write(tmp_path / "c", replace(run, vor=replace(run.vor, weight=0.5)))
    report = make.of_folders([tmp_path])
    assert [row["method"] for row in report.contents[0].rows] == [
        "oneprompt+vor",
        "oneprompt+vor: current term only",
        "oneprompt+vor: vor.weight 0.5",
    ]


def test_what_is_there_twice_counts_once(tmp_path: Path) -> None:
    run = settings("quickdraw", "oneprompt")
    for name in ("a", "b"):
        synthetic.write(tmp_path / name, run)
    report = make.of_folders([tmp_path, tmp_path / "a"])
    assert report.contents[0].rows[0]["seeds"] == [0]
    assert report.notes == ["The same run again, with the same seed, and left out: b."]


def test_unfinished_runs_are_left_out_with_a_note(tmp_path: Path) -> None:
    run = settings("quickdraw", "oneprompt")
    synthetic.write(tmp_path / "done", run)
    Folder(tmp_path / "begun").start(replace(run, seed=1))
    report = make.of_folders([tmp_path])
    assert report.notes == ["Not finished yet, and left out: begun."]
    assert report.contents[0].rows[0]["seeds"] == [0]


def test_without_weights_the_rest_is_shown(tmp_path: Path) -> None:
    synthetic.write(tmp_path / "a", settings("quickdraw", "oneprompt"), closeup=False)
    report = make.of_folders([tmp_path / "a"])
    assert "Without confusion, energies and plane: a." in report.notes[0]
    names = [chart.name for chart in report.contents[0].charts]
    assert names == ["curves", "matrix", "changes", "time"]
    page.html(report.contents, report.title, report.notes)


def test_drift_is_shown_where_it_was_measured(tmp_path: Path) -> None:
    synthetic.write(tmp_path / "a", settings("quickdraw", "oneprompt"))
    measures = ("prompt", "prompt_centered", "cosine", "cka_linear", "cka_kernel")
    drift = {name: [90.0 + i for i in range(9)] for name in measures}
    (tmp_path / "a/drift.json").write_text(json.dumps(drift))
    (group,) = make.of_folders([tmp_path]).contents
    (chart,) = [chart for chart in group.charts if chart.name == "drift"]
    told = [one["percent"] for one in chart.records if one["measure"] == "features (cosine)"]
    assert told == drift["cosine"]


def timed(path: Path, events: list[dict[str, Any]], run: Run) -> dict[str, float] | None:
    path.mkdir(exist_ok=True)
    lines = [json.dumps(event) for event in events]
    (path / "events.jsonl").write_text("\n".join(lines) + '\n{"event": "ep')  # was killed here
    return seconds_by_phase(Folder(path), run)


def test_time_by_phase_also_of_a_stopped_run(tmp_path: Path) -> None:
    run = Run(epochs=3, vor=Vor(epochs=1))
    events: list[dict[str, Any]] = [
        {"event": "begin", "epochs": [3, 3]},
        {"event": "epoch", "task": 0, "epoch": 0, "seconds": 10},
        {"event": "epoch", "task": 0, "epoch": 1, "seconds": 20},
        {"event": "begin", "epochs": [3, 3]},
        {"event": "epoch", "task": 0, "epoch": 1, "seconds": 21},  # done again
        {"event": "epoch", "task": 0, "epoch": 2, "seconds": 24},
        {"event": "task", "task": 0, "seconds": 29},
        {"event": "epoch", "task": 1, "epoch": 2, "seconds": 31},  # the rest is from the stem
        {"event": "task", "task": 1, "seconds": 32},
    ]
    assert timed(tmp_path, events, run) == {TRAINING: 21, HEAD: 5, TESTING: 6}
    assert timed(tmp_path, events[:1], run) is None
    assert seconds_by_phase(Folder(tmp_path / "nothing"), run) is None


def test_a_similarity_that_is_no_number_is_left_out(tiny_run: Run, tmp_path: Path) -> None:
    """CKA of one image has none; a page with NaN in it would show no chart."""
    folder = Folder(tmp_path / "run")
    execute(replace(tiny_run, keep="tasks"), folder)
    drift = make.measure_drift(folder)
    folder.drift_file.write_text(json.dumps({**drift, "cka_linear": [float("nan")] * 2}))
    contents = make.of_folders([folder.path]).contents
    found = json.loads(page.as_json(contents, []), parse_constant=pytest.fail)
    assert {row["percent"] for row in found["groups"][0]["charts"]["drift"]} >= {None}


def test_a_run_that_is_done_anew_is_looked_at_anew(tiny_run: Run, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "run")
    execute(tiny_run, folder)
    make.of_folders([folder.path])
    assert folder.closeup_file.exists()
    folder.result_file.unlink()
    execute(tiny_run, folder)
    assert not folder.closeup_file.exists()
