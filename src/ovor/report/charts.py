"""The charts of a group as Vega-Lite, each with the table that it draws and the words beside it.

Colours are CSS variables of the page, so light and dark and paper need no second drawing; `@name`
stands for what the reader chooses, and the page's script or `fill` puts it in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ovor.report.numbers import KINDS, Records
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
WITH_NUMBERS = 12  # tasks up to which the cells of a matrix have their number written in
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
    shared: Mapping[str, str] = field(default_factory=dict)  # by column: @column_min, @column_max


def fill(spec: Any, values: Mapping[str, Any]) -> Any:
    """The specification with the values of its placeholders, as page.js does it."""
    if isinstance(spec, dict):
        return {key: fill(part, values) for key, part in spec.items()}
    if isinstance(spec, list):
        return [fill(part, values) for part in spec]
    if isinstance(spec, str) and spec.startswith("@"):
        return values[spec[1:]]
    return spec


def by_field(name: str, kind: str = "quantitative", **more: Any) -> Spec:
    return {"field": name, "type": kind, **more}


def tooltip(*names: str) -> list[Spec]:
    return [{"field": name, "title": name.replace("_", " ")} for name in names]


def axis(title: str, **more: Any) -> Spec:
    return {"title": title, **more}


def whole_numbers(name: str, title: str) -> Spec:
    return by_field(name, axis=axis(title, tickMinStep=1, format="d", grid=False))


# --- lines over tasks ------------------------------------------------------------------------


def picked_lines(value: str, title: str, x_title: str) -> Spec:
    """Every method as a faint line; those that are picked in colour, with VOR dashed."""
    picked: Spec = {"filter": {"field": "method", "oneOf": "@picked"}}
    x, y = whole_numbers("task", x_title), by_field(value, axis=axis(title), scale={"zero": False})
    color = by_field(
        "method", "nominal", legend=None, scale={"domain": "@picked", "range": "@colors"}
    )
    dash = by_field(
        "method", "nominal", legend=None, scale={"domain": "@picked", "range": "@dashes"}
    )
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
                "encoding": {"x": x, "y": by_field("low"), "y2": {"field": "high"}, "color": color},
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
    color = by_field(
        "measure", "nominal", scale={"range": HUES}, legend={"title": None, "columns": 2}
    )
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
                "y": by_field("percent", axis=axis("similarity (%)"), scale={"zero": False}),
                "color": color,
                "tooltip": tooltip("method", "measure", "task", "percent"),
            },
        },
        panels="method",
    )


# --- matrices --------------------------------------------------------------------------------


def heat(records: Records, x: str, y: str, value: str, numbers: bool) -> Spec:
    places = {
        "x": by_field(x, "ordinal", axis=axis(x, orient="top", labelAngle=0, domain=False)),
        "y": by_field(y, "ordinal", axis=axis(y, domain=False)),
    }
    scale = {"type": "quantize", "domain": [0, 100], "range": SHADES}
    side = max((record[x] for record in records), default=1)
    cells = {
        "mark": {"type": "rect", "stroke": PAPER, "strokeWidth": 1},
        "encoding": {
            **places,
            "color": by_field(value, scale=scale, legend=None),
            "tooltip": tooltip("method", y, x, value),
        },
    }
    words = {
        "mark": {"type": "text", "fontSize": 11},
        "encoding": {
            **places,
            "text": by_field(value, format=".0f"),
            "color": {
                "condition": {"test": f"datum['{value}'] >= 55", "value": "var(--on-heat)"},
                "value": INK,
            },
            "tooltip": cells["encoding"]["tooltip"],  # type: ignore[index]
        },
    }
    return {
        "height": {"step": max(14, min(30, 330 // side))},
        "layer": [cells, words][: 1 + numbers],
    }


def matrix(records: Records, tasks: int) -> Chart:
    return Chart(
        "matrix",
        "Accuracy of every task after every task",
        "Matrix: accuracy in percent on a task (column) after a task (row).",
        records,
        heat(records, "on task", "after task", "accuracy", tasks <= WITH_NUMBERS),
        choose="family",
        panels="method",
    )


def confusion(records: Records, tasks: int) -> Chart:
    return Chart(
        "confusion",
        "Which task's images are taken for which task's",
        "Matrix: percent of a task's test images (row) that are taken for a task's (column).",
        records,
        heat(records, "predicted task", "true task", "percent", tasks <= WITH_NUMBERS),
        choose="family",
        panels="method",
    )


# --- bars ------------------------------------------------------------------------------------


def bars(records: Records, value: str, title: str, color: str, order: Sequence[str]) -> Spec:
    methods = list(dict.fromkeys(record["method"] for record in records))
    domain = [name for name in order if any(record[color] == name for record in records)]
    return {
        "height": {"step": 20},
        "mark": {"type": "bar", "height": {"band": 0.75}},
        "encoding": {
            "y": by_field("method", "nominal", sort=methods, axis=axis("", labelLimit=150)),
            "x": by_field(value, axis=axis(title), stack="zero"),
            "color": by_field(
                color,
                "nominal",
                scale={"domain": domain, "range": HUES[: len(domain)]},
                legend={"title": None, "columns": 1},
            ),
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
    order = list(dict.fromkeys(record["comparison"] for record in records))
    y = by_field("comparison", "nominal", sort=order, axis=axis("", labelLimit=230))
    test = "datum.low != null && (datum.low > 0 || datum.high < 0)"
    color = {"condition": {"test": test, "value": HUES[0]}, "value": "var(--muted)"}
    x = by_field("mean", axis=axis("difference (points), with 95 % interval"))
    told = tooltip("comparison", "metric", "mean", "low", "high", "seeds")
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
                        "x": by_field("low", axis=x["axis"]),
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
        panels="metric",
    )


# --- one head from near ----------------------------------------------------------------------


def energies(records: Records, taus: Records) -> Chart:
    kinds = list(KINDS.values())
    color = by_field(
        "of",
        "nominal",
        scale={"domain": kinds, "range": [HUES[0], HUES[1], HUES[2], HUES[3]]},
        legend={"title": None, "columns": 2, "symbolType": "square", "symbolOpacity": 0.7},
    )
    x = by_field(
        "energy",
        axis=axis("energy: low where the head says “mine”"),
        scale={"domain": ["@energy_min", "@energy_max"], "nice": False},
    )
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
                        "y": by_field(
                            "percent",
                            stack=None,
                            axis=axis("share (%)"),
                            scale={"domain": [0, "@percent_max"]},
                        ),
                        "color": color,
                        "tooltip": tooltip("method", "of", "energy", "percent"),
                    },
                },
                {
                    "transform": [limits],
                    "mark": {"type": "rule", "strokeDash": [5, 4], "color": INK},
                    "encoding": {"x": x, "tooltip": tooltip("of", "energy")},
                },
                {
                    "transform": [limits],
                    "mark": {
                        "type": "text",
                        "align": "left",
                        "dx": 4,
                        "baseline": "top",
                        "color": INK,
                    },
                    "encoding": {"x": x, "y": {"value": 2}, "text": by_field("of", "nominal")},
                },
            ],
        },
        choose="family",
        panels="method",
        shared={"energy": "energy", "percent": "percent"},
    )


def planes(records: Records) -> Chart:
    kinds = ["feature", "boundary sample", "outlier"]
    places = {
        "x": by_field(
            "x", axis=axis("first principal component", grid=False), scale={"zero": False}
        ),
        "y": by_field("y", axis=axis("second", grid=False), scale={"zero": False}),
    }
    kind = {
        "color": by_field(
            "kind",
            "nominal",
            scale={"domain": kinds, "range": [HUES[0], INK, HUES[1]]},
            legend={"title": None},
        ),
        "shape": by_field(
            "kind",
            "nominal",
            scale={"domain": kinds, "range": ["circle", "diamond", "M-1,-1L1,1M-1,1L1,-1"]},
        ),
        "size": by_field(
            "kind", "nominal", scale={"domain": kinds, "range": [22, 44, 22]}, legend=None
        ),
    }
    return Chart(
        "plane",
        "Features and virtual outliers in a plane",
        "Points: features of the middle task, its boundary samples and its virtual outliers, on "
        "two principal components.",
        records,
        {
            "height": 340,
            "mark": {"type": "point", "opacity": 0.75, "strokeWidth": 1.2},
            "encoding": {**places, **kind, "tooltip": tooltip("kind", "class", "x", "y", "shown")},
        },
        choose="family",
        panels="method",
    )


# --- cost ------------------------------------------------------------------------------------


def costs(records: Records) -> Chart:
    """On a logarithmic axis, where nothing at all stands a tenth left of the least."""
    picked = {"field": "method", "oneOf": "@picked"}
    least = min((record["value"] for record in records if record["value"] > 0), default=1)
    nothing = 10.0 ** (len(str(int(least))) - 2)
    ticks = [nothing * 10**step for step in range(14)]
    x = by_field(
        "place",
        scale={"type": "log", "nice": False, "padding": 24},
        axis=axis(
            "@panel",
            values=ticks,
            labelExpr=f"datum.value == {nothing} ? '0' : format(datum.value, '~s')",
            grid=False,
        ),
    )
    y = by_field("A_T", axis=axis("A_T (%)"), scale={"zero": False, "padding": 12})
    told = tooltip("method", "value", "A_T")
    color = by_field(
        "method", "nominal", legend=None, scale={"domain": "@picked", "range": "@colors"}
    )
    return Chart(
        "cost",
        "Cost against accuracy",
        "Points: A_T against learned parameters and against multiply-accumulates per image.",
        records,
        {
            "height": 300,
            "transform": [
                {"calculate": f"datum.value > 0 ? datum.value : {nothing}", "as": "place"}
            ],
            "layer": [
                {
                    "transform": [{"filter": {"not": picked}}],
                    "mark": {"type": "point", "filled": True, "size": 50, "color": "var(--muted)"},
                    "encoding": {"x": x, "y": y, "tooltip": told},
                },
                {
                    "transform": [{"filter": picked}],
                    "mark": {"type": "point", "filled": True, "size": 80, "opacity": 1},
                    "encoding": {"x": x, "y": y, "color": color, "tooltip": told},
                },
                {
                    "transform": [{"filter": picked}],
                    "mark": {"type": "text", "dy": -10, "fontSize": 11, "color": INK},
                    "encoding": {"x": x, "y": y, "text": {"field": "method"}},
                },
            ],
        },
        panels="cost",
        picks=True,
    )
