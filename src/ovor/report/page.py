"""The page: one HTML file that needs no network, and the same numbers as JSON."""

import json
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import jinja2

from ovor.report.content import Content
from ovor.report.sections import Section
from ovor.report.vega import SCHEMES, Chart, Records

SCHEMA = 1  # of what the page and --json hold
SHOW = "window.vegaEmbed = vegaEmbed;"  # all that page.js needs of the bundle


def html(
    contents: list[Content], title: str, notes: list[str], overview: Section | None = None
) -> str:
    """Return the page, with its style, its script, its data and Vega inside."""
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["unbroken"] = unbroken
    return environment.from_string(asset("page.html")).render(
        title=title,
        notes=notes,
        overview=overview,
        groups=contents,
        schemes=SCHEMES,
        css=asset("page.css"),
        script=asset("page.js"),
        vega=vega(),
        results=in_script(results(contents, notes)),
        charts=in_script(chart_data(contents)),
        version=version("ovor"),
    )


def unbroken(text: str) -> str:
    """Keep a number and its percent sign on one line."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def asset(name: str) -> str:
    return (files("ovor") / "report" / name).read_text("utf-8")


@cache
def vega() -> str:
    """Return the script that draws Vega-Lite, as vl-convert carries it."""
    import vl_convert

    return vl_convert.javascript_bundle(SHOW).replace("</script", "<\\/script")


def in_script(value: Any) -> str:
    """Return JSON in which no name can end the script that it stands in."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def results(contents: list[Content], notes: list[str]) -> dict[str, Any]:
    """Return the numbers of the tables."""
    names = ("title", "summary", "facts", "rows", "differences")
    groups = [{name: getattr(group, name) for name in names} for group in contents]
    return {"schema": SCHEMA, "notes": notes, "groups": groups}


def as_json(contents: list[Content], notes: list[str]) -> str:
    """Return all numbers of the page as JSON, those of the charts too."""
    found = results(contents, notes)
    for group, part in zip(found["groups"], contents, strict=True):
        group["charts"] = {chart.name: chart.records for chart in part.charts}
    return json.dumps(found, allow_nan=False)


def chart_data(contents: list[Content]) -> list[dict[str, Any]]:
    """Return what page.js draws: the methods, the charts and their data, group by group."""
    return [
        {
            "methods": group.methods,
            "picked": group.picked,
            "charts": {chart.name: one_chart(chart) for chart in group.charts},
        }
        for group in contents
    ]


def one_chart(chart: Chart) -> dict[str, Any]:
    names = ("spec", "choose", "panels", "picks", "shared")
    return {**{name: getattr(chart, name) for name in names}, "columns": columns(chart.records)}


def columns(records: Records) -> dict[str, Any]:
    """Return the records by column, a tenth of their size: words are numbers into a list."""
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
