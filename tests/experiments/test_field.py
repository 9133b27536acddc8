"""The field: which methods are in which scenario, and the one table that it ends in."""

import json
import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from command import ovor
from experiments.test_grid import Here
from ovor.config import Run
from ovor.encoders.weights import load_backbone
from ovor.experiments import field, field_table, summary
from ovor.experiments.tables import sections
from ovor.learners import METHODS, at_once, build_learner, looks_again, returning, takes_vor
from ovor.presets import settings
from tiny import NARROW


def by_way() -> dict[str, dict[str, Run]]:
    _, parts = sections("field", ["quickdraw"], [], [])
    return {part.way: {row.label: row.run for row in part.rows} for part in parts}


def test_every_method_is_there_and_each_scenario_has_those_that_can() -> None:
    found = by_way()
    vor = {f"{method}+vor" for method in METHODS if takes_vor(method)}
    assert set(found["plain"]) == {*METHODS, *vor}
    assert list(found) == [way.name for way in field.WAYS]
    others = {method for method in METHODS if method not in field.VARIANTS}
    assert set(found["again"]) == {m for m in others if returning(m) and not at_once(m)}
    stream = {m for m in others if not looks_again(m, settings("quickdraw", m).options)}
    assert set(found["single pass"]) == stream | {"ranpac"}  # which tunes nothing there
    assert found["single pass"]["ranpac"].options["tuning"] == "none"
    alone = {m for m in others if takes_vor(m) or at_once(m)}  # a head a task, or all as one
    assert set(found["one by one"]) == others - set(field.TOO_LONG) - alone
    for way in ("wrong labels", "shift", "unequal"):  # a stream shows nothing again, for outliers
        assert set(found[way]) == {*others, field.OVOR}
    assert {*field.VARIANTS, *field.TOO_LONG} <= set(METHODS)


def test_scenarios_are_what_they_are_called() -> None:
    runs = {way: rows["fecam"] for way, rows in by_way().items()}
    usual = runs["plain"]
    assert usual == settings("quickdraw", "fecam")
    assert runs == {
        "plain": usual,
        "one by one": replace(usual, tasks=100),
        "again": replace(usual, scenario="repetition"),
        "unequal": replace(usual, imbalance=(5, 80)),
        "single pass": replace(usual, scenario="stream", epochs=1),
        "wrong labels": replace(usual, label_noise=0.1),
        "shift": replace(usual, shift="ink"),
    }


def test_methods_can_be_chosen_that_only_some_scenarios_have() -> None:
    _, parts = sections("field", ["quickdraw"], [], ["slca", "klda"])
    rows = {part.way: [row.label for row in part.rows] for part in parts}
    assert rows["plain"] == ["klda", "slca"]
    assert rows["again"] == ["klda"]
    _, parts = sections("field", ["quickdraw"], [], ["coda-p"])
    assert [part.way for part in parts] == ["plain"]


UNABLE = [m for m in METHODS if takes_vor(m) and m not in (*field.VARIANTS, *field.TOO_LONG)]


@pytest.mark.parametrize("method", UNABLE)
def test_a_head_of_one_class_learns_nothing(method: str, tiny_backbone: str) -> None:
    """Why methods with a head a task are not in the scenario `one by one`."""
    backbone = load_backbone(tiny_backbone).encoder
    learner = build_learner(method, NARROW.get(method, {}), backbone, nullcontext)
    images = torch.rand(4, 3, backbone.image_size, backbone.image_size)
    for classes, learns in ((1, False), (2, True)):
        learner.begin_task(classes, (0, classes))
        learner.loss(images, torch.arange(4) % classes).backward()  # type: ignore[no-untyped-call]
        heads = [p.grad for name, p in learner.named_parameters() if name.startswith("head.")]
        assert any(grad is not None and bool(grad.any()) for grad in heads) == learns


def small(run: Run, tiny_run: Run) -> Run:
    own = {"projection": 20} if run.method == "klda" else {}
    own_epochs = run.epochs if run.vor else 1
    return replace(
        run, backbone=tiny_run.backbone, options=own, device="cpu", epochs=own_epochs, workers=0
    )


def test_a_grid_of_the_field_ends_in_one_table_and_goes_on(
    tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ovor.cli.grid.on_this_machine", lambda *_: nullcontext(Here()))
    monkeypatch.setattr("ovor.cli.grid.adapt", lambda run, _: small(run, tiny_run))
    few = ("--tasks", "2", "--seeds", "0", "1", "--methods", "klda", "linear")
    command = ("grid", "field", "--data", tiny_run.data, "--out", "o", "--jobs", "1", *few)
    said = ovor(*command, "--json", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    found = json.loads(said.stdout)["sections"]
    done = {part["way"]: [row["label"] for row in part["rows"]] for part in found}
    assert done["again"] == ["klda"]
    assert done["single pass"] == ["linear", "klda"]
    rows = [row for part in found for row in part["rows"]]
    assert {len(row["A_T"]) for row in rows} == {2}
    assert {row["passes"] for row in rows} == {1}
    kept = [size for row in rows for size in row["bytes"]]
    on_disk = {path.stat().st_size for path in tmp_path.glob("o/*/weights.safetensors")}
    assert set(kept) == on_disk
    again = ovor(*command, "--markdown", cwd=tmp_path)  # runs nothing anew
    table = [line for line in again.stdout.splitlines() if line.startswith("|")]
    assert [line.split(" | ")[0] for line in table[2:]] == ["| linear", "| klda"]
    headings = [cell.strip() for cell in table[0].strip("| ").split("|")]
    assert headings[:4] == ["passes", "MB kept", "core s", "F_T ↓"]
    assert headings[4:] == [way.name for way in field.WAYS]
    assert table[2].split(" | ")[6:8] == [field_table.CANNOT] * 2  # linear has a head a task
    page = (tmp_path / "o/report-field.html").read_text()
    overview = page[page.index('data-table="overview"') : page.index('data-table="accuracy"')]
    cells = [re.sub("<.*?>", "", row) for row in re.findall("<th.*?</th>|<td.*?</td>", overview)]
    wanted = [cell.strip() for line in (table[0], *table[2:]) for cell in line[1:-1].split("|")]
    assert cells == ["method", *wanted[1:]]  # the same table as in the terminal
    assert len(list(tmp_path.glob("o/*/result.json"))) == 2 * (7 + 5)


def row(label: str, way: str, **values: Any) -> dict[str, Any]:
    usual = {"A_T": [64.5, 64.7], "F_T": [10.0], "seconds": [30.0], "bytes": [5_400_000]}
    usual["core_seconds"] = [24.0]
    return {"label": label, "runs": [f"{label}-{way}"], "passes": 1, **usual, **values}


def test_a_narrow_terminal_shows_every_scenario() -> None:
    ways = [way.name for way in field.WAYS]
    parts = [
        {"title": f"d, {way}", "way": way, "rows": [row("oneprompt-deep+vor", way)]} for way in ways
    ]
    for width, deviations in ((80, False), (200, True)):
        console = Console(width=width)
        with console.capture() as capture:
            console.print(summary.as_tables(parts, "field", width))
        text = capture.get()
        (line,) = [one for one in text.splitlines() if one.strip().startswith("oneprompt-deep+vor")]
        assert line.count("64.6") == len(ways)
        assert ("±" in line) == deviations
        assert "…" not in text


def test_the_field_has_its_own_scenarios(tmp_path: Path) -> None:
    said = ovor("grid", "field", "--data", "quickdraw", "--shift", "ink", cwd=tmp_path)
    assert said.returncode == 2
    assert "has its own scenarios" in said.stderr
