"""Costs against the paper's table, against formulas, and as the command prints them."""

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from command import ovor
from ovor.analysis import cost, cost_table
from ovor.learners import METHODS

PAPER = {  # FLOPs (G) and parameters (M), as printed
    "l2p": ("35.18", "0.64"),
    "dualprompt": ("35.19", "1.11"),
    "coda-p": ("35.17", "3.99"),
    "oneprompt": ("17.60", "0.26"),
}
pytestmark = pytest.mark.xdist_group("cost")  # they share a table that takes a while

SMALL = cost.Setting(tasks=3, classes=2, arch=cost.VIT_B)
WIDTH = 4 * 768  # what analytic reads of so wide a network: two tokens at two depths
TOKENS, DIM, CLASSES, M = 197, 768, 200, 10_000  # M: the width of RanPAC's projection
HEAD = CLASSES * DIM  # multiply-accumulates of the classifier

# A block: two norms, the maps to q, k, v and back, and the two of the MLP, all with biases.
QKV = DIM * 3 * DIM + 3 * DIM
BLOCK = 2 * 2 * DIM + QKV + (DIM * DIM + DIM) + (DIM * 4 * DIM + 4 * DIM) + (4 * DIM * DIM + DIM)
# Patches, class token, positions, blocks, final norm.
VIT = (3 * 16**2 * DIM + DIM) + DIM + TOKENS * DIM + 12 * BLOCK + 2 * DIM

LINEAR = CLASSES * DIM + CLASSES
FIRST_HEAD = 20 * DIM + 1  # of the first task: a vector a class, and the scale of the cosines
ADAPTERS = 12 * (DIM * 64 + 64 + 64 * DIM + DIM)
# A scale and a shift a channel: patches; per block norm, qkv, proj, norm, fc1, fc2; final norm.
SSF = 2 * (DIM + 12 * (DIM + 3 * DIM + DIM + DIM + 4 * DIM + DIM) + DIM)
# Linear maps from features to 64 numbers, to a code, to 64 again, and back.
PROJECTOR = (DIM * 64 + 64) + (64 * 384 + 384) + (384 * 64 + 64) + (64 * DIM + DIM)
PARAMETERS = {
    "l2p": 637_640,
    "dualprompt": 1_113_800,
    "coda-p": 3_993_800,
    "oneprompt": 261_320,
    "oneprompt-deep": 245_960,
    "analytic": 0,
    "simplecil": 0,
    "adam-finetune": VIT + FIRST_HEAD,
    "adam-vpt-shallow": 5 * DIM + FIRST_HEAD,
    "adam-vpt-deep": 12 * 5 * DIM + FIRST_HEAD,
    "adam-adapter": ADAPTERS + FIRST_HEAD,
    "adam-ssf": SSF + FIRST_HEAD,
    "ranpac": ADAPTERS + FIRST_HEAD,
    **dict.fromkeys(("loranpac", "klda", "randumb", "fecam", "anacp", "shapes"), 0),
    "slca": VIT + LINEAR,
    "l2": 12 * QKV + LINEAR,
    "apt": 24 * DIM + LINEAR,
    "ssiat": ADAPTERS + CLASSES * DIM,
    "rsiat": ADAPTERS + CLASSES * DIM + PROJECTOR,
    "ease": 10 * (ADAPTERS + FIRST_HEAD),
    "finetune": VIT + LINEAR,
}
MEANS = CLASSES * DIM
RANK, N, HEADS = 2000, 5000, 3  # LoRanPAC's singular vectors, AnaCP's random features and heads
SPREAD = 6 * DIM  # of two depths: class token, mean and deviation


def sums(width: int) -> int:
    """Count and sum of each class, half of a symmetric matrix, and what is gone."""
    return CLASSES * (1 + width) + width * (width + 1) // 2 + 2


def fourier(width: int) -> int:
    """Directions, phases, the kernel's width; sums; the head."""
    return (DIM + 1) * width + 1 + sums(width) + CLASSES * (width + 1)


KEPT = {  # besides what was learned
    "oneprompt": 0,
    "analytic": sums(WIDTH) + CLASSES * (WIDTH + 1),  # and the head
    "simplecil": MEANS,
    "adam-ssf": 2 * MEANS,  # of both networks side by side
    "ranpac": M * M + 2 * M * CLASSES + DIM * M,  # Gram matrix, sums and weights, projection
    # Projection, singular vectors and values, sums and weights, how many images.
    "loranpac": DIM * M + M * RANK + RANK + 2 * M * CLASSES + 1,
    "klda": fourier(5000),
    "randumb": fourier(M),
    "fecam": CLASSES * (1 + DIM + DIM**2),
    "shapes": sums(SPREAD) + CLASSES * (SPREAD + 1),  # no shapes, as its last depth is wide
    # Of each head a random layer, a projection and their sums; then a layer, a head, the Gaussians:
    # the paper's 106.6 million, but for the symmetric covariance, which is kept once.
    "anacp": HEADS * (2 * N * DIM + N**2 + N * CLASSES) + N * (DIM + CLASSES) + sums(DIM),
    "slca": MEANS + CLASSES * DIM**2 + LINEAR,  # Gaussians, and the aligned head
    "l2": 12 * QKV,  # the attention of the task before
    "apt": 24 * DIM,  # the average
    # The adapters before the task, and Gaussians.
    **dict.fromkeys(("ssiat", "rsiat"), ADAPTERS + MEANS + CLASSES * DIM**2),
    "ease": 10 * MEANS - 9 * FIRST_HEAD,  # by every adapter; of the tasks' heads, the last
    "finetune": 0,
}


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    return cost_table.cost_table(cost.Setting())


def rows(table: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["method"]: row for row in table["methods"]}


@pytest.mark.parametrize("method", PAPER)
def test_the_papers_rows_to_the_printed_digit(table: dict[str, Any], method: str) -> None:
    row, printed = rows(table)[method], cost_table.paper_rows()[method]
    assert (f"{row['gflops']:.2f}", f"{row['parameters'] / 1e6:.2f}") == PAPER[method]
    assert (f"{printed['gflops']:.2f}", f"{printed['params_m']:.2f}") == PAPER[method]
    assert row["difference"] == {"params_m": 0.0, "gflops": 0.0}


def test_parameters_and_what_is_stored_besides(table: dict[str, Any]) -> None:
    assert VIT == 85_798_656  # the known one
    found = rows(table)
    assert {method: found[method]["parameters"] for method in PARAMETERS} == PARAMETERS
    stored = {method: found[method]["stored"] - PARAMETERS[method] for method in KEPT}
    assert stored == KEPT


def test_every_method_has_a_row(table: dict[str, Any]) -> None:
    assert list(rows(table)) == list(METHODS)
    assert all(row["gflops"] >= 17.58 for row in table["methods"])


def test_nothing_is_allocated() -> None:
    """RanPAC's Gram matrix in double precision alone would be 800 MB."""
    learner, _ = cost.after_all_tasks("ranpac", SMALL, cost.VisionTransformer)
    assert {tensor.device.type for tensor in learner.state_dict().values()} == {"meta"}


def test_the_vit_alone(table: dict[str, Any]) -> None:
    products = 12 * (12 * TOKENS * DIM**2 + 2 * TOKENS**2 * DIM) + 196 * DIM * 3 * 16**2
    norms = 25 * 5 * TOKENS * DIM
    assert cost.vit_macs(cost.VIT_B) == products + norms
    assert f"{table['backbone_gflops']:.3f}" == "17.582"


# What each method computes besides passes of the plain ViT.
PROTOTYPES = 2 * DIM * CLASSES  # of the two networks' features side by side
# Five more tokens in every block: in its products, in attention with each other, in its norms.
MORE_ATTENTION = 2 * ((TOKENS + 5) ** 2 - TOKENS**2) * DIM
FIVE_TOKENS = 12 * (5 * 12 * DIM**2 + MORE_ATTENTION + 2 * 5 * 5 * DIM)
ADAPTING = 12 * TOKENS * 2 * DIM * 64
PREFIX_TOKEN = 2 * TOKENS * DIM  # a product with every query, and one with its attention
BEYOND = {
    "oneprompt": (1, 70 * PREFIX_TOKEN + HEAD),
    "oneprompt-deep": (1, 60 * PREFIX_TOKEN + HEAD),
    "l2p": (2, 50 * PREFIX_TOKEN + HEAD),
    "dualprompt": (2, 70 * PREFIX_TOKEN + HEAD),
    # Per component of each layer: two products with the query, its part of 4 keys and 4 values.
    "coda-p": (2, 20 * PREFIX_TOKEN + 5 * 100 * DIM * (2 + 8) + HEAD),
    # A norm of what is read instead of the final one.
    "analytic": (1, 5 * (WIDTH - TOKENS * DIM) + WIDTH * CLASSES),
    "simplecil": (1, HEAD),
    "adam-finetune": (2, PROTOTYPES),
    # Shallow, the tokens stay until the final norm; deep, they leave each block.
    "adam-vpt-shallow": (2, FIVE_TOKENS + 5 * 5 * DIM + PROTOTYPES),
    "adam-vpt-deep": (2, FIVE_TOKENS + PROTOTYPES),
    "adam-adapter": (2, ADAPTING + PROTOTYPES),
    "adam-ssf": (2, PROTOTYPES),  # folded into the weights
    "ranpac": (1, ADAPTING + DIM * M + M * CLASSES),
    "loranpac": (1, DIM * M + M * CLASSES),
    "klda": (1, DIM * 5000 + 5000 * CLASSES),
    "randumb": (1, DIM * M + M * CLASSES),
    "fecam": (1, CLASSES * DIM**2),
    "shapes": (1, 5 * (SPREAD - TOKENS * DIM) + SPREAD * CLASSES),
    "anacp": (1, HEADS * 2 * DIM * N + DIM * N + N * CLASSES),
    "slca": (1, HEAD),
    "l2": (1, HEAD),
    "apt": (1, HEAD),
    **dict.fromkeys(("ssiat", "rsiat"), (1, ADAPTING + HEAD)),
    "ease": (10, 10 * (ADAPTING + HEAD)),
    "finetune": (1, HEAD),
}


def test_passes_and_what_a_method_computes_besides(table: dict[str, Any]) -> None:
    vit = round(table["backbone_gflops"] * 1e9)
    found = {method: round(rows(table)[method]["gflops"] * 1e9) for method in BEYOND}
    assert found == {method: passes * vit + more for method, (passes, more) in BEYOND.items()}
    counted = {method: rows(table)[method]["passes"] for method in BEYOND}
    assert counted == {method: passes for method, (passes, _) in BEYOND.items()}


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
    table = cost_table.cost_table(SMALL, ["l2p", "coda-p", "ranpac"])
    assert all(row["paper"] is None and row["difference"] is None for row in table["methods"])
    assert table["misprints"] == []
    assert "3 tasks of 2 classes" in text_of(table)


def text_of(table: dict[str, Any], width: int = 100) -> str:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(cost_table.as_tables(table))
    return capture.get()


@pytest.mark.parametrize("width", [80, 100])
def test_every_row_is_one_whole_line(table: dict[str, Any], width: int) -> None:
    lines = [line.split() for line in text_of(table, width).splitlines() if line]
    for method in METHODS:
        both = [line for line in lines if line[0] == method and len(line) > 5]
        assert [len(line) - line.count("!") for line in both] == [8, 8]
    assert "…" not in text_of(table, width)


def test_chosen_rows_keep_their_ratios(table: dict[str, Any]) -> None:
    chosen = cost_table.cost_table(cost.Setting(), ["simplecil", "ovor", "l2p+vor", "oneprompt"])
    assert list(rows(chosen)) == ["simplecil", "oneprompt", "l2p"]
    assert all(row == rows(table)[method] for method, row in rows(chosen).items())
    assert cost_table.cost_table(SMALL, ["simplecil"])["methods"][0]["parameters_ratio"] == 0


def test_notes_are_of_the_rows_shown(table: dict[str, Any]) -> None:
    words = " ".join(text_of(table).split())
    assert "includes the cosine head of the first task, 20 x 768 + 1" in words
    assert "slca's second head" in words
    assert "in ease once a task" in words
    assert (
        "Nothing in analytic, shapes, simplecil, loranpac, klda, randumb, fecam and anacp" in words
    )
    words = " ".join(text_of(cost_table.cost_table(SMALL, ["analytic"])).split())
    assert "Nothing in analytic: what classifies" in words
    assert "cosine head" not in words
    words = " ".join(text_of(cost_table.cost_table(SMALL, ["l2p"])).split())
    assert "adam" not in words
    assert "slca" not in words


def test_the_misprint_and_it_alone_is_flagged(table: dict[str, Any]) -> None:
    (misprint,) = table["misprints"]
    assert (misprint["method"], misprint["what"]) == ("coda-p", "parameters_ratio")
    assert (misprint["printed"], f"{misprint['computed']:.2f}") == (13.28, "15.28")
    text = " ".join(text_of(table).split())
    assert "coda-p has 15.28x the parameters of oneprompt, not 13.28x" in text
    assert "13.28x !" in text
    assert text.count(" !") == 2  # in its row, and before the note


def test_a_difference_would_show() -> None:
    row = cost_table.compare(
        cost.Cost("l2p", 650_000, 650_000, 2, 36_000_000_000, 1),
        cost.Cost("oneprompt", 260_000, 260_000, 1, 18_000_000_000, 1),
        {"params_m": 0.64, "gflops": 36.5},
    )
    assert row["difference"] == {"params_m": 0.01, "gflops": -0.5}
    assert [misprint["what"] for misprint in cost_table.misprints(row)] == list(cost_table.RATIOS)


def test_the_command_prints_both_tables_or_json_alone(table: dict[str, Any]) -> None:
    command = ("cost", "--methods", "l2p", "dualprompt", "coda-p")
    done = ovor(*command)
    assert done.returncode == 0, done.stderr
    assert all(words in done.stdout for words in ("637,640", "35.19", "misprint"))
    done = ovor(*command, "--json")
    chosen = [rows(table)[method] for method in command[2:]]
    assert json.loads(done.stdout) == {**table, "methods": chosen}
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--methods", "l2p", "l3p"], 1, "no method 'l3p': choose from"),
        (["--tasks", "0"], 2, "tasks"),
        (["--classes", "-1"], 2, "classes"),
        (["--tasks", "many"], 2, "tasks"),
        (["--task", "3"], 2, "task"),
    ],
)
def test_what_cannot_be(arguments: list[str], code: int, words: str, tmp_path: Path) -> None:
    done = ovor("cost", *arguments, cwd=tmp_path)
    assert done.returncode == code
    assert words in done.stdout + done.stderr
    assert code != 1 or done.stdout == ""
    assert "Traceback" not in done.stderr
