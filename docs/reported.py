"""Make docs/reported.md: what authors report, and the command that checks ours.

The figures are in docs/results/reported.json, each with its source, and in paper.json.

    python -m docs.reported
"""

import json
from pathlib import Path
from typing import Any

from ovor.learners import METHODS
from ovor.paper import paper
from ovor.presets import PAPER, settings

DOCS = Path(__file__).parent
FILE = DOCS / "results/reported.json"
PAGE = DOCS / "reported.md"
BACKBONE = "vit_base_patch16_224"
OVOR_PAPER = "the OVOR paper (ICLR 2024), main tables"
QUOTED = ("l2", "a-prompt", "simplecil", "adam")  # there from other papers
ADAM = "adam-adapter"  # the paper has one row for all ways of ADAM
# What the command does not do that the figures are of (docs/methods.md has the rest).
DIFFERS = {
    "ease": "old means put together once, not after every task",
    "fecam": "tuned with adapters at RanPAC's rate, which is a guess",
    "klda": "one draw of random features, not the vote of several; kernel and ridge are our "
    "defaults, relative to the features (released by the same authors for DINOv2: gamma 1e-4, "
    "ridge 1e-3 on the sums)",
    "anacp": "tuned at RanPAC's rate: adapters with a ReLU, a cosine head, SGD (released: linear "
    "adapters and head, ten epochs of Adam, 1e-3 for the head and 1e-4 for the adapters)",
    "rsiat": "the paper's losses, not the released ones",
    "ssiat": "movement between the same views, means not shrunk",
}
# What is fed to DINOv2 by the processor that its figures are with: the size of the crop, and how
# pixels are normalised.
DINO = (
    "--transform.size 224 --transform.interpolation bicubic "
    "--transform.mean 0.485 0.456 0.406 --transform.std 0.229 0.224 0.225"
)
# Of these the figures are with a tuning on the first task, which ours do if they are told to.
FIRST_TASK = ("fecam", "anacp")


def reported() -> dict[str, Any]:
    return json.loads(FILE.read_text())  # type: ignore[no-any-return]


def of_paper() -> list[dict[str, Any]]:
    """Return the rows of the OVOR paper on ImageNet-R in 10 tasks, by our names."""
    rows = []
    for name, found in paper()["accuracy_A_T"].items():
        mean = (found.get("imagenet-r/10") or {}).get("mean")
        method = {"adam": ADAM, "ovor": "oneprompt+vor", "ovor-deep": "oneprompt-deep+vor"}
        rows.append(
            {
                "method": method.get(name, name),
                "data": "imagenet-r",
                "tasks": 10,
                "checkpoint": PAPER.backbone.partition(".")[2],
                "order": "paper",
                "seeds": None if name in QUOTED else len(paper()["seeds"]),
                "last": mean,
                "average": None,
                "source": OVOR_PAPER + (", from another paper" if name in QUOTED else ""),
            }
        )
    return rows


def command(row: dict[str, Any]) -> str:
    """Return what checks a row: the run of one seed."""
    words = [f"ovor run --method {row['method']} --data {row['data']} --tasks {row['tasks']}"]
    checkpoint = row["checkpoint"]
    whole = checkpoint.startswith("vit_")
    words.append(f"--backbone {checkpoint if whole else f'{BACKBONE}.{checkpoint}'}")
    if "dinov2" in checkpoint:
        words.append(DINO)
    if row["order"] != "paper":
        words.append(f"--order {row['order']}")
    if row["method"] in FIRST_TASK:
        like = settings(row["data"], "ranpac")
        words.append(f"--method.tuning adapter --lr {like.lr} --schedule {like.schedule}")
        words.append(f"--epochs {like.epochs} --batch-size {like.batch_size}")
    return " ".join(words)


def figure(number: float | None) -> str:
    return "" if number is None else f"{number:.2f}"


def table(rows: list[dict[str, Any]]) -> str:
    heads = ["method", "data, tasks", "checkpoint", "seeds", "last", "average", "source"]
    lines = [[*heads, "ours differs in"], ["---"] * 8]
    for row in rows:
        cells = [
            f"`{row['method']}`",
            f"{row['data']}, {row['tasks']}",
            row["checkpoint"],
            str(row["seeds"] or "?"),
            figure(row["last"]),
            figure(row["average"]),
            row["source"],
            DIFFERS.get(row["method"], ""),
        ]
        lines.append(cells)
    if not any(cells[-1] for cells in lines[2:]):
        lines = [cells[:-1] for cells in lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines).replace(" --- ", "---")


def commands(rows: list[dict[str, Any]]) -> str:
    return "\n".join(["```", *dict.fromkeys(map(command, rows)), "```"])


def none() -> str:
    """Return a line for each method of which no figure was found."""
    found = reported()["none"]
    return "\n".join(f"- `{name}`: {found[name]}" for name in METHODS if name in found)


def block(name: str) -> str:
    rows = reported()["rows"]
    parts = {
        "rows": lambda: table(rows),
        "paper": lambda: table(of_paper()),
        "none": none,
        "commands": lambda: commands(rows),
    }
    return f"<!-- {name} -->\n{parts[name]()}\n<!-- /{name} -->"


def made(text: str) -> str:
    """Return the page with its tables as the figures are now."""
    for name in ("rows", "paper", "none", "commands"):
        before, after = text.split(f"<!-- {name} -->")[0], text.split(f"<!-- /{name} -->")[1]
        text = before + block(name) + after
    return text


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text()))
