"""What a chart is, the colours of the page, and the pieces of Vega-Lite that charts share.

Colours are CSS variables of the page, so that light, dark and paper need no second drawing.
`@name` stands for what the reader chooses: page.js puts it in, or `fill` for a file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Spec = dict[str, Any]
Records = list[dict[str, Any]]

# Okabe and Ito's colours and two more, which colour-blind people tell apart, on white and on dark.
PALETTE = {
    "light": "#0072b2 #d55e00 #009e73 #cc79a7 #b8860b #56b4e9 #6a51a3 #7f7f7f",
    "dark": "#5ab0ee #ff8c52 #35c9a0 #e6a1cb #e8b93c #a5dcff #b7a3e8 #bdbdbd",
}
HEAT = {  # from none to all
    "light": "#f4f8fc #e1ecf6 #cbdef0 #abcfe6 #82badb #58a1cf #3787c0 #1b69af #08488f",
    "dark": "#17212d #1b2f44 #1f3f5e #245179 #2b6596 #367bb2 #4c93cb #71b0e0 #a8d3f5",
}
TEXT = {
    "light": {"ink": "#1f2328", "paper": "#ffffff", "faint": "#c3c9d0"},
    "dark": {"ink": "#e6e8eb", "paper": "#14181d", "faint": "#4a525c"},
}
SCHEMES = {  # every CSS variable by its name
    name: {
        **{f"c{i}": color for i, color in enumerate(PALETTE[name].split())},
        **{f"h{i}": color for i, color in enumerate(HEAT[name].split())},
        **TEXT[name],
    }
    for name in PALETTE
}
INK, PAPER, FAINT, MUTED = "var(--ink)", "var(--paper)", "var(--faint)", "var(--muted)"
HUES = [f"var(--c{i})" for i in range(8)]
SHADES = [f"var(--h{i})" for i in range(9)]
FREE = {"zero": False}  # an axis that begins elsewhere than at 0, which its title then says
PLACE = {"zero": False, "nice": True}  # one on which 0 means nothing
PERCENT = {"domain": [0, 100]}
BESIDE, ROOM = 0.06, 0.5  # tasks between the bars of two methods, and for all of them at most
NO_GRID = {"grid": False}
NO_SPEC: Spec = {}
CROSS = "M-1,-1L1,1M-1,1L1,-1"
PICKED = {"field": "method", "oneOf": "@picked"}
NOT_PICKED = {"not": PICKED}


@dataclass(frozen=True)
class Chart:
    """One chart of the page, drawn once for each choice and panel."""

    name: str
    title: str
    alt: str  # for those who cannot see it
    records: Records
    spec: Spec
    choose: str | None = None  # column of which the reader chooses one value
    panels: str | None = None  # column whose values are drawn side by side
    picks: bool = False  # whether the picked methods alone are in colour
    shared: tuple[str, ...] = ()  # columns whose @column_min and @column_max all panels have


def fill(spec: Any, values: Mapping[str, Any]) -> Any:
    """Return the specification with its placeholders replaced by values, as page.js does it."""
    if isinstance(spec, dict):
        return {key: fill(part, values) for key, part in spec.items()}
    if isinstance(spec, list):
        return [fill(part, values) for part in spec]
    if isinstance(spec, str) and spec.startswith("@"):
        return values[spec[1:]]
    return spec


def row_count(spec: Spec, records: Records) -> int | None:
    """Return how many rows a chart has whose height is so many pixels for each, as page.js does."""
    if not isinstance(spec.get("height"), dict):
        return None
    return len({record[spec["height"]["rows"]] for record in records})


def layer(mark: Spec, encoding: Spec, where: Spec | None = None) -> Spec:
    """Return one layer of a chart: a mark for every record that `where` holds for."""
    transform = {"transform": [{"filter": where}]} if where else {}
    return {**transform, "mark": mark, "encoding": encoding}


def quantity(name: str, title: str, scale: Spec = NO_SPEC, axis: Spec = NO_SPEC) -> Spec:
    """Return an axis along which a column of numbers is placed."""
    cut = scale.get("zero") is False and scale != PLACE
    axis = {"title": f"{title}, not from 0" if cut else title, "grid": True, **axis}
    return {"field": name, "type": "quantitative", "axis": axis, "scale": scale}


def task_number(title: str) -> Spec:
    """Return an axis of task numbers, labelled at whole numbers only."""
    label = "datum.value % 1 ? '' : datum.label"  # with few tasks there are ticks between them
    axis = {"title": title, "tickMinStep": 1, "format": "d", "grid": False, "labelExpr": label}
    scale = {"zero": False, "nice": False, "padding": 8}
    return {"field": "task", "type": "quantitative", "axis": axis, "scale": scale}


def method_rows(records: Records, width: int) -> Spec:
    """Return an axis with a row for each method, in table order, its labels `width` pixels wide."""
    methods = list(dict.fromkeys(record["method"] for record in records))
    axis = {"title": "", "labelLimit": width}
    return {"field": "method", "type": "nominal", "sort": methods, "axis": axis}


def category(name: str, values: Sequence[str], colors: Sequence[str]) -> Spec:
    """Return a colour for each value of a column, with a legend, as wide as the page allows."""
    scale = {"domain": list(values), "range": list(colors)}
    legend: Spec = {"title": None}
    return {"field": name, "type": "nominal", "scale": scale, "legend": legend}


def by_method(values: str) -> Spec:
    """Return a scale over the picked methods; the buttons below the chart are its legend."""
    scale = {"domain": "@picked", "range": values}
    return {"field": "method", "type": "nominal", "legend": None, "scale": scale}


def tooltip(*names: str) -> list[Spec]:
    """Return a tooltip that shows these columns."""
    return [{"field": name, "title": name.replace("_", " ")} for name in names]
