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
from ovor.experiments.drift import MEASURES
from ovor.experiments.folder import Folder
from ovor.experiments.runner import execute
from ovor.learners import in_full
from ovor.presets import in_scenario, settings
from ovor.report import chart_files, make, page
from ovor.report.timing import HEAD, TESTING, TRAINING, seconds_by_phase
from ovor.report.vega import Chart
from report import synthetic
from tiny import NARROW

LOADED = re.compile(
    r"""(?:src|href|action|data|poster|srcset)\s*=\s*["']?\s*(?:https?:)?//|@import|url\(\s*["']?\s*http"""
)


class Page(HTMLParser):
    """Read a page: its tags, its tables as cells with their values, and the JSON in its scripts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[tuple[str, dict[str, str | None]]]]] = {}
        self.scripts: dict[str, str] = {}
        self.tags: list[str] = []
        self.images: list[str] = []
        self.open, self.id = "", ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open, self.id = tag, dict(attrs).get("id") or ""
        if tag == "table":
            self.rows = self.tables.setdefault(str(dict(attrs)["data-table"]), [])
        elif tag == "img":
            self.images.append(dict(attrs).get("src") or "")
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append(("", dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.open = ""

    def handle_data(self, data: str) -> None:
        if self.open in ("td", "th"):
            text, found = self.rows[-1][-1]
            self.rows[-1][-1] = (text + data, found)
        elif self.open == "script" and self.id:
            self.scripts[self.id] = self.scripts.get(self.id, "") + data


@pytest.fixture(scope="module")
def html(report: make.Report) -> str:
    return page_of(report)


def page_of(report: make.Report) -> str:
    return report.html()


def report_on(root: Path, *runs: Run, closeup: bool = True) -> make.Report:
    """Report on runs that were never trained, in folders a, b, c."""
    for name, run in zip("abc", runs, strict=False):
        synthetic.write(root / name, run, closeup)
    return make.of_folders([root])


def charts_of(report: make.Report) -> dict[str, Chart]:
    return {chart.name: chart for chart in report.contents[0].charts}


def pairs_of(report: make.Report) -> list[tuple[str, str]]:
    return [(one["method"], one["against"]) for one in report.contents[0].differences]


def results(root: Path, method: str) -> list[dict[str, Any]]:
    return [Folder(root / f"{method}-{seed}").result() for seed in (0, 1)]


METHODS = ["oneprompt", "oneprompt+vor", "simplecil"]


def test_numbers_of_the_table_are_those_of_the_results(html: str, finished: Path) -> None:
    """What the cells show, and the JSON inside."""
    read = Page(html)
    rows, (group,) = read.tables["accuracy"][1:], json.loads(read.scripts["results"])["groups"]
    assert [row[0][0] for row in rows] == METHODS
    for row, inside in zip(rows, group["rows"], strict=True):
        runs = results(finished, row[0][0])
        assert (inside["method"], inside["seeds"]) == (row[0][0], [0, 1])
        for cell, metric in ((row[2], "A_T"), (row[3], "F_T")):
            values = [run["metrics"][metric] for run in runs]
            assert inside[metric] == values
            assert float(cell[1]["data-value"] or "") == pytest.approx(np.mean(values), abs=1e-12)
            assert float(cell[1]["data-std"] or "") == pytest.approx(np.std(values), abs=1e-12)
            assert cell[0] == f"{np.mean(values):.2f} ± {np.std(values):.2f}"
        assert float(row[-2][1]["data-value"] or "") == runs[0]["learnable_parameters"]
        seconds = np.mean([run["seconds"] for run in runs])
        assert float(row[-1][1]["data-value"] or "") == pytest.approx(seconds)


def test_vor_is_compared_with_the_same_without_it(report: make.Report, finished: Path) -> None:
    assert pairs_of(report) == [("oneprompt+vor", "oneprompt"), ("simplecil", "oneprompt")]
    without, with_vor = (
        [run["metrics"]["A_T"] for run in results(finished, name)] for name in METHODS[:2]
    )
    first = report.contents[0].differences[0]["A_T"]
    assert first["mean"] == pytest.approx(np.mean(with_vor) - np.mean(without))
    assert first["seeds"] == 2


def test_another_row_may_be_the_reference(finished: Path) -> None:
    assert pairs_of(make.of_folders([finished], "simplecil")) == [
        ("oneprompt+vor", "oneprompt"),
        ("oneprompt", "simplecil"),
        ("oneprompt+vor", "simplecil"),
    ]
    with pytest.raises(OvorError, match="no row 'nobody' to compare with"):
        make.of_folders([finished], "nobody")


def test_errors_add_up(report: make.Report) -> None:
    for row in report.contents[0].rows:
        assert row["errors"] == pytest.approx(row["errors_between"] + row["errors_within"])
    shares: dict[tuple[str, int], float] = {}
    for one in charts_of(report)["confusion"].records:
        place = one["method"], one["true task"]
        shares[place] = shares.get(place, 0) + one["percent"]
    assert list(shares) == [(method, task) for method in METHODS for task in (1, 2, 3)]
    assert list(shares.values()) == pytest.approx([100] * 9, abs=0.05)


def test_every_section_is_there(report: make.Report, html: str) -> None:
    names = list(charts_of(report))
    all_names = "differences curves matrix confusion errors energies plane changes cost work time"
    assert " ".join(names) == all_names
    for words in ("What was run", "population standard deviation", "--keep tasks", "first seed"):
        assert words in html
    assert html.count("<figure ") == html.count('role="img" aria-label=') == len(names)
    assert html.count("<caption>") == html.count("<table ")


def test_curves_are_means_over_tasks_so_far(report: make.Report, finished: Path) -> None:
    runs = results(finished, "oneprompt+vor")
    for one in charts_of(report)["curves"].records:
        if one["method"] == "oneprompt+vor":
            values = [np.mean(run["accuracy"][one["task"] - 1][: one["task"]]) for run in runs]
            assert one["accuracy"] == pytest.approx(np.mean(values), abs=1e-3)
            assert one["low"] == pytest.approx(min(values), abs=1e-3)
            assert one["high"] == pytest.approx(max(values), abs=1e-3)


def test_nothing_is_loaded(html: str) -> None:
    assert not LOADED.search(html)
    assert "default-src 'none'" in html
    assert "unsafe-eval" not in html
    assert not {"link", "iframe", "object", "embed", "base"} & set(Page(html).tags)
    assert Page(html).images
    assert all(source.startswith("data:image/") for source in Page(html).images)


def test_csv_files_are_the_data(report: make.Report, tmp_path: Path) -> None:
    chart_files.write_csv(report.contents, tmp_path)
    for chart in charts_of(report).values():
        with (tmp_path / f"{chart.name}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        told = [{k: "" if v is None else str(v) for k, v in one.items()} for one in chart.records]
        assert [{k: row[k] for k in one} for row, one in zip(rows, told, strict=True)] == told


def test_svg_files_are_whole(report: make.Report, tmp_path: Path) -> None:
    chart_files.write_svg(report.contents, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"curves.svg", "matrix-oneprompt.svg", "energies-oneprompt+vor.svg"} <= names
    for path in tmp_path.iterdir():
        text = path.read_text()
        assert ElementTree.fromstring(text).tag.endswith("svg")
        assert "var(--" not in text
        assert "@" not in re.sub(r"<style.*?</style>", "", text, flags=re.S)


def test_charts_are_vega_lite(report: make.Report) -> None:
    for chart in charts_of(report).values():
        _, spec = next(chart_files.drawings(chart, report.contents[0]))
        alt.Chart.from_dict({**spec, "data": {"values": []}})  # checks it


def test_the_paper_stands_beside_with_its_setting(tmp_path: Path) -> None:
    runs = [settings(data, "oneprompt") for data in ("quickdraw", "imagenet-r")]
    groups = report_on(tmp_path, *runs).contents
    assert [group.title for group in groups] == ["quickdraw, 10 tasks", "imagenet-r, 10 tasks"]
    told = [" ".join(group.sections[0].words) for group in groups]
    assert "those shown are of imagenet-r/10" in told[0]
    assert "those shown are of" not in told[1]
    assert {group.rows[0]["A_T_paper"] for group in groups} == {73.34}


def test_every_method_and_five_seeds_fit_in_two_megabytes(tmp_path: Path) -> None:
    runs = synthetic.every_method()
    assert len(runs) >= 26
    for run in runs:
        for seed in range(5):
            synthetic.write(tmp_path / f"{run.name}-{seed}", replace(run, seed=seed))
    report = make.of_folders([tmp_path])
    assert len(page_of(report).encode()) < 2_000_000
    (group,) = report.contents
    assert [row["method"] for row in group.rows] == [run.name for run in runs]
    assert 0 < len(group.picked) <= 8


TRAINED = ["apt", "apt+vor", "ssiat", "rsiat", "ease"]
SOLVED = ["klda", "randumb", "fecam", "loranpac", "anacp", "shapes"]


def test_runs_of_the_methods_after_the_paper_are_rows_with_their_figures(
    tiny_run: Run, tmp_path: Path
) -> None:
    """Runs that were carried out, looked at from near."""
    expected = {}
    for name in (*TRAINED, *SOLVED):
        method = name.removesuffix("+vor")
        vor = tiny_run.vor if name.endswith("+vor") else None
        run = replace(tiny_run, method=method, options=NARROW.get(method, {}), vor=vor, epochs=3)
        expected[name] = execute(run, Folder(tmp_path / name), diagnostics=True)
    report = make.of_folders([tmp_path])
    found = {row["method"]: row for row in report.contents[0].rows}
    assert set(found) == set(expected)
    for name, result in expected.items():
        row = found[name]
        assert (row["A_T"], row["F_T"]) == tuple([result["metrics"][k]] for k in ("A_T", "F_T"))
        assert row["errors"] == pytest.approx(row["errors_between"] + row["errors_within"])
    assert ("apt+vor", "apt") in pairs_of(report)
    assert {one["method"] for one in charts_of(report)["curves"].records} == set(expected)


def test_names_are_only_text(tmp_path: Path) -> None:
    evil = '<script>alert("x")</script><!--'
    run = replace(settings("quickdraw", "oneprompt"), data=f"folder:/x/{evil}")
    text = page_of(report_on(tmp_path, run))
    assert "<script>alert" not in text
    assert "<!--" not in text
    assert json.loads(Page(text).scripts["results"])["groups"][0]["facts"]["data"] == run.data


def test_variants_of_a_method_are_told_apart(tmp_path: Path) -> None:
    run = settings("quickdraw", "ovor")
    assert run.vor is not None
    other = replace(run, vor=replace(run.vor, weight=0.5))
    report = report_on(tmp_path, run, settings("quickdraw", "ovor", "current-only"), other)
    assert [row["method"] for row in report.contents[0].rows] == [
        "oneprompt+vor",
        "oneprompt+vor: current term only",
        "oneprompt+vor: vor.weight 0.5",
    ]


def test_variants_by_options_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    """Runs know all of their options, and the presets those alone that are not usual."""
    run = in_full(settings("quickdraw", "klda"))
    others = [replace(run, options={**run.options, "gamma": gamma}) for gamma in (1.0, 0.1)]
    report = report_on(tmp_path, run, *others)
    assert [row["method"] for row in report.contents[0].rows] == [
        "klda",
        "klda: options.gamma 1.0",
        "klda: options.gamma 0.1",
    ]


def test_runs_of_other_scenarios_are_not_compared(tmp_path: Path) -> None:
    plain = settings("quickdraw", "simplecil")
    runs = (plain, in_scenario(plain, "repetition", (5, 80)), in_scenario(plain, "stream"))
    report = report_on(tmp_path, *runs)
    assert {part.title: part.facts["data"] for part in report.contents} == {
        "quickdraw, 10 tasks": "quickdraw",
        "quickdraw, 10 tasks, repetition, imbalance 5 to 80": (
            "quickdraw, repetition, imbalance 5 to 80"
        ),
        "quickdraw, 10 tasks, stream": "quickdraw, stream",
    }
    assert [part.rows[0]["A_T_paper"] is None for part in report.contents].count(True) == 2
    assert [part.methods for part in report.contents] == [["simplecil"]] * 3


def test_what_is_there_twice_counts_once(tmp_path: Path) -> None:
    run = settings("quickdraw", "oneprompt")
    report_on(tmp_path, run, run)
    report = make.of_folders([tmp_path, tmp_path / "a"])
    assert report.contents[0].rows[0]["seeds"] == [0]
    assert report.notes == ["The same run again, with the same seed, and left out: b."]


def test_unfinished_runs_are_left_out_with_a_note(tmp_path: Path) -> None:
    run = settings("quickdraw", "oneprompt")
    Folder(tmp_path / "begun").start(replace(run, seed=1))
    report = report_on(tmp_path, run)
    assert report.notes == ["Not finished yet, and left out: begun."]
    assert report.contents[0].rows[0]["seeds"] == [0]


def test_without_weights_the_rest_is_shown(tmp_path: Path) -> None:
    report = report_on(tmp_path, settings("quickdraw", "oneprompt"), closeup=False)
    assert "Without confusion, energies and plane: a." in report.notes[0]
    assert list(charts_of(report)) == ["curves", "matrix", "changes", "time"]
    assert page_of(report)


def test_drift_is_shown_where_it_was_measured(tmp_path: Path) -> None:
    drift = {name: [90.0 + i for i in range(9)] for name in MEASURES}
    # CKA of one image is no number; a page with NaN in it would show no chart.
    drift["cka_linear"] = [float("nan")] * 9
    synthetic.write(tmp_path / "b", settings("quickdraw", "oneprompt"))
    (tmp_path / "b/drift.json").write_text(json.dumps(drift))
    report = make.of_folders([tmp_path])
    found = json.loads(page.as_json(report.contents, []), parse_constant=pytest.fail)
    shown: dict[str, list[float | None]] = {}
    for one in found["groups"][0]["charts"]["drift"]:
        shown.setdefault(one["measure"], []).append(one["percent"])
    assert shown["features (cosine)"] == drift["cosine"]
    assert shown["features (linear CKA)"] == [None] * 9


def test_what_was_not_measured_yet_is(tiny_run: Run, tmp_path: Path) -> None:
    """Diagnostics and drift, by the report; a run that is done anew is measured anew."""
    folder, run = Folder(tmp_path / "run"), replace(tiny_run, keep="tasks")
    execute(run, folder)
    assert "drift" in charts_of(make.of_folders([folder.path]))
    assert folder.closeup_file.exists()
    assert folder.drift_file.exists()
    folder.result_file.unlink()
    execute(run, folder)
    assert not folder.closeup_file.exists()
    assert not folder.drift_file.exists()


def timed(path: Path, events: list[dict[str, Any]], run: Run) -> dict[str, float] | None:
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
