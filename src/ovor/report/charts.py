"""What the report draws: every chart as Vega-Lite, with its records and the words beside it."""

from collections.abc import Sequence

from ovor.report.records import DRIFT_WORDS, ENERGY_WORDS, ERROR_WORDS, PLANE_WORDS, TAUS
from ovor.report.timing import PHASES
from ovor.report.vega import (
    CROSS,
    FAINT,
    FREE,
    HUES,
    INK,
    MUTED,
    NO_GRID,
    NO_SPEC,
    NOT_PICKED,
    PAPER,
    PERCENT,
    PICKED,
    PLACE,
    SHADES,
    Chart,
    Records,
    Spec,
    by_method,
    category,
    layer,
    method_rows,
    quantity,
    task_number,
    tooltip,
)

EVEN = [round(100 * i / 9, 1) for i in range(1, 9)]  # percent from which the next shade begins
FINE = [2, 4, 7, 11, 16, 25, 40, 60]  # for shares most of which are small
# By name: the title of a chart, and what it shows in words for those who cannot see it.
CAPTIONS = {
    "differences": (
        "Differences over paired seeds",
        "Points with intervals: differences of A_T and F_T between methods.",
    ),
    "curves": (
        "Accuracy after each task",
        "Lines: mean accuracy over the tasks so far, after each task, by method.",
    ),
    "changes": (
        "Change of each task's accuracy, with the task given",
        "Lines: by how many points a task's accuracy with the task given changed, by method.",
    ),
    "drift": (
        "Drift of prompt and features",
        "Lines: similarity in percent before and after each task, by measure.",
    ),
    "matrix": (
        "Accuracy of every task after every task",
        "Matrix: accuracy in percent on a task (column) after a task (row).",
    ),
    "confusion": (
        "Which task's examples are taken for which task's",
        "Matrix: percent of a task's test examples (row) that are taken for a task's (column).",
    ),
    "errors": (
        "Errors between tasks and within them",
        "Bars: percent of test examples taken for another task's class, or for a wrong one of "
        "their own task's, by method.",
    ),
    "time": (
        "Time by phase",
        "Bars: seconds of a run by phase, by method.",
    ),
    "energies": (
        "Energies of one task's head",
        "Histograms: energies that the head of the middle task gives to its own test examples, "
        "to virtual outliers and to other tasks' test examples.",
    ),
    "plane": (
        "Features and virtual outliers in a plane",
        "Points: features of the middle task, its boundary samples and its virtual outliers, on "
        "two principal components.",
    ),
    "cost": (
        "Learned parameters against accuracy",
        "Points: A_T against the number of learned parameters, by method.",
    ),
    "work": (
        "Work per example against accuracy",
        "Points: A_T against multiply-accumulates per example, by method.",
    ),
}
MANY_POINTS = 10  # that an axis of changes spans at least, or chance alone would look like drift
WITH_NUMBERS = 12  # tasks up to which the cells of a matrix have their number written in


def difference_bars(records: Records) -> Chart:
    """Return points with their intervals, in colour where an interval does not contain 0."""
    test = "datum.low != null && (datum.low > 0 || datum.high < 0)"
    color = {"condition": {"test": test, "value": HUES[0]}, "value": MUTED}
    x = quantity("mean", "difference (points)")
    told = tooltip("method", "against", "mean", "low", "high", "seeds")
    common: Spec = {"y": method_rows(records, 170), "color": color, "tooltip": told}
    point = {"type": "point", "filled": True, "size": 45, "opacity": 1}
    between = {**common, "x": {**x, "field": "low"}, "x2": {"field": "high"}}
    layers = [
        layer({"type": "rule", "color": INK}, {"x": {"datum": 0}}),
        layer({"type": "rule", "strokeWidth": 2}, between),
        layer(point, {**common, "x": x}),
    ]
    spec = {"height": {"step": 18, "rows": "method"}, "layer": layers}
    return Chart("differences", *CAPTIONS["differences"], records, spec, panels="what")


def curves(records: Records) -> Chart:
    title = "accuracy over the tasks so far (%)"
    spec = picked_lines("accuracy", title, "after task", PERCENT)
    chance = {"aggregate": "mean", **quantity("guessing", title, PERCENT)}
    guessing = {"type": "line", "color": MUTED, "strokeDash": [1, 4], "strokeWidth": 2}
    spec["layer"].insert(0, layer(guessing, {"x": task_number("after task"), "y": chance}))
    return Chart("curves", *CAPTIONS["curves"], records, spec, picks=True)


def changes(records: Records) -> Chart:
    spec = picked_lines("change", "change since learned (points)", "task")
    for end in (-MANY_POINTS, MANY_POINTS):
        spec["layer"].append(layer({"type": "rule", "opacity": 0}, {"y": {"datum": end}}))
    return Chart("changes", *CAPTIONS["changes"], records, spec, picks=True)


def picked_lines(value: str, title: str, x_title: str, scale: Spec = NO_SPEC) -> Spec:
    """Draw every method as a faint line, and those that are picked in colour, with VOR dashed."""
    place = {"x": task_number(x_title), "y": quantity(value, title, scale)}
    beside = {**place, "x": {**place["x"], "field": "beside"}}
    between = {**beside, "y": quantity("low", title, scale), "y2": {"field": "high"}}
    color = by_method("@colors")
    told = tooltip("method", "task", "classes", value, "low", "high")
    faint = {"type": "line", "color": FAINT, "strokeWidth": 1}
    line = {**beside, "color": color, "strokeDash": by_method("@dashes")}
    point = {"type": "point", "filled": True}
    dots = {**beside, "color": color, "tooltip": told}
    layers = [
        layer(faint, {**place, "detail": {"field": "method"}}, NOT_PICKED),
        # Bars side by side: bands over each other would all be grey.
        layer({"type": "rule", "strokeWidth": 1.5}, {**between, "color": color}, PICKED),
        layer({"type": "line", "strokeWidth": 2.2}, line, PICKED),
        # Unseen points, so that a faint line has a tooltip too.
        layer({**point, "size": 60, "opacity": 0.001}, {**place, "tooltip": told}),
        layer({**point, "size": 26, "opacity": 1}, dots, PICKED),
    ]
    transform = [{"calculate": "@beside", "as": "beside"}]
    return {"height": 340, "transform": transform, "layer": layers}


def drift(records: Records) -> Chart:
    encoding = {
        "x": task_number("task"),
        "y": quantity("percent", "similarity (%)", FREE),
        "color": category("measure", list(DRIFT_WORDS.values()), HUES[: len(DRIFT_WORDS)]),
        "tooltip": tooltip("method", "measure", "task", "percent"),
    }
    spec = {"height": 280, **layer({"type": "line", "point": True}, encoding)}
    return Chart("drift", *CAPTIONS["drift"], records, spec, panels="method")


def matrix(records: Records) -> Chart:
    spec = heat(records, "on task", "after task", "accuracy", EVEN)
    return Chart("matrix", *CAPTIONS["matrix"], records, spec, "family", "method")


def confusion(records: Records) -> Chart:
    spec = heat(records, "predicted task", "true task", "percent", FINE)
    return Chart("confusion", *CAPTIONS["confusion"], records, spec, "family", "method")


def heat(records: Records, x: str, y: str, value: str, edges: Sequence[float]) -> Spec:
    """Draw cells in nine shades, from one edge to the next, with numbers if they have room."""
    axis = {"domain": False, "labelOverlap": "parity"}  # every other label where room is short
    above = {"title": x, "orient": "top", "labelAngle": 0, **axis}
    common = {
        "x": {"field": x, "type": "ordinal", "axis": above},
        "y": {"field": y, "type": "ordinal", "axis": {"title": y, **axis}},
        "tooltip": tooltip("method", y, x, "classes", value),
    }
    shown = {"field": value, "type": "quantitative"}
    scale = {"type": "threshold", "domain": list(edges), "range": SHADES}
    shade = {**shown, "scale": scale, "legend": None}
    cells = layer({"type": "rect", "stroke": PAPER, "strokeWidth": 1}, {**common, "color": shade})
    on_dark = {"test": f"datum['{value}'] >= {edges[5]}", "value": "var(--on-heat)"}
    text = {"text": {**shown, "format": ".0f"}, "color": {"condition": on_dark, "value": INK}}
    words = layer({"type": "text", "fontSize": 11}, {**common, **text})
    side = max((record[x] for record in records), default=1)
    layers = [cells, words] if side <= WITH_NUMBERS else [cells]
    return {"height": {"step": max(14, min(30, 330 // side)), "rows": y}, "layer": layers}


def error_bars(records: Records) -> Chart:
    spec = bars(records, "percent", "test examples (%)", "taken for", list(ERROR_WORDS.values()))
    return Chart("errors", *CAPTIONS["errors"], records, spec)


def times(records: Records) -> Chart:
    spec = bars(records, "seconds", "seconds per run, mean over seeds", "phase", PHASES)
    return Chart("time", *CAPTIONS["time"], records, spec)


def bars(records: Records, value: str, title: str, color: str, order: Sequence[str]) -> Spec:
    """Draw one stacked bar for each method, its parts in this order."""
    parts = [name for name in order if any(record[color] == name for record in records)]
    encoding = {
        "y": method_rows(records, 150),
        "x": {**quantity(value, title), "stack": "zero"},
        "color": category(color, parts, HUES[: len(parts)]),
        "order": {"field": "place", "type": "quantitative"},
        "tooltip": tooltip("method", color, value),
    }
    return {
        "height": {"step": 20, "rows": "method"},
        **layer({"type": "bar", "height": {"band": 0.75}}, encoding),
        "transform": [{"calculate": f"indexof({parts!r}, datum['{color}'])", "as": "place"}],
    }


def energies(records: Records) -> Chart:
    """Return histograms by kind, and where VOR wants energies to be as dashed lines.

    As outlines: areas over each other would all be grey.
    """
    color = category("of", list(ENERGY_WORDS.values()), HUES[: len(ENERGY_WORDS)])
    color["legend"] |= {"symbolType": "stroke", "symbolStrokeWidth": 3}
    reach = {"domain": ["@energy_min", "@energy_max"], "nice": False}
    x = quantity("energy", "energy: low where the head says “mine”", reach)
    y = {**quantity("percent", "share (%)", {"domain": [0, "@percent_max"]}), "stack": None}
    told = tooltip("method", "of", "energy", "percent")
    tau = {"field": "of", "oneOf": list(TAUS)}
    outline = {"type": "line", "interpolate": "step", "strokeWidth": 2}
    limit = {"type": "rule", "strokeDash": [5, 4], "color": INK}
    layers = [
        layer(outline, {"x": x, "y": y, "color": color, "tooltip": told}, {"not": tau}),
        layer(limit, {"x": x, "tooltip": tooltip("of", "energy")}, tau),
        # Inwards from their lines: the one is at the left of the picture, the other right.
        tau_label(x, TAUS[0], "left", 4),
        tau_label(x, TAUS[1], "right", -4),
    ]
    spec, shared = {"height": 230, "layer": layers}, ("energy", "percent")
    return Chart(
        "energies", *CAPTIONS["energies"], records, spec, "family", "method", shared=shared
    )


def tau_label(x: Spec, which: str, align: str, shift: int) -> Spec:
    return layer(
        {"type": "text", "align": align, "dx": shift, "baseline": "top", "color": INK},
        {"x": x, "y": {"value": 2}, "text": {"field": "of"}},
        {"field": "of", "equal": which},
    )


def plane(records: Records) -> Chart:
    kinds = list(PLANE_WORDS.values())
    shapes = {"domain": kinds, "range": ["circle", "diamond", CROSS]}
    encoding = {
        "x": quantity("x", "first principal component", PLACE, NO_GRID),
        "y": quantity("y", "second", PLACE, NO_GRID),
        "color": category("kind", kinds, [HUES[0], INK, HUES[1]]),
        "shape": {"field": "kind", "type": "nominal", "scale": shapes},
        "tooltip": tooltip("kind", "class", "x", "y", "shown"),
    }
    mark = {"type": "point", "opacity": 0.75, "strokeWidth": 1.2, "size": 26}
    spec = {"height": 340, **layer(mark, encoding)}
    return Chart("plane", *CAPTIONS["plane"], records, spec, "family", "method")


def costs(records: Records) -> Chart:
    """Return A_T over a logarithmic axis, where 0 stands a tenth left of the least number."""
    counts = [record["learned parameters"] for record in records]
    least = min(counts, key=lambda n: n or 10**9)
    nothing = 10 ** (max(2, len(str(least))) - 2)
    places = [count or nothing for count in counts]
    low, high = min(places) / 2, 2 * max(places)
    ticks = [nothing * 10**step for step in range(14)]
    ticks = [tick for tick in ticks if low <= tick <= high] or [min(places)]
    zero = f"datum.value == {nothing} ? '0' : " if 0 in counts else ""
    scale = {"type": "log", "nice": False, "domain": [low, high]}
    axis = {**NO_GRID, "values": ticks, "labelExpr": f"{zero}format(datum.value, '~s')"}
    x = quantity("place", "learned parameters, logarithmic", scale, axis)
    place = f"datum['learned parameters'] > 0 ? datum['learned parameters'] : {nothing}"
    spec = {"transform": [{"calculate": place, "as": "place"}], **scatter(x)}
    return Chart("cost", *CAPTIONS["cost"], records, spec, picks=True)


def work(records: Records) -> Chart:
    scale, axis = {"zero": True}, {**NO_GRID, "format": "~s", "tickCount": 6}
    x = quantity("multiply-accumulates", "multiply-accumulates per example", scale, axis)
    return Chart("work", *CAPTIONS["work"], records, scatter(x), picks=True)


def scatter(x: Spec) -> Spec:
    """Draw every method as a grey point, and those picked in colour, with VOR as a triangle."""
    common = {
        "x": x,
        "y": quantity("A_T", "A_T (%)", PERCENT),
        "tooltip": tooltip("method", "learned parameters", "multiply-accumulates", "A_T"),
    }
    point = {"type": "point", "filled": True}
    picked = {**common, "color": by_method("@colors"), "shape": by_method("@shapes")}
    layers = [
        layer({**point, "size": 45, "color": MUTED, "opacity": 0.6}, common, NOT_PICKED),
        layer({**point, "size": 95, "opacity": 0.9}, picked, PICKED),
    ]
    return {"height": 280, "layer": layers}
