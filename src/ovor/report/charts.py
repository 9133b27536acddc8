"""The charts of a group as Vega-Lite, each with the table that it draws and the words beside it.

Colours are CSS variables of the page, so light and dark and paper need no second drawing; `@name`
stands for what the reader chooses, and the page's script or `fill` puts it in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ovor.report.numbers import DRIFT_WORDS, KINDS, Records
from ovor.report.timing import PHASES

Spec = dict[str, Any]

# Okabe and Ito's colours and two more, which colour-blind people tell apart, on white and on dark.
PALETTE = {
    "light": (
        "#0072b2",
        "#d55e00",
        "#009e73",
        "#cc79a7",
        "#b8860b",
        "#56b4e9",
        "#6a51a3",
        "#7f7f7f",
    ),
    "dark": (
        "#5ab0ee",
        "#ff8c52",
        "#35c9a0",
        "#e6a1cb",
        "#e8b93c",
        "#a5dcff",
        "#b7a3e8",
        "#bdbdbd",
    ),
}
HEAT = {  # from none to all
    "light": (
        "#f4f8fc",
        "#e1ecf6",
        "#cbdef0",
        "#abcfe6",
        "#82badb",
        "#58a1cf",
        "#3787c0",
        "#1b69af",
        "#08488f",
    ),
    "dark": (
        "#17212d",
        "#1b2f44",
        "#1f3f5e",
        "#245179",
        "#2b6596",
        "#367bb2",
        "#4c93cb",
        "#71b0e0",
        "#a8d3f5",
    ),
}
OTHERS = {"light": ("#1f2328", "#ffffff", "#c3c9d0"), "dark": ("#e6e8eb", "#14181d", "#4a525c")}
INK, PAPER, FAINT = "var(--ink)", "var(--paper)", "var(--faint)"
SCHEMES = {
    name: {
        **{f"c{i}": color for i, color in enumerate(PALETTE[name])},
        **{f"h{i}": color for i, color in enumerate(HEAT[name])},
        **dict(zip(("ink", "paper", "faint"), OTHERS[name], strict=True)),
    }
    for name in PALETTE
}
HUES = [f"var(--c{i})" for i in range(len(PALETTE["light"]))]
SHADES = [f"var(--h{i})" for i in range(len(HEAT["light"]))]
EVEN = [round(100 * i / 9, 1) for i in range(1, 9)]  # percent from which the next shade begins
FINE = [2, 4, 7, 11, 16, 25, 40, 60]  # for shares most of which are small
WITH_NUMBERS = 12  # tasks up to which the cells of a matrix have their number written in
FREE = {"zero": False}  # an axis need not begin at 0 where no bar does
CROSS = "M-1,-1L1,1M-1,1L1,-1"
FEW = 8  # methods up to which all are drawn in colour


@dataclass(frozen=True)
class Chart:
    name: str
    title: str
    alt: str  # for those who cannot see it
    records: Records
    spec: Spec
    choose: str | None = None  # column of which the reader chooses one value
    panels: str | None = None  # column whose values are drawn side by side
    picks: bool = False  # are some methods picked to be in colour?
    shared: tuple[str, ...] = ()  # columns whose @column_min and @column_max all panels have


def fill(spec: Any, values: Mapping[str, Any]) -> Any:
    """The specification with the values of its placeholders, as page.js does it."""
    if isinstance(spec, dict):
        return {key: fill(part, values) for key, part in spec.items()}
    if isinstance(spec, list):
        return [fill(part, values) for part in spec]
    if isinstance(spec, str) and spec.startswith("@"):
        return values[spec[1:]]
    return spec


def amount(name: str, title: str, scale: Spec | None = None, grid: bool = True) -> Spec:
    """A number along an axis."""
    axis = {"title": title, "grid": grid}
    return {"field": name, "type": "quantitative", "axis": axis, "scale": scale or {}}


def sorts(name: str, domain: Sequence[str], colors: Sequence[str], columns: int) -> Spec:
    """What kind of thing it is, by colour, with a legend."""
    scale = {"domain": list(domain), "range": list(colors)}
    legend = {"title": None, "columns": columns}
    return {"field": name, "type": "nominal", "scale": scale, "legend": legend}


def in_rows(records: Records, width: int) -> Spec:
    """Methods from above, in the order of the table, in so many pixels for their names."""
    methods = list(dict.fromkeys(record["method"] for record in records))
    axis = {"title": "", "labelLimit": width}
    return {"field": "method", "type": "nominal", "sort": methods, "axis": axis}


def tooltip(*names: str) -> list[Spec]:
    return [{"field": name, "title": name.replace("_", " ")} for name in names]


def whole_numbers(name: str, title: str) -> Spec:
    axis = {"title": title, "tickMinStep": 1, "format": "d", "grid": False}
    return {"field": name, "type": "quantitative", "axis": axis}


# --- lines over tasks ------------------------------------------------------------------------


def picked_lines(value: str, title: str, x_title: str) -> Spec:
    """Every method as a faint line; those that are picked in colour, with VOR dashed."""
    picked: Spec = {"filter": {"field": "method", "oneOf": "@picked"}}
    x, y = whole_numbers("task", x_title), amount(value, title, FREE)
    color = by_method("@colors")
    dash = by_method("@dashes")
    told = tooltip("method", "task", value, "low", "high")
    return {
        "height": 340,
        "layer": [
            {
                "transform": [{"filter": {"not": picked["filter"]}}],
                "mark": {"type": "line", "color": FAINT, "strokeWidth": 1},
                "encoding": {"x": x, "y": y, "detail": {"field": "method"}},
            },
            {
                "transform": [picked],
                "mark": {"type": "area", "opacity": 0.14},
                "encoding": {
                    "x": x,
                    "y": amount("low", title, FREE),
                    "y2": {"field": "high"},
                    "color": color,
                },
            },
            {
                "transform": [picked],
                "mark": {"type": "line", "strokeWidth": 2.2},
                "encoding": {"x": x, "y": y, "color": color, "strokeDash": dash},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 60, "opacity": 0.001},
                "encoding": {"x": x, "y": y, "tooltip": told},
            },
            {
                "transform": [picked],
                "mark": {"type": "point", "filled": True, "size": 26, "opacity": 1},
                "encoding": {"x": x, "y": y, "color": color, "tooltip": told},
            },
        ],
    }


def curves(records: Records) -> Chart:
    return Chart(
        "curves",
        "Accuracy after each task",
        "Lines: mean accuracy over the tasks so far, after each task, by method.",
        records,
        picked_lines("accuracy", "accuracy over the tasks so far (%)", "after task"),
        picks=True,
    )


def changed(records: Records) -> Chart:
    return Chart(
        "changes",
        "Change of each task's accuracy, with the task given",
        "Lines: by how many points a task's accuracy with the task given changed, by method.",
        records,
        picked_lines("change", "change since learned (points)", "task"),
        picks=True,
    )


def drift(records: Records) -> Chart:
    color = sorts("measure", list(DRIFT_WORDS.values()), HUES[: len(DRIFT_WORDS)], 2)
    return Chart(
        "drift",
        "Drift of prompt and features",
        "Lines: similarity in percent before and after each task, by measure.",
        records,
        {
            "height": 280,
            "mark": {"type": "line", "point": True},
            "encoding": {
                "x": whole_numbers("task", "task"),
                "y": amount("percent", "similarity (%)", FREE),
                "color": color,
                "tooltip": tooltip("method", "measure", "task", "percent"),
            },
        },
        panels="method",
    )


# --- matrices --------------------------------------------------------------------------------


def heat(records: Records, x: str, y: str, value: str, edges: Sequence[float]) -> Spec:
    """Cells in nine shades, from one edge to the next; with numbers if there is room for them."""
    places = {
        "x": {
            "field": x,
            "type": "ordinal",
            "axis": {"title": x, "orient": "top", "labelAngle": 0, "domain": False},
        },
        "y": {"field": y, "type": "ordinal", "axis": {"title": y, "domain": False}},
    }
    side = max((record[x] for record in records), default=1)
    scale = {"type": "threshold", "domain": list(edges), "range": SHADES}
    told = tooltip("method", y, x, value)
    cells: Spec = {
        "mark": {"type": "rect", "stroke": PAPER, "strokeWidth": 1},
        "encoding": {
            **places,
            "color": {"field": value, "type": "quantitative", "scale": scale, "legend": None},
            "tooltip": told,
        },
    }
    on_dark = {"test": f"datum['{value}'] >= {edges[5]}", "value": "var(--on-heat)"}
    words: Spec = {
        "mark": {"type": "text", "fontSize": 11},
        "encoding": {
            **places,
            "text": {"field": value, "type": "quantitative", "format": ".0f"},
            "color": {"condition": on_dark, "value": INK},
            "tooltip": told,
        },
    }
    layers = [cells, words] if side <= WITH_NUMBERS else [cells]
    return {"height": {"step": max(14, min(30, 330 // side))}, "layer": layers}


def matrix(records: Records) -> Chart:
    return Chart(
        "matrix",
        "Accuracy of every task after every task",
        "Matrix: accuracy in percent on a task (column) after a task (row).",
        records,
        heat(records, "on task", "after task", "accuracy", EVEN),
        choose="family",
        panels="method",
    )


def confusion(records: Records) -> Chart:
    return Chart(
        "confusion",
        "Which task's images are taken for which task's",
        "Matrix: percent of a task's test images (row) that are taken for a task's (column).",
        records,
        heat(records, "predicted task", "true task", "percent", FINE),
        choose="family",
        panels="method",
    )


# --- bars ------------------------------------------------------------------------------------


def bars(records: Records, value: str, title: str, color: str, order: Sequence[str]) -> Spec:
    domain = [name for name in order if any(record[color] == name for record in records)]
    return {
        "height": {"step": 20},
        "mark": {"type": "bar", "height": {"band": 0.75}},
        "encoding": {
            "y": in_rows(records, 150),
            "x": {**amount(value, title), "stack": "zero"},
            "color": sorts(color, domain, HUES[: len(domain)], 1),
            "order": {"field": "place", "type": "quantitative"},
            "tooltip": tooltip("method", color, value),
        },
        "transform": [
            {"calculate": f"indexof({domain!r}, datum['{color}'])", "as": "place"},
        ],
    }


def error_bars(records: Records) -> Chart:
    order = ["another task's class", "its own task, wrong class"]
    return Chart(
        "errors",
        "Errors between tasks and within them",
        "Bars: percent of test images taken for another task's class, or for a wrong one of their "
        "own task's, by method.",
        records,
        bars(records, "percent", "test images (%)", "taken for", order),
    )


def times(records: Records) -> Chart:
    return Chart(
        "time",
        "Time by phase",
        "Bars: seconds of a run by phase, by method.",
        records,
        bars(records, "seconds", "seconds per run, mean over seeds", "phase", PHASES),
    )


def difference_bars(records: Records) -> Chart:
    y = in_rows(records, 170)
    test = "datum.low != null && (datum.low > 0 || datum.high < 0)"
    color = {"condition": {"test": test, "value": HUES[0]}, "value": "var(--muted)"}
    x = amount("mean", "difference (points), with 95 % interval")
    told = tooltip("method", "against", "mean", "low", "high", "seeds")
    return Chart(
        "differences",
        "Differences with their intervals",
        "Points with intervals: differences of A_T and F_T between methods.",
        records,
        {
            "height": {"step": 18},
            "layer": [
                {"mark": {"type": "rule", "color": INK}, "encoding": {"x": {"datum": 0}}},
                {
                    "mark": {"type": "rule", "strokeWidth": 2},
                    "encoding": {
                        "y": y,
                        "x": {**x, "field": "low"},
                        "x2": {"field": "high"},
                        "color": color,
                        "tooltip": told,
                    },
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 45, "opacity": 1},
                    "encoding": {"y": y, "x": x, "color": color, "tooltip": told},
                },
            ],
        },
        panels="what",
    )


# --- one head from near ----------------------------------------------------------------------


def energies(records: Records, taus: Records) -> Chart:
    color = sorts("of", list(KINDS.values()), HUES[: len(KINDS)], 2)
    color["legend"] |= {"symbolType": "square", "symbolOpacity": 0.7}
    reach = {"domain": ["@energy_min", "@energy_max"], "nice": False}
    x = amount("energy", "energy: low where the head says “mine”", reach)
    y = amount("percent", "share (%)", {"domain": [0, "@percent_max"]})
    limits = {"filter": {"field": "of", "oneOf": ["tau current", "tau outlier"]}}
    return Chart(
        "energies",
        "Energies of one task's head",
        "Histograms: energies that the head of the middle task gives to its own test images, to "
        "virtual outliers and to other tasks' test images.",
        records + [{**tau, "percent": None} for tau in taus],
        {
            "height": 230,
            "layer": [
                {
                    "transform": [{"filter": {"not": limits["filter"]}}],
                    "mark": {"type": "area", "interpolate": "step", "opacity": 0.3, "line": True},
                    "encoding": {
                        "x": x,
                        "y": {**y, "stack": None},
                        "color": color,
                        "tooltip": tooltip("method", "of", "energy", "percent"),
                    },
                },
                {
                    "transform": [limits],
                    "mark": {"type": "rule", "strokeDash": [5, 4], "color": INK},
                    "encoding": {"x": x, "tooltip": tooltip("of", "energy")},
                },
                tau_label(x, "tau current", "left"),
                tau_label(x, "tau outlier", "right"),
            ],
        },
        choose="family",
        panels="method",
        shared=("energy", "percent"),
    )


def tau_label(x: Spec, which: str, align: str) -> Spec:
    """Inwards from its line: the one is at the left of the picture, the other at the right."""
    shift = 4 if align == "left" else -4
    mark = {"type": "text", "align": align, "dx": shift, "baseline": "top", "color": INK}
    return {
        "transform": [{"filter": {"field": "of", "equal": which}}],
        "mark": mark,
        "encoding": {"x": x, "y": {"value": 2}, "text": {"field": "of"}},
    }


def planes(records: Records) -> Chart:
    kinds = ["feature", "boundary sample", "outlier"]
    shapes = {"domain": kinds, "range": ["circle", "diamond", CROSS]}
    encoding = {
        "x": amount("x", "first principal component", FREE, grid=False),
        "y": amount("y", "second", FREE, grid=False),
        "color": sorts("kind", kinds, [HUES[0], INK, HUES[1]], 3),
        "shape": {"field": "kind", "type": "nominal", "scale": shapes},
        "tooltip": tooltip("kind", "class", "x", "y", "shown"),
    }
    return Chart(
        "plane",
        "Features and virtual outliers in a plane",
        "Points: features of the middle task, its boundary samples and its virtual outliers, on "
        "two principal components.",
        records,
        {
            "height": 340,
            "mark": {"type": "point", "opacity": 0.75, "strokeWidth": 1.2, "size": 26},
            "encoding": encoding,
        },
        choose="family",
        panels="method",
    )


# --- cost ------------------------------------------------------------------------------------


def costs(records: Records) -> Chart:
    """On a logarithmic axis, where nothing at all stands a tenth left of the least."""
    least = min((record["learned parameters"] for record in records), key=lambda n: n or 10**9)
    nothing = 10 ** (max(2, len(str(least))) - 2)
    ticks = [nothing * 10**step for step in range(14)]
    x = {
        "field": "place",
        "type": "quantitative",
        "scale": {"type": "log", "nice": False, "padding": 24},
        "axis": {
            "title": "learned parameters",
            "values": ticks,
            "labelExpr": f"datum.value == {nothing} ? '0' : format(datum.value, '~s')",
            "grid": False,
        },
    }
    place = f"datum['learned parameters'] > 0 ? datum['learned parameters'] : {nothing}"
    return Chart(
        "cost",
        "Learned parameters against accuracy",
        "Points: A_T against the number of learned parameters, by method.",
        records,
        {"transform": [{"calculate": place, "as": "place"}], **scatter(x)},
        picks=True,
    )


def work(records: Records) -> Chart:
    x = {
        "field": "multiply-accumulates",
        "type": "quantitative",
        "scale": {"zero": False, "padding": 24},
        "axis": {
            "title": "multiply-accumulates per image",
            "format": "~s",
            "grid": False,
            "tickCount": 6,
        },
    }
    return Chart(
        "work",
        "Work per image against accuracy",
        "Points: A_T against multiply-accumulates per image, by method.",
        records,
        scatter(x),
        picks=True,
    )


def scatter(x: Spec) -> Spec:
    """Every method as a grey point; those that are picked in colour, with VOR as a triangle."""
    picked = {"field": "method", "oneOf": "@picked"}
    y = {
        "field": "A_T",
        "type": "quantitative",
        "axis": {"title": "A_T (%)"},
        "scale": {"zero": False, "padding": 12},
    }
    places = {"x": x, "y": y}
    told = tooltip("method", "learned parameters", "multiply-accumulates", "A_T")
    grey = {"type": "point", "filled": True, "size": 45, "color": "var(--muted)", "opacity": 0.6}
    return {
        "height": 280,
        "layer": [
            {
                "transform": [{"filter": {"not": picked}}],
                "mark": grey,
                "encoding": {**places, "tooltip": told},
            },
            {
                "transform": [{"filter": picked}],
                "mark": {"type": "point", "filled": True, "size": 95, "opacity": 0.9},
                "encoding": {
                    **places,
                    "color": by_method("@colors"),
                    "shape": by_method("@shapes"),
                    "tooltip": told,
                },
            },
        ],
    }


def by_method(values: str) -> Spec:
    """Of the methods that are picked; the buttons below the chart are the legend."""
    scale = {"domain": "@picked", "range": values}
    return {"field": "method", "type": "nominal", "legend": None, "scale": scale}
