"""The page: one HTML file that needs no network, and the chart files beside it."""

import csv
import io
import json
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

from ovor.report.charts import HUES, SCHEMES, Chart, fill
from ovor.report.numbers import Records
from ovor.report.sections import Content
from ovor.tensor_file import write_atomically

SCHEMA = 1  # of what the page and --json hold
SHOW = "window.vegaEmbed = vegaEmbed;"  # all that page.js needs of the bundle
DASHES: dict[bool, list[int]] = {False: [1, 0], True: [6, 3]}
SHAPES = {False: "circle", True: "triangle-up"}


def html(contents: list[Content], title: str, notes: list[str]) -> str:
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(asset("page.html")).render(
        title=title,
        notes=notes,
        groups=contents,
        schemes=SCHEMES,
        css=asset("page.css"),
        script=asset("page.js"),
        vega=vega(),
        results=in_script(results(contents, notes)),
        charts=in_script(chart_data(contents)),
        version=version("ovor"),
    )


def asset(name: str) -> str:
    return (files("ovor") / "report" / name).read_text("utf-8")


@cache
def vega() -> str:
    import vl_convert

    return vl_convert.javascript_bundle(SHOW).replace("</script", "<\\/script")


def in_script(value: Any) -> str:
    """JSON in which no name can end the script that it stands in."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def results(contents: list[Content], notes: list[str]) -> dict[str, Any]:
    """The numbers of the tables."""
    return {
        "schema": SCHEMA,
        "notes": notes,
        "groups": [
            {
                "title": group.title,
                "facts": group.facts,
                "rows": group.rows,
                "differences": group.differences,
            }
            for group in contents
        ],
    }


def as_json(contents: list[Content], notes: list[str]) -> str:
    """All numbers of the page, those of the charts too."""
    found = results(contents, notes)
    for group, part in zip(found["groups"], contents, strict=True):
        group["charts"] = {chart.name: chart.records for chart in part.charts}
    return json.dumps(found, allow_nan=False)


def chart_data(contents: list[Content]) -> list[dict[str, Any]]:
    return [
        {
            "methods": group.methods,
            "picked": group.picked,
            "charts": {chart.name: one_chart(chart) for chart in group.charts},
        }
        for group in contents
    ]


def one_chart(chart: Chart) -> dict[str, Any]:
    return {
        "spec": chart.spec,
        "choose": chart.choose,
        "panels": chart.panels,
        "picks": chart.picks,
        "shared": chart.shared,
        "columns": columns(chart.records),
    }


def columns(records: Records) -> dict[str, Any]:
    """A list a column, in which words are numbers into a list: a tenth of the records' size."""
    found: dict[str, Any] = {}
    for name in header(records):
        values = [record.get(name) for record in records]
        if any(isinstance(value, str) for value in values):
            words = list(dict.fromkeys(values))
            places = {word: place for place, word in enumerate(words)}
            found[name] = {"words": words, "at": [places[value] for value in values]}
        else:
            found[name] = values
    return found


def header(records: Records) -> list[str]:
    return list(dict.fromkeys(name for record in records for name in record))


# --- files for a paper -----------------------------------------------------------------------


def as_csv(records: Records) -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, header(records), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def chart_files(contents: list[Content]) -> Iterator[tuple[str, Content, Chart]]:
    """Charts with their names as files; of several groups, each has its number in front."""
    for number, group in enumerate(contents, 1):
        prefix = f"{number}-" if len(contents) > 1 else ""
        for chart in group.charts:
            yield prefix + chart.name, group, chart


def write_csv(contents: list[Content], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, _, chart in chart_files(contents):
        write_atomically(folder / f"{name}.csv", as_csv(chart.records).encode())


def write_svg(contents: list[Content], folder: Path) -> None:
    import vl_convert

    folder.mkdir(parents=True, exist_ok=True)
    for name, group, chart in chart_files(contents):
        for ending, spec in drawings(chart, group):
            path = folder / f"{safe(name + ending)}.svg"
            write_atomically(path, vl_convert.vegalite_to_svg(spec).encode())


def safe(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_+." else "-" for c in name)


def drawings(chart: Chart, group: Content) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every panel of every choice, as page.js would draw it in light colours."""
    for choice in values_of(chart.records, chart.choose):
        chosen = [one for one in chart.records if not chart.choose or one[chart.choose] == choice]
        limits = shared_limits(chart, chosen)
        for panel in values_of(chosen, chart.panels):
            shown = [one for one in chosen if not chart.panels or one[chart.panels] == panel]
            values = {**limits, **colored(group.picked), "panel": panel}
            spec = fill(chart.spec, values)
            yield f"-{panel}" if panel else "", light({**frame(panel), **spec}, shown)


def values_of(records: Records, column: str | None) -> list[Any]:
    return list(dict.fromkeys(one[column] for one in records)) if column else [None]


def shared_limits(chart: Chart, records: Records) -> dict[str, float]:
    found: dict[str, float] = {}
    for column in chart.shared:
        values = [one[column] for one in records if one[column] is not None]
        found |= {f"{column}_min": min(values), f"{column}_max": max(values)}
    return found


def colored(picked: list[str]) -> dict[str, Any]:
    """The same hue with and without VOR, which is dashed."""
    families = list(dict.fromkeys(name.removesuffix("+vor") for name in picked))
    hues = [HUES[families.index(name.removesuffix("+vor")) % len(HUES)] for name in picked]
    vor = [name.endswith("+vor") for name in picked]
    return {
        "picked": picked,
        "colors": hues,
        "dashes": [DASHES[with_vor] for with_vor in vor],
        "shapes": [SHAPES[with_vor] for with_vor in vor],
    }


def frame(panel: str | None) -> dict[str, Any]:
    return {
        "width": 460,
        "background": "white",
        "title": panel or "",
        "config": {"view": {"stroke": None}, "legend": {"orient": "bottom"}},
    }


def light(spec: dict[str, Any], records: Records) -> dict[str, Any]:
    text = json.dumps(with_legends({**spec, "data": {"values": records}}))
    for name, color in {**SCHEMES["light"], "muted": "#6e7781", "on-heat": "#ffffff"}.items():
        text = text.replace(f"var(--{name})", color)
    return json.loads(text)  # type: ignore[no-any-return]


def with_legends(spec: dict[str, Any]) -> dict[str, Any]:
    """On the page the buttons below a chart are its legend; a file needs one inside."""
    for part in spec.get("layer", []):
        second = {"strokeDash", "shape"} & part.get("encoding", {}).keys()
        for channel in ("color", *second) if second else ():
            part["encoding"][channel]["legend"] = {"title": None, "columns": 3, "symbolSize": 120}
    return spec
