"""Costs against the paper's table, against formulas, and as the command prints them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ovor.analysis import cost
from ovor.prompts import PROMPTS

PAPER = {  # FLOPs (G) and parameters (M), as printed
    "l2p": ("35.18", "0.64"),
    "dualprompt": ("35.19", "1.11"),
    "coda-p": ("35.17", "3.99"),
    "oneprompt": ("17.60", "0.26"),
}
PARAMETERS = {
    "l2p": 637_640,
    "dualprompt": 1_113_800,
    "coda-p": 3_993_800,
    "oneprompt": 261_320,
    "oneprompt-deep": 245_960,
}
HEAD = 200 * 768  # multiply-accumulates of the classifier
SMALL = cost.Setting(tasks=3, classes=2, arch=cost.VIT_B)
TOKENS, DIM = 197, 768


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    return cost.cost_table(cost.Setting())


def rows(table: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["method"]: row for row in table["methods"]}


def ovor(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ovor", *arguments],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "100", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("method", PAPER)
def test_the_papers_rows_to_the_printed_digit(table: dict[str, Any], method: str) -> None:
    row = rows(table)[method]
    gflops, params_m = PAPER[method]
    assert f"{row['gflops']:.2f}" == gflops
    assert f"{row['parameters'] / 1e6:.2f}" == params_m
    assert row["difference"] == {"params_m": 0.0, "gflops": 0.0}


def test_the_paper_file_says_what_the_paper_prints() -> None:
    printed = {
        m: (f"{r['gflops']:.2f}", f"{r['params_m']:.2f}") for m, r in cost.paper_rows().items()
    }
    assert printed == PAPER


@pytest.mark.parametrize("method", PARAMETERS)
def test_parameters(table: dict[str, Any], method: str) -> None:
    assert rows(table)[method]["parameters"] == PARAMETERS[method]


def test_every_prompt_has_a_row(table: dict[str, Any]) -> None:
    assert list(rows(table)) == list(PROMPTS)


def test_the_vit_alone(table: dict[str, Any]) -> None:
    products = 12 * (12 * TOKENS * DIM**2 + 2 * TOKENS**2 * DIM) + 196 * DIM * 3 * 16**2
    norms = 25 * 5 * TOKENS * DIM
    vit = cost.on_meta(cost.PublishedViT, cost.VIT_B)
    assert cost.count_macs(vit, cost.VIT_B) == products + norms
    assert f"{table['backbone_gflops']:.3f}" == "17.582"


@pytest.mark.parametrize(
    ("method", "passes", "tokens"),
    [("oneprompt", 1, 70), ("oneprompt-deep", 1, 60), ("l2p", 2, 50), ("dualprompt", 2, 70)],
)
def test_a_prefix_token_costs_two_products_a_query(
    table: dict[str, Any], method: str, passes: int, tokens: int
) -> None:
    vit = round(table["backbone_gflops"] * 1e9)
    expected = passes * vit + 2 * TOKENS * DIM * tokens + HEAD
    assert cost.measure(method, cost.Setting()).macs == expected


def test_coda_also_pays_for_its_weighted_sum(table: dict[str, Any]) -> None:
    vit = round(table["backbone_gflops"] * 1e9)
    prefix, components = 2 * TOKENS * DIM * 20, 5 * 100
    # Per component: two products with the query, then its part of 4 keys and 4 values.
    weighting = components * DIM * (2 + 8)
    assert cost.measure("coda-p", cost.Setting()).macs == 2 * vit + prefix + weighting + HEAD


@pytest.mark.parametrize("method", ["oneprompt", "l2p"])
def test_what_ovor_saves(method: str) -> None:
    """196 tokens less in query, attention, output, MLP and norm of the last block and in the final
    norm, and the second embedding of the image."""
    found = cost.measure(method, SMALL)
    attention = 2 * TOKENS * DIM
    block = 196 * ((2 + 8) * DIM**2 + attention + 2 * 5 * DIM)
    passes, embedding = (2, 196 * DIM**2) if method == "l2p" else (1, 0)
    assert found.macs - found.own_macs == passes * block + embedding


def test_tasks_and_classes_count() -> None:
    head = 6 * (DIM + 1)
    assert cost.measure("oneprompt", SMALL).parameters == 107_520 + head
    experts = 3 * 3 * (2 * 20 + 1) * DIM  # tasks, layers
    assert cost.measure("dualprompt", SMALL).parameters == experts + 2 * 2 * 5 * DIM + head


def test_only_the_papers_setting_has_the_papers_values() -> None:
    table = cost.cost_table(SMALL)
    assert all(row["paper"] is None and row["difference"] is None for row in table["methods"])
    assert table["misprints"] == []
    assert "3 tasks of 2 classes" in text_of(table)


def text_of(table: dict[str, Any]) -> str:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(cost.as_tables(table))
    return capture.get()


def test_the_misprint_and_it_alone_is_flagged(table: dict[str, Any]) -> None:
    (misprint,) = table["misprints"]
    assert misprint["method"] == "coda-p"
    assert misprint["what"] == "parameters_ratio"
    assert misprint["printed"] == 13.28
    assert f"{misprint['computed']:.2f}" == "15.28"
    text = " ".join(text_of(table).split())
    assert "coda-p has 15.28x the parameters of oneprompt, not 13.28x" in text
    assert "13.28x !" in text
    assert text.count(" !") == 2  # in its row, and before the note


def test_a_difference_would_show() -> None:
    row = cost.compare(
        cost.Cost("l2p", 650_000, 36_000_000_000, 1),
        cost.Cost("oneprompt", 260_000, 18_000_000_000, 1),
        {"params_m": 0.64, "gflops": 36.5},
    )
    assert row["difference"] == {"params_m": 0.01, "gflops": -0.5}
    assert {misprint["what"] for misprint in cost.misprints(row)} == {
        "parameters_ratio",
        "gflops_ratio",
    }


def test_json_is_all_of_stdout(table: dict[str, Any], tmp_path: Path) -> None:
    done = ovor("cost", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == table
    assert done.stderr == ""


def test_the_command_prints_both_tables(tmp_path: Path) -> None:
    done = ovor("cost", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "637,640" in done.stdout
    assert "35.19" in done.stdout
    assert "misprint" in done.stdout


@pytest.mark.parametrize(
    "arguments", [["--tasks", "0"], ["--classes", "-1"], ["--tasks", "many"], ["--task", "3"]]
)
def test_wrong_usage_exits_with_two(arguments: list[str], tmp_path: Path) -> None:
    done = ovor("cost", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert arguments[0].strip("-") in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_help_needs_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['ovor', 'cost', '--help']\n"
        "from ovor.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "--classes" in done.stdout
