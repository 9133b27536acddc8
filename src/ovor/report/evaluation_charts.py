"""The charts of an evaluation: every class with its interval, and confidence beside the truth."""

from ovor.report.vega import (
    HUES,
    MUTED,
    PERCENT,
    Chart,
    Records,
    layer,
    quantity,
    tooltip,
)


def class_bars(records: Records, chance: float, many: str) -> Chart:
    """Return a point with its interval for each class, the worst first, and guessing as a line."""
    names = [record["class"] for record in records]
    y = {
        "field": "class",
        "type": "nominal",
        "sort": names,
        "axis": {"title": "", "labelLimit": 130},
    }
    told = tooltip("class", many, "right", "low", "high", "called unknown")
    x = quantity("right", "named right (%), with 95 % interval", PERCENT)
    between = {"y": y, "x": {**x, "field": "low"}, "x2": {"field": "high"}, "tooltip": told}
    point = {"type": "point", "filled": True, "size": 50, "opacity": 1, "color": HUES[0]}
    guess = {"type": "rule", "color": MUTED, "strokeDash": [1, 4], "strokeWidth": 2}
    layers = [
        layer(guess, {"x": {"datum": chance}}),
        layer({"type": "rule", "strokeWidth": 2, "color": HUES[0]}, between),
        layer(point, {"y": y, "x": x, "tooltip": told}),
    ]
    spec = {"height": {"step": 18, "rows": "class"}, "layer": layers}
    title = "How often each class is named right"
    alt = f"Points with intervals: percent of each class's {many} that are named right."
    return Chart("classes", title, alt, records, spec)


def calibration(records: Records, many: str) -> Chart:
    """Return how often items are right beside how sure the model was, against the diagonal."""
    told = tooltip(many, "confidence", "right", "low", "high")
    x = quantity("confidence", "confidence (%)", PERCENT)
    y = quantity("right", "named right (%), with 95 % interval", PERCENT)
    between = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "tooltip": told}
    ideal = {"type": "rule", "color": MUTED, "strokeDash": [4, 4]}
    ends = {"x": {"datum": 0}, "y": {"datum": 0}, "x2": {"datum": 100}, "y2": {"datum": 100}}
    point = {"type": "point", "filled": True, "size": 60, "opacity": 1, "color": HUES[0]}
    layers = [
        layer(ideal, ends),
        layer({"type": "rule", "strokeWidth": 2, "color": HUES[0]}, between),
        layer(point, {"x": x, "y": y, "tooltip": told}),
    ]
    title = "Is it as often right as it is sure?"
    alt = f"Points: share of {many} named right, by how sure the model was; a diagonal is ideal."
    return Chart("calibration", title, alt, records, {"height": 300, "layer": layers})
