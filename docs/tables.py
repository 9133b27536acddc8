"""Put the measured tables into the documents, between their markers, after a grid has run.

python -m docs.tables --out runs/grid    results of the grids to docs/results, then as below
python -m docs.tables                    docs/results to the documents

The figures of performance.md come by `python -m benchmarks --json docs/results/performance.json`,
those of data.md by `python -m benchmarks --only shards --json docs/results/data.json`, those of
scaling.md by `python -m benchmarks --only store --json docs/results/scaling.json`.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

from benchmarks.table import as_markdown, from_json
from docs import plan
from docs.unknowns import as_markdown as as_rows
from ovor.experiments import summary
from ovor.experiments.tables import TABLES, sections

DOCS = Path(__file__).parent
SEEDS = [0, 1, 2, 3, 4]
# Tables measured on the drawings, and where they are shown.
MEASURED = {
    "main-table": "../README.md",
    "core": "results.md",
    "tasks-table": "results.md",
    "task-id-given": "results.md",
    "ablation": "results.md",
    "prompt-position": "results.md",
    "prompt-drift": "results.md",
    "representation-drift": "results.md",
}
# Of these tables some rows only.
METHODS = {"tasks-table": ["oneprompt", "oneprompt+vor"]}


def results(name: str) -> Path:
    return DOCS / f"results/{name}-quickdraw.json"


def block(name: str, found: dict[str, Any]) -> str:
    table = summary.as_markdown(found["sections"], TABLES[name].measure)
    return f"<!-- table {name} -->\n{table}<!-- /table -->"


def benchmarked(name: str) -> str:
    """Of the last benchmarks whose figures were kept."""
    parts = json.loads((DOCS / f"results/{name}.json").read_text())["parts"]
    rows = [from_json(row) for part in parts.values() for row in part]
    return f"<!-- table {name} -->\n{as_markdown(rows)}<!-- /table -->"


def unknowns() -> str:
    """Of the last `python -m docs.unknowns`."""
    runs = json.loads((DOCS / "results/unknowns.json").read_text())
    return f"<!-- table unknowns -->\n{as_rows(runs)}<!-- /table -->"


def planned() -> str:
    """By arithmetic on the benchmarks."""
    found = plan.measured()
    tables = "\n".join([plan.by_powers(found), plan.imagenet_21k(found), plan.by_gpus(found)])
    return f"<!-- table plan -->\n{tables}<!-- /table -->"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=None, help="folder of the grids' runs")
    out = parser.parse_args().out
    for name, document in MEASURED.items():
        if out:
            table, parts = sections(name, ["quickdraw"], [], METHODS.get(name, []))
            found = summary.collect(parts, table.measure, SEEDS, out)
            results(name).write_text(summary.as_json(name, SEEDS, found))
        put(name, document, block(name, json.loads(results(name).read_text())))
    put("performance", "performance.md", benchmarked("performance"))
    put("data", "data.md", benchmarked("data"))
    put("scaling", "scaling.md", benchmarked("scaling"))
    put("ranks", "scaling.md", benchmarked("ranks"))
    put("unknowns", "classifier.md", unknowns())
    put("plan", "scaling.md", planned())


def put(name: str, document: str, new: str) -> None:
    text = (DOCS / document).read_text()
    marked = re.compile(f"<!-- table {name} -->.*?<!-- /table -->", re.DOTALL)
    if not marked.search(text):
        raise SystemExit(f"{document} has no place for {name}.")
    (DOCS / document).write_text(marked.sub(lambda _: new, text))


if __name__ == "__main__":
    main()
