"""The presets are the paper's tables: its rows, its settings, its values."""

from dataclasses import replace

import pytest

from ovor.config import Run
from ovor.errors import OvorError
from ovor.experiments.tables import (
    ABLATIONS,
    OTHER_METHODS,
    PROMPT_METHODS,
    TABLES,
    ablation,
    of_lengths,
    sections,
    variants,
)
from ovor.learners import METHODS, takes_vor
from ovor.paper import paper
from ovor.presets import ALIASES, PAPER, VOR_PRESETS, settings

OURS = {
    "core": "embedded",
    "field": "embedded",
    "text-table": "text",
    "text-prompts": "text",
}  # not the paper's data
PRINTED = paper()["ablation_ovor_imagenet-r/10"]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_on_the_papers_data_or_on_the_drawings(name: str) -> None:
    _, found = sections(name, ["quickdraw"], [], [])
    assert {row.run.data for part in found for row in part.rows} == {"quickdraw"}
    assert not any(part.comparable for part in found)
    _, found = sections(name, [], [], [])
    assert all(part.comparable for part in found) == (name not in OURS)
    backbones = {row.run.backbone for part in found for row in part.rows}
    assert backbones == {OURS.get(name, PAPER.backbone)}


def test_the_main_table_has_methods_with_vor_where_there_is_a_linear_head() -> None:
    _, (part,) = sections("main-table", ["quickdraw"], [], [])
    labels = [row.label for row in part.rows]
    assert len(set(labels)) == len(labels)
    methods = {*PROMPT_METHODS, *OTHER_METHODS}
    assert methods <= set(METHODS)
    assert set(labels) == methods | {f"{m}+vor" for m in methods if takes_vor(m)}


def test_the_std_tables_have_every_figure_of_the_paper() -> None:
    _, found = sections("std-tables", [], [], [])
    shown = {part.where: {row.label: row.paper for row in part.rows} for part in found}
    checked = 0
    for name, figures in paper()["accuracy_A_T"].items():
        labels = [m for m in METHODS if m.startswith("adam-")] if name == "adam" else [name]
        labels = [one for one in labels if one in (*METHODS, *ALIASES) or one.endswith("+vor")]
        for where, value in figures.items():
            forgetting = (paper()["forgetting_F_T"].get(name) or {}).get(where)
            for label in labels if value else ():
                expected = value["mean"], forgetting["mean"] if forgetting else None
                assert shown[where][ALIASES.get(label, label)] == expected
                checked += 1
    assert checked > 60


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tasks-table", ["imagenet-r/5", "imagenet-r/10", "imagenet-r/20"]),
        ("vor-table", ["imagenet-r/10", "cifar-100/10", "cub-200/10", "imagenet-a/10"]),
    ],
)
def test_settings_are_those_of_the_papers_tables(name: str, expected: list[str]) -> None:
    _, found = sections(name, [], [], [])
    runs = [part.rows[0].run for part in found]
    assert [f"{run.data}/{run.tasks}" for run in runs] == expected


def test_numbers_of_tasks_and_methods_can_be_chosen() -> None:
    _, found = sections("tasks-table", ["quickdraw"], [4], ["ovor", "oneprompt"])
    (part,) = found
    assert [row.label for row in part.rows] == ["oneprompt", "oneprompt+vor"]
    assert {row.run.tasks for row in part.rows} == {4}
    _, found = sections("tasks-table", [], [20], [])
    assert [part.where for part in found] == ["imagenet-r/20"]
    with pytest.raises(OvorError, match="has no ranpac"):
        sections("tasks-table", ["quickdraw"], [], ["ranpac"])


@pytest.mark.parametrize("name", ABLATIONS)
def test_ablations_have_the_papers_values_on_its_data(name: str) -> None:
    base = settings("imagenet-r", "ovor")
    assert base.vor is not None
    found = variants(name, base.vor, base.epochs)
    assert sum(vor == base.vor for _, vor in found) == 1
    if name == "penalty":
        assert [vor.hinge for _, vor in found] == list(PRINTED[name])
    elif name == "vor_epochs_percent":
        shares = [str(100 * vor.epochs // base.epochs) for _, vor in found]
        assert shares == list(PRINTED[name])
    else:
        values = [float(label) for label, _ in found]
        assert values == [float(value) for value in PRINTED[name]]


def test_ablation_rows_stand_beside_the_papers_figures() -> None:
    for part, name in zip(ablation(ABLATIONS, "imagenet-r", 10, settings), ABLATIONS, strict=True):
        assert [row.paper[0] for row in part.rows] == list(PRINTED[name].values())
        assert len({repr(row.run) for row in part.rows}) == len(part.rows)


def test_ablations_of_the_drawings_vary_one_thing_at_a_time() -> None:
    base = settings("quickdraw", "ovor")
    for part in ablation(ABLATIONS, "quickdraw", 10, settings):
        runs = [row.run for row in part.rows]
        assert base in runs
        assert len({repr(run) for run in runs}) == len(runs)


def test_prompt_positions_on_a_backbone_of_six_layers() -> None:
    _, (part,) = sections("prompt-position", ["quickdraw"], [], [])
    assert len(part.rows) == 7  # two of the nine need a seventh layer
    lengths = {row.label: row.run.options.get("lengths") for row in part.rows}
    assert lengths["5 in layers 3-4, 20 in layers 3-5"] == [0, 0, 25, 25, 20]
    assert part.rows[0].run == settings("quickdraw", "oneprompt")
    assert part.rows[1].run.method == "oneprompt-deep"
    assert of_lengths(part.rows[0].run, [5, 5, 20, 20, 20, 0]) == part.rows[0].run


def test_a_table_on_another_backbone_has_the_positions_that_fit(tiny_backbone: str) -> None:
    def adapt(run: Run) -> Run:
        return replace(run, backbone=tiny_backbone)  # of five layers

    _, (part,) = sections("prompt-position", [], [], [], adapt)
    assert {row.run.backbone for row in part.rows} == {tiny_backbone}
    assert part.title == f"imagenet-r, 10 tasks, backbone {tiny_backbone}"
    assert [row.label for row in part.rows][1] == "5 in layers 1-5"
    assert len(part.rows) == 5
    _, (part,) = sections("prompt-position", [], [], [])
    assert len(part.rows) == 9


def test_the_core_table_has_every_prompt_and_the_controls() -> None:
    _, (part,) = sections("core", [], [], [])
    rows = {row.label: row.run for row in part.rows}
    assert set(PROMPT_METHODS) <= set(rows)
    assert all(rows[f"{method}+vor"].vor is not None for method in PROMPT_METHODS)
    assert len(rows) == 2 * len(PROMPT_METHODS) + len(VOR_PRESETS) - 1
    assert len({repr(run) for run in rows.values()}) == len(rows)


def test_released_preset_is_the_released_behaviour() -> None:
    vor = settings("quickdraw", "ovor", "released").vor
    assert vor is not None
    assert not vor.npos.add_boundary
    assert (vor.npos.space, vor.npos.self_neighbor, vor.npos.shuffle) == ("mixed", True, False)
