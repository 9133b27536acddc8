"""The page of reported figures has every method, a source for every figure, commands that parse."""

import runpy
import shlex
from pathlib import Path
from typing import Any

import pytest

from ovor.cli.run import parse_run
from ovor.learners import METHODS
from ovor.presets import settings

ROOT = Path(__file__).parents[2]
PAGE = runpy.run_path(str(ROOT / "docs/reported.py"))
DINO = "vit_base_patch14_dinov2.lvd142m"
ROWS: list[dict[str, Any]] = PAGE["reported"]()["rows"]


def test_the_page_has_the_figures_that_were_found() -> None:
    text = (ROOT / "docs/reported.md").read_text()
    assert PAGE["made"](text) == text


def test_every_method_has_a_figure_or_a_word_why_not() -> None:
    named = {row["method"].removesuffix("+vor") for row in (*ROWS, *PAGE["of_paper"]())}
    without = set(PAGE["reported"]()["none"])
    assert not named & without
    of_adam = {name for name in METHODS if name.startswith("adam-")}  # one row in the paper
    assert named | without | of_adam == set(METHODS)


def test_every_figure_has_its_source_and_its_setting() -> None:
    for row in ROWS:
        assert row["source"]
        assert row["last"] or row["average"]
        assert row["checkpoint"] in ("augreg_in21k", "augreg_in21k_ft_in1k", DINO)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['method']}-{row['data']}")
def test_the_command_is_the_run_that_the_row_is_of(row: dict[str, Any]) -> None:
    program, command, *words = shlex.split(PAGE["command"](row))
    assert (program, command) == ("ovor", "run")
    run = parse_run(words).run
    assert (run.method, run.data, run.tasks) == (row["method"], row["data"], row["tasks"])
    assert run.order == row["order"]
    name, _, tag = run.backbone.rpartition("vit_base_patch16_224.")
    assert (name, tag) == ("", row["checkpoint"])
    if row["checkpoint"] == DINO:  # by ImageNet's mean and deviation; the others as the paper's
        assert run.transform.size == 224
        assert run.transform.mean == (0.485, 0.456, 0.406)
    else:
        assert run.transform.mean == 0
    if row["method"] in ("fecam", "anacp"):  # which tune only if they are told to
        like = settings(row["data"], "ranpac")
        assert run.options["tuning"] == "adapter"
        for name in ("lr", "schedule", "epochs", "batch_size"):
            assert getattr(run, name) == getattr(like, name)
