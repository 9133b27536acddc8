"""Put the measured tables into the documents, between their markers, after a grid has run.

python -m docs.tables --out runs/grid    results of the grids to docs/results, then as below;
                                         rows that were not run stay as they are
python -m docs.tables                    docs/results to the documents

The figures of performance.md come by `python -m benchmarks --json docs/results/performance.json`,
those of data.md by `python -m benchmarks --only shards --json docs/results/data.json`, those of
scaling.md by `python -m benchmarks --only store --json docs/results/scaling.json`, those of
browser-solving.md by `python -m benchmarks --only device --json docs/results/device.json`, those
of text.md's speed by `python -m benchmarks --only texts --json docs/results/texts.json`.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

from benchmarks.table import as_markdown, from_json
from docs import (
    alternatives,
    analytic_options,
    browser,
    doubt,
    field,
    field_photos,
    older,
    own_method,
    photo_settings,
    photos,
    plan,
    text,
    text_depths,
    unknowns,
)
from ovor.experiments import summary
from ovor.experiments.tables import TABLES, Section, sections

DOCS = Path(__file__).parent
# What reports on the drawings are measured by, where no run of theirs has all data at once.
JOINT = DOCS.parent / "src/ovor/report/joint.json"
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
# Of these tables some rows only, by numbers of tasks (none: the table's own) and methods.
CHOSEN: dict[str, list[tuple[list[int], list[str]]]] = {
    "tasks-table": [([], ["oneprompt", "oneprompt+vor", "analytic"]), ([50, 100], ["analytic"])]
}


def results(name: str) -> Path:
    return DOCS / f"results/{name}-quickdraw.json"


def shown(name: str) -> list[Section]:
    """Return the parts of a table that the documents show."""
    chosen = CHOSEN.get(name, [([], [])])
    return [part for some in chosen for part in sections(name, ["quickdraw"], *some)[1]]


def with_kept(found: list[dict[str, Any]], kept: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what was found; rows that were run with fewer seeds this time are as they were."""
    old = {(part["title"], row["label"]): row for part in kept for row in part["rows"]}
    for part in found:
        part["rows"] = [
            max(row, old.get((part["title"], row["label"]), row), key=lambda one: len(one["seeds"]))
            for row in part["rows"]
        ]
    return found


def block(name: str, found: dict[str, Any]) -> str:
    table = summary.as_markdown(found["sections"], TABLES[name].measure)
    return f"<!-- table {name} -->\n{table}<!-- /table -->"


def benchmarked(name: str) -> str:
    """Of the last benchmarks whose figures were kept."""
    parts = json.loads((DOCS / f"results/{name}.json").read_text())["parts"]
    rows = [from_json(row) for part in parts.values() for row in part]
    return f"<!-- table {name} -->\n{as_markdown(rows)}<!-- /table -->"


def scripted() -> dict[str, tuple[str, str]]:
    """Return the tables of scripts, by name: the document, and what it shows.

    They come by `python -m docs.unknowns`, `docs.analytic_options`, `docs.alternatives`,
    `docs.older`, `docs.own_method`, `docs.text`, `docs.text_depths`, `docs.doubt`, `docs.browser`,
    `docs.field`, `docs.field_photos`, `docs.photo_settings` and `docs.photos --measure`.
    """

    def kept(name: str) -> Any:
        return json.loads((DOCS / f"results/{name}.json").read_text())

    runs, analytic, others = kept("unknowns"), kept("analytic"), kept("alternatives")
    found = {
        "unknowns": ("classifier.md", unknowns.as_markdown(runs)),
        "sizes": ("classifier.md", unknowns.as_markdown(runs, unknowns.SIZES)),
        "confidence": ("classifier.md", unknowns.as_markdown(runs, unknowns.CONFIDENCE)),
        "alternatives": ("alternatives.md", alternatives.as_markdown(others)),
        "seconds": ("alternatives.md", alternatives.as_seconds(others)),
        "older": ("exact-memory.md", older.as_markdown(kept("older"))),
        "photos": ("photos.md", photos.as_markdown(kept("photos"))),
        "browser": ("browser.md", browser.as_markdown(kept("browser"))),
        "doubt": ("analytic.md", doubt.as_markdown(kept("doubt"))),
        "text-depths": ("text.md", text_depths.as_markdown(kept("text-depths"))),
        "field": ("field.md", field.as_markdown(kept("field-quickdraw"))),
        "field-depths": ("field.md", field.as_depths(kept("field-quickdraw"))),
        "field-claims": ("field.md", field.as_claims(kept("field-quickdraw"))),
        "field-photos-all": ("field.md", own_method.as_markdown(kept("field-photos-all"))),
        "field-photos": ("field.md", field_photos.as_markdown(kept("field-photos"))),
        "field-photos-shift": ("field.md", field_photos.as_markdown(kept("field-photos-shift"))),
        "field-photo-settings": ("field.md", photo_settings.as_markdown(kept("photo-settings"))),
    }
    for name, part in kept("own-method").items():
        found[f"own-{name}"] = ("shapes.md", own_method.as_markdown(part))
    found["text-summary"] = ("../README.md", text.summary(kept("text")))
    found |= {name: ("text.md", table) for name, table in text.tables(kept("text")).items()}
    for name, (_, as_table) in analytic_options.PARTS.items():
        found[f"analytic-{name}"] = ("analytic.md", as_table(analytic[name]))
    return {
        name: (document, f"<!-- table {name} -->\n{table}<!-- /table -->")
        for name, (document, table) in found.items()
    }


def joint() -> dict[str, Any]:
    """Return what all data at once give on the drawings, for the report."""
    path = results("main-table")
    (part,) = json.loads(path.read_text())["sections"]
    (row,) = (row for row in part["rows"] if row["label"] == "joint")
    source = path.relative_to(DOCS.parent).as_posix()
    return {"quickdraw": {"A_T": row["A_T"], "backbone": row["backbone"], "source": source}}


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
            found = summary.collect(shown(name), TABLES[name].measure, SEEDS, out)
            before = results(name)
            kept = json.loads(before.read_text())["sections"] if before.exists() else []
            value = {"table": name, "seeds": SEEDS, "sections": with_kept(found, kept)}
            results(name).write_text(json.dumps(value, indent=1) + "\n")
        put(name, document, block(name, json.loads(results(name).read_text())))
    JOINT.write_text(json.dumps(joint(), indent=1) + "\n")
    put("performance", "performance.md", benchmarked("performance"))
    put("data", "data.md", benchmarked("data"))
    put("scaling", "scaling.md", benchmarked("scaling"))
    put("ranks", "scaling.md", benchmarked("ranks"))
    put("device", "browser-solving.md", benchmarked("device"))
    put("texts", "text.md", benchmarked("texts"))
    for name, (document, new) in scripted().items():
        put(name, document, new)
    put("plan", "scaling.md", planned())


def put(name: str, document: str, new: str) -> None:
    text = (DOCS / document).read_text()
    marked = re.compile(f"<!-- table {name} -->.*?<!-- /table -->", re.DOTALL)
    if not marked.search(text):
        raise SystemExit(f"{document} has no place for {name}.")
    (DOCS / document).write_text(marked.sub(lambda _: new, text))


if __name__ == "__main__":
    main()
