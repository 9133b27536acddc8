"""Figure 1 of the paper, drawn from trained heads: features, and the scores of class 1 and class 3.

Nothing in the picture is drawn by hand: points, outliers, scores, boundaries and the marked sample
all come from the training in toy.py. It is Vega-Lite, which figures.py writes as a file.
"""

import base64
import io
from math import ceil
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from ovor.analysis.confusion import Pair, Sample, find_sample, measure
from ovor.analysis.toy import CLASSES, TASKS, TRAIN, Points, Toy, Trained, draw_points

Array = NDArray[np.float64]
Spec = dict[str, Any]

SIDE = 270  # of a panel, in pixels
REACH = 9.0  # of the plane shown
CELLS = 181  # grid points a side
EVERY_POINT, EVERY_OUTLIER = 8, 4  # one in so many is drawn
# Okabe and Ito's colours, which colour-blind people tell apart; task 1 is blue, task 2 is red.
CROSS = "M-1,-1L1,1M-1,1L1,-1"
KINDS = {
    "class 1": ("#0072B2", "circle"),
    "class 2": ("#56B4E9", "square"),
    "class 3": ("#D55E00", "triangle-up"),
    "class 4": ("#E69F00", "diamond"),
    "outlier of task 1": ("#003F63", CROSS),
    "outlier of task 2": ("#8A3A00", CROSS),
}
SHADES = ("#f2f8f8", "#b0d6d2", "#72b7ad", "#2f8f88", "#0b5f63")  # from low to high score
STEP = 2.5  # of the score, from one band of colour to the next; below 0 all is white
INK, FONT = "#222222", "Helvetica, Arial, Liberation Sans, sans-serif"
# Equal axes without ticks: the features have no unit. A rule or rectangle ends at u, v.
AXIS = {"type": "quantitative", "axis": None, "scale": {"domain": [-REACH, REACH], "nice": False}}
PLANE = {"x": {"field": "x", **AXIS}, "y": {"field": "y", **AXIS}}
FAR_END = {"x2": {"field": "u"}, "y2": {"field": "v"}}
LEGEND = {"labelFontSize": 12, "titleFontSize": 12, "labelColor": INK, "titleColor": INK}
STYLE = {
    "config": {
        "font": FONT,
        "background": "white",
        "padding": 12,
        "aria": False,
        "title": {"fontSize": 13, "color": INK, "subtitleColor": INK, "offset": 6},
        "view": {"stroke": None},
        "legend": LEGEND,
    },
}
ROW_TITLE = {"orient": "left", "anchor": "middle", "fontSize": 16, "subtitleFontSize": 12}
BELOW = {"orient": "bottom", "anchor": "start", "offset": 12}
CAPTION = {**BELOW, "fontSize": 11.5, "fontWeight": "normal", "lineHeight": 16}
LINE = "Black line: the border of where this class has the highest score of all four."
SAMPLE = "x: a sample of class 1, not seen in training."
HEADS = (
    "Each head is trained on its own task alone. It is linear on a fixed random layer of ReLUs, "
    "since in a plane a linear head could close no region."
)


def draw(toy: Toy, pair: Pair) -> Spec:
    """Return the figure as Vega-Lite: a row without VOR and one with it, of three panels each."""
    sample, found = find_sample(toy, pair), measure(toy, pair)
    points = draw_points(toy, toy.train, pair.seed, TRAIN)
    fields = {row: score_field(trained) for row, trained in pair.rows.items()}
    bands = ceil(max(field[..., [0, CLASSES]].max() for field in fields.values()) / STEP)
    rows = []
    for row, trained in pair.rows.items():
        panels = [features_panel(points, trained, sample)]
        for label, letter in ((0, "b"), (CLASSES, "c")):
            score = sample.scores[row][label] if sample else 0.0
            panels.append(score_panel(fields[row], label, letter, bands, sample, score))
        right = f"{found[row]['accuracy']:.0f} % of held-out points right"
        title = {"text": row, "subtitle": right, **ROW_TITLE}
        rows.append({"hconcat": panels, "spacing": 18, "title": title})
    caption = {"text": [f"{LINE} {SAMPLE}" if sample else LINE, HEADS], **CAPTION}
    shared = {"scale": {"stroke": "shared", "shape": "shared", "fill": "shared"}}
    return {"vconcat": rows, "spacing": 12, "title": caption, "resolve": shared, **STYLE}


@torch.no_grad()
def score_field(trained: Trained) -> Array:
    """Return the scores of all classes over the plane: CELLS (y), CELLS (x), classes."""
    axis = torch.linspace(-REACH, REACH, CELLS)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    scores = trained.classifier(torch.stack([x.flatten(), y.flatten()], dim=1))
    field: Array = scores.double().view(CELLS, CELLS, TASKS * CLASSES).numpy()
    return field


def zero_line(values: Array, axis: Array) -> Array:
    """Return where a function is zero as segments (m, 4): x, y, x2, y2.

    values[i, j] is the function at x = axis[j], y = axis[i]. Each cell is cut into two triangles:
    a triangle has a crossing on two of its sides or on none, so unlike in a square it is never a
    question which to join.
    """
    x, y = np.meshgrid(axis, axis)
    corners = np.stack([x, y, values], axis=-1)
    low, right = corners[:-1, :-1], corners[:-1, 1:]
    up, far = corners[1:, :-1], corners[1:, 1:]
    triangles = np.concatenate(
        [np.stack([low, right, far], axis=2), np.stack([low, up, far], axis=2)]
    ).reshape(-1, 3, 3)
    starts, ends = triangles, np.roll(triangles, -1, axis=1)
    crossed = (starts[..., 2] > 0) != (ends[..., 2] > 0)
    cut = crossed.any(axis=1)
    starts, ends, crossed = starts[cut], ends[cut], crossed[cut]
    a, b = starts[crossed], ends[crossed]
    along = a[:, 2:] / (a[:, 2:] - b[:, 2:])  # they differ in sign, so not by zero
    crossings: Array = (a + along * (b - a))[:, :2]
    return crossings.reshape(-1, 4)


def features_panel(points: Points, trained: Trained, sample: Sample | None) -> Spec:
    values = [
        {"x": x, "y": y, "kind": f"outlier of task {task + 1}"}
        for task, outliers in enumerate(trained.outliers)
        for x, y in outliers[::EVERY_OUTLIER].tolist()
        if max(abs(x), abs(y)) < REACH - 0.2  # no half crosses at the frame
    ]
    features, labels = points.features[::EVERY_POINT], points.labels[::EVERY_POINT]
    for (x, y), label in zip(features.tolist(), labels.tolist(), strict=True):
        values.append({"x": x, "y": y, "kind": f"class {label + 1}"})
    colors, shapes = zip(*KINDS.values(), strict=True)
    legend = {"title": None, "orient": "bottom", "symbolSize": 70, "symbolOpacity": 1}
    marks = layer(
        values,
        {"type": "point", "size": 15, "strokeWidth": 1.1, "opacity": 0.8, "clip": True},
        {**PLANE, "stroke": {**by_kind(colors), "legend": legend}, "shape": by_kind(shapes)},
    )
    more = " and virtual outliers" if any(map(len, trained.outliers)) else ""
    return panel([marks, *sample_marks(sample, "x")], f"(a) features{more}")


def by_kind(values: tuple[str, ...]) -> Spec:
    scale = {"domain": list(KINDS), "range": list(values)}
    return {"field": "kind", "type": "nominal", "scale": scale}


def score_panel(
    field: Array, label: int, letter: str, bands: int, sample: Sample | None, score: float
) -> Spec:
    others = np.delete(field, label, axis=2)
    boundary = zero_line(field[..., label] - others.max(axis=2), np.linspace(-REACH, REACH, CELLS))
    line = {"type": "rule", "stroke": INK, "strokeWidth": 1.8, "strokeCap": "round", "clip": True}
    segments = [dict(zip("xyuv", ends, strict=True)) for ends in boundary.tolist()]
    lines = layer(segments, line, {**PLANE, **FAR_END})
    marks = [*heat(field[..., label], bands), lines, *sample_marks(sample, f"x: {score:.1f}")]
    return panel(marks, f"({letter}) score of class {label + 1}")


def heat(scores: Array, bands: int) -> list[Spec]:
    """Show scores as one picture, which unlike thousands of squares has no seams and is small."""
    colors = band_colors(bands)
    image = layer(
        [{"x": 0, "y": 0, "url": picture(scores, colors)}],
        {"type": "image", "width": SIDE, "height": SIDE, "aspect": False},
        {**PLANE, "url": {"field": "url", "type": "nominal"}},
    )
    edges = [STEP * band for band in range(bands)]
    scale = {"type": "threshold", "domain": edges, "range": ["#ffffff", *map(as_hex, colors)]}
    legend = {"title": "score", "gradientLength": SIDE, "format": "~g"}
    fill = {"field": "score", "type": "quantitative", "scale": scale, "legend": legend}
    # An unseen point, so that there is a legend for the colours.
    return [image, layer([{"score": 0.0}], {"type": "point", "opacity": 0}, {"fill": fill})]


def band_colors(bands: int) -> Array:
    """Return the RGB of every band (bands, 3), in even steps along SHADES."""
    stops = np.array([[int(shade[i : i + 2], 16) for i in (1, 3, 5)] for shade in SHADES])
    at = np.linspace(0, len(stops) - 1, bands)
    return np.stack([np.interp(at, range(len(stops)), stops[:, i]) for i in range(3)], axis=1)


def as_hex(color: Array) -> str:
    return "#" + "".join(f"{round(value):02x}" for value in color.tolist())


def picture(scores: Array, colors: Array) -> str:
    """Return a PNG as a data address, y upwards; it is drawn twice as fine, for soft edges."""
    smooth = Image.fromarray(scores[::-1].astype(np.float32)).resize(
        (4 * SIDE, 4 * SIDE), Image.Resampling.BICUBIC
    )
    band = np.floor(np.asarray(smooth) / STEP).astype(int).clip(-1, len(colors) - 1)
    rgb = np.vstack([colors, [[255, 255, 255]]]).round().astype(np.uint8)[band]  # -1 is white
    file = io.BytesIO()
    Image.fromarray(rgb).resize((2 * SIDE, 2 * SIDE), Image.Resampling.BOX).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def sample_marks(sample: Sample | None, words: str) -> list[Spec]:
    """Mark the sample by a ring and by words on a white halo, if there is one."""
    if sample is None:
        return []
    x, y = sample.position
    values = [{"x": x, "y": y, "words": words}]
    ring = {"type": "point", "shape": "circle", "size": 75, "fill": "#ffffff", "stroke": INK}
    text = {"type": "text", "dx": 9, "dy": -9, "align": "left", "fontSize": 13, "fill": INK}
    encoding = {**PLANE, "text": {"field": "words", "type": "nominal"}, "strokeWidth": {"value": 4}}
    halo, label = ({**text, "fontWeight": "bold", "stroke": color} for color in ("#ffffff", None))
    rung = layer(values, {**ring, "opacity": 1}, PLANE)
    return [rung, layer(values, halo, encoding), layer(values, label, encoding)]


def layer(values: list[Spec], mark: Spec, encoding: Spec) -> Spec:
    return {"data": {"values": values}, "mark": mark, "encoding": encoding}


def panel(marks: list[Spec], title: str) -> Spec:
    corners = {"x": -REACH, "y": -REACH, "u": REACH, "v": REACH}
    # The view's own frame would be under the picture.
    edge = {"type": "rect", "fill": None, "stroke": "#888888", "strokeWidth": 1}
    frame = layer([corners], edge, {**PLANE, **FAR_END})
    return {"layer": [*marks, frame], "width": SIDE, "height": SIDE, "title": title}
