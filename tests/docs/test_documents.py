"""What the documents show is what is there: the example prompt, the table, the chosen settings."""

import json
import re
import runpy
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from rich.console import Console

from benchmarks.__main__ import BY_NAME, PARTS
from ovor.analysis import confusion
from ovor.analysis.toy import Toy
from ovor.config import RUN, Run
from ovor.encoders import load_backbone
from ovor.experiments.folder import Folder
from ovor.experiments.runner import execute
from ovor.presets import settings

ROOT = Path(__file__).parents[2]
TABLES = runpy.run_path(str(ROOT / "docs/tables.py"))
MEASURED: dict[str, str] = TABLES["MEASURED"]
SCRIPTED: dict[str, tuple[str, str]] = TABLES["scripted"]()
EXAMPLE = ROOT / "tests/contracts/example_prompt.py"


def test_contributing_shows_the_example_prompt_as_it_is_tested() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    shown = re.search(r"<!-- example.*?```python\n(.*?)```\n<!-- /example -->", text, re.DOTALL)
    assert shown is not None
    assert shown[1] == EXAMPLE.read_text()
    assert len(shown[1].splitlines()) < 80


def test_following_contributing_adds_a_method(tiny_run: Run, tmp_path: Path) -> None:
    """One file and one line in the dict, in a copy of the package; then the command runs it."""
    shutil.copytree(ROOT / "src/ovor", tmp_path / "ovor")
    shutil.copy(EXAMPLE, tmp_path / "ovor/prompts/taskmean.py")
    line = re.search(r'^    "task-mean": TaskMean,$', (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    assert line is not None
    registry = tmp_path / "ovor/prompts/__init__.py"
    text = registry.read_text().replace("\nPROMPTS", "from .taskmean import TaskMean\n\nPROMPTS")
    registry.write_text(text.replace('    "l2p"', f'{line[0]}\n    "l2p"'))
    (tmp_path / "run.json").write_bytes(RUN.dump_json(tiny_run))
    plain = json.loads((tmp_path / "run.json").read_text()) | {"method": "task-mean"}
    (tmp_path / "run.json").write_text(json.dumps(plain))
    command = [sys.executable, "-m", "ovor", "run", "--from", "run.json", "--json"]
    done = subprocess.run(
        [*command, "--method.length", "3"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["method"] == "task-mean+vor"
    heads = 6 * 64 + 6
    assert result["learnable_parameters"] == 3 * 5 * 2 * 3 * 64 + heads  # tasks, layers, k and v


TUNING = json.loads((ROOT / "embedded/tuning.json").read_text())


def test_the_presets_of_the_drawings_are_what_tuning_chose() -> None:
    run = settings("quickdraw", "ovor")
    assert run.vor is not None
    found = {
        "lr": run.lr,
        "scale": run.transform.scale[0],
        "tau_current": run.vor.tau_current,
        "tau_outlier": run.vor.tau_outlier,
        "weight": run.vor.weight,
        "sigma": run.vor.npos.sigma,
    }
    assert found == TUNING["chosen"]


def test_the_presets_of_other_methods_are_what_tuning_chose() -> None:
    own = TUNING["own"]
    assert set(own) >= {"adam-adapter", "ranpac", "slca", "l2", "a-prompt", "linear", "joint"}
    for method, chosen in own.items():
        run = settings("quickdraw", method)
        found = {
            name: run.options[name.removeprefix("options.")] if "." in name else getattr(run, name)
            for name in chosen
        }
        assert found == chosen, method
    few = [f"adam-{name}" for name in ("vpt-shallow", "vpt-deep", "ssf")]
    assert {settings("quickdraw", name).lr for name in few} == {own["adam-adapter"]["lr"]}


def test_what_was_tried_after_the_choice_is_no_better_than_it() -> None:
    """By more than two drawings of the 1,800 that two seeds ask."""
    for method in {one["methods"][0] for one in TUNING["later"]}:
        best, later = (
            max(one["A_T"] for one in TUNING[part] if one["methods"] == [method])
            for part in ("measured", "later")
        )
        assert later <= best + 100 * 2 / 1800


def measured(name: str) -> dict[str, Any]:
    return json.loads((ROOT / f"docs/results/{name}-quickdraw.json").read_text())  # type: ignore[no-any-return]


@pytest.mark.parametrize(("name", "document"), MEASURED.items())
def test_the_tables_in_the_documents_are_the_measured_ones(name: str, document: str) -> None:
    found = measured(name)
    labels = [[row.label for row in part.rows] for part in TABLES["shown"](name)]
    assert [[row["label"] for row in part["rows"]] for part in found["sections"]] == labels
    assert TABLES["block"](name, found) in (ROOT / "docs" / document).read_text()
    rows = [row for part in found["sections"] for row in part["rows"]]
    assert {row["backbone"] for row in rows if row["seeds"]} == {load_backbone("embedded").sha256}


def test_the_performance_in_the_documents_is_the_measured_one() -> None:
    found = json.loads((ROOT / "docs/results/performance.json").read_text())
    assert not found["quick"]
    assert set(found["parts"]) == {*PARTS, *BY_NAME}
    shown = {
        "performance": "performance",
        "data": "data",
        "scaling": "scaling",
        "ranks": "scaling",
        "device": "browser-solving",
        "texts": "text",
    }
    for name, document in shown.items():
        assert TABLES["benchmarked"](name) in (ROOT / f"docs/{document}.md").read_text()
    assert TABLES["planned"]() in (ROOT / "docs/scaling.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("label", ["oneprompt", "oneprompt+vor"])
def test_a_run_of_the_table_can_be_repeated(label: str, tmp_path: Path) -> None:
    """On the machine of the table the numbers are equal; another may round a few images away."""
    (part,) = measured("core")["sections"]
    (entry,) = (row for row in part["rows"] if row["label"] == label)
    run = replace(settings("quickdraw", label), threads=1)
    result = execute(run, Folder(tmp_path / "again"))
    assert result["metrics"]["A_T"] == pytest.approx(entry["A_T"][0], abs=1.0)
    assert result["metrics"]["F_T"] == pytest.approx(entry["F_T"][0], abs=1.0)


@pytest.mark.parametrize("path", [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")], ids=str)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_the_numbers_beside_the_figure_are_the_measured_ones() -> None:
    found = json.loads((ROOT / "docs/results/boundaries.json").read_text())
    console = Console(width=100)
    with console.capture() as capture:
        console.print(confusion.as_tables(found), highlight=False)
    printed = "\n".join(line.rstrip() for line in capture.get().splitlines())
    assert printed in (ROOT / "docs/boundaries.md").read_text()
    assert [one["seed"] for one in found["seeds"]] == list(range(20))
    # Made with the settings of today; a field that it has not is the default.
    assert TypeAdapter(Toy).validate_python(found["toy"]) == Toy()
    assert (ROOT / "docs/figures/boundaries.png").stat().st_size < 300_000


def test_the_controls_of_the_figure_are_the_measured_ones() -> None:
    controls = runpy.run_path(str(ROOT / "docs/controls.py"))
    found = json.loads((ROOT / "docs/results/boundaries-controls.json").read_text())
    assert list(found) == list(controls["VARIANTS"])
    assert controls["table"](found) in (ROOT / "docs/boundaries.md").read_text()


@pytest.mark.parametrize("name", SCRIPTED)
def test_the_tables_of_scripts_are_of_their_results(name: str) -> None:
    document, shown = SCRIPTED[name]
    assert shown in (ROOT / "docs" / document).read_text()


def test_what_scripts_measured_is_of_five_seeds_at_least_and_photographs_of_three() -> None:
    runs = json.loads((ROOT / "docs/results/unknowns.json").read_text())
    methods = {run["method"] for run in runs}
    assert {"analytic", "oneprompt+vor"} <= methods
    for method in methods:
        seeds = sorted(run["seed"] for run in runs if run["method"] == method)
        assert seeds == list(range(20 if method == "analytic" else 5))
    seen = json.loads((ROOT / "docs/results/photos.json").read_text())
    assert len(seen) == 3 * len({run["backbone"] for run in seen})
    analytic = json.loads((ROOT / "docs/results/analytic.json").read_text())
    for name in ("options", "few", "unequal"):
        assert {row["seed"] for row in analytic[name]} == {0, 1, 2, 3, 4}


def test_the_order_of_lessons_changes_no_sum_and_no_answer() -> None:
    """As measured: docs/analytic.md says so."""
    rows = json.loads((ROOT / "docs/results/analytic.json").read_text())["orders"]
    assert len(rows) == 5
    assert {(row["sums"], row["answers"]) for row in rows} == {(0.0, 0.0)}


def test_the_number_of_tasks_does_not_change_what_analytic_reaches() -> None:
    rows = [
        row
        for part in measured("tasks-table")["sections"]
        for row in part["rows"]
        if row["label"] == "analytic"
    ]
    assert [len(row["seeds"]) for row in rows] == [5] * 5
    assert len({value for row in rows for value in row["A_T"]}) == 1


def test_the_report_s_bound_is_that_of_the_documents() -> None:
    """All data at once, on the drawings, which a report names if none of its runs has it."""
    assert json.loads(TABLES["JOINT"].read_text()) == TABLES["joint"]()


def test_rows_that_were_not_run_stay_as_they_were() -> None:
    old = [{"title": "a", "rows": [{"label": "x", "seeds": [0]}, {"label": "y", "seeds": [0]}]}]
    new = [{"title": "a", "rows": [{"label": "x", "seeds": []}, {"label": "y", "seeds": [0, 1]}]}]
    (part,) = TABLES["with_kept"](new, old)
    assert [row["seeds"] for row in part["rows"]] == [[0], [0, 1]]


def test_the_report_in_the_documents_has_the_results_of_the_table() -> None:
    """What its cells and its data say, against every run's A_T and F_T.

    The page is of the table before `analytic` was there.
    """
    page = (ROOT / "docs/results/report-main-table.html").read_text()
    said = re.search(r'<script type="application/json" id="results">(.*?)</script>', page, re.S)
    assert said is not None
    (group,) = json.loads(said[1])["groups"]
    table = json.loads((ROOT / "docs/results/main-table-quickdraw.json").read_text())
    (section,) = table["sections"]
    rows = [row for row in section["rows"] if row["label"] != "analytic"]
    for shown, row in zip(group["rows"], rows, strict=True):
        assert (shown["method"], shown["seeds"]) == (row["label"], row["seeds"])
        cells = re.search(rf"<th scope=\"row\">{re.escape(row['label'])}</th>(.*?)</tr>", page)
        assert cells is not None
        values = [float(value) for value in re.findall(r'data-value="([^"]+)"', cells[1])]
        for name in ("A_T", "F_T"):
            assert [round(value, 3) for value in shown[name]] == row[name]
            mean = sum(row[name]) / len(row[name])
            assert any(abs(value - mean) < 1e-3 for value in values), (row["label"], name)
