"""Figure 1 of the paper, drawn from trained heads: features, and the scores of class 1 and class 3.

Needs Altair. Nothing in the picture is drawn by hand: points, outliers, scores, boundaries and the
marked sample all come from the training in toy.py.
"""

import base64
import io
import json
from math import ceil
from typing import Any

import altair as alt
import numpy as np
import torch
from PIL import Image

from ovor.analysis.confusion import Pair, Sample, find_sample, measure
from ovor.analysis.contour import Array, zero_line
from ovor.analysis.toy import CLASSES, TASKS, TRAIN, Points, Toy, Trained, draw_points

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
LINE = "Black line: the border of where this class has the highest score of all four."
SAMPLE = "x: a sample of class 1, not seen in training."
HEADS = (
    "Each head is trained on its own task alone. It is linear on a fixed random layer of ReLUs, "
    "since in a plane a linear head could close no region."
)


def draw(toy: Toy, pair: Pair) -> alt.VConcatChart:
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
        title = row_title(row, f"{found[row]['accuracy']:.0f} % of held-out points right")
        rows.append(alt.hconcat(*panels, spacing=18, title=title))
    caption = [f"{LINE} {SAMPLE}" if sample else LINE, HEADS]
    return styled(alt.vconcat(*rows, spacing=12), caption)


@torch.no_grad()
def score_field(trained: Trained) -> Array:
    """Scores of all classes over the plane: CELLS (y), CELLS (x), classes."""
    axis = torch.linspace(-REACH, REACH, CELLS)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    scores = trained.classifier(torch.stack([x.flatten(), y.flatten()], dim=1))
    field: Array = scores.double().view(CELLS, CELLS, TASKS * CLASSES).numpy()
    return field


def features_panel(points: Points, trained: Trained, sample: Sample | None) -> alt.LayerChart:
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
    marks = (
        chart_of(values)
        .mark_point(size=15, strokeWidth=1.1, opacity=0.8, clip=True)
        .encode(
            x=plane("x"),
            y=plane("y"),
            stroke=alt.Stroke(
                "kind:N",
                scale=alt.Scale(domain=list(KINDS), range=list(colors)),
                legend=alt.Legend(title=None, orient="bottom", symbolSize=70, symbolOpacity=1),
            ),
            shape=alt.Shape("kind:N", scale=alt.Scale(domain=list(KINDS), range=list(shapes))),
        )
    )
    more = " and virtual outliers" if any(map(len, trained.outliers)) else ""
    return panel([marks, *sample_marks(sample, "x")], f"(a) features{more}")


def score_panel(
    field: Array, label: int, letter: str, bands: int, sample: Sample | None, score: float
) -> alt.LayerChart:
    others = np.delete(field, label, axis=2)
    boundary = zero_line(field[..., label] - others.max(axis=2), np.linspace(-REACH, REACH, CELLS))
    lines = (
        chart_of([dict(zip("xyuv", s, strict=True)) for s in boundary.tolist()])
        .mark_rule(stroke=INK, strokeWidth=1.8, strokeCap="round", clip=True)
        .encode(x=plane("x"), y=plane("y"), x2="u:Q", y2="v:Q")
    )
    marks = [*heat(field[..., label], bands), lines, *sample_marks(sample, f"x: {score:.1f}")]
    return panel(marks, f"({letter}) score of class {label + 1}")


def heat(scores: Array, bands: int) -> list[alt.Chart]:
    """The scores as one picture, which unlike thousands of squares has no seams and is small."""
    colors = band_colors(bands)
    image = (
        chart_of([{"x": 0, "y": 0, "url": picture(scores, colors)}])
        .mark_image(width=SIDE, height=SIDE, aspect=False)
        .encode(x=plane("x"), y=plane("y"), url="url:N")
    )
    edges = [STEP * band for band in range(bands)]
    scale = alt.Scale(type="threshold", domain=edges, range=["#ffffff", *map(as_hex, colors)])
    # An unseen point, so that there is a legend for the colours.
    legend = (
        chart_of([{"score": 0.0}])
        .mark_point(opacity=0)
        .encode(
            fill=alt.Fill(
                "score:Q",
                scale=scale,
                legend=alt.Legend(title="score", gradientLength=SIDE, format="~g"),
            )
        )
    )
    return [image, legend]


def band_colors(bands: int) -> Array:
    """RGB of every band (bands, 3), even steps along SHADES."""
    stops = np.array([[int(shade[i : i + 2], 16) for i in (1, 3, 5)] for shade in SHADES])
    at = np.linspace(0, len(stops) - 1, bands)
    return np.stack([np.interp(at, range(len(stops)), stops[:, i]) for i in range(3)], axis=1)


def as_hex(color: Array) -> str:
    return "#" + "".join(f"{round(value):02x}" for value in color.tolist())


def picture(scores: Array, colors: Array) -> str:
    """A PNG as a data address, y upwards; drawn twice as fine and made smaller for soft edges."""
    smooth = Image.fromarray(scores[::-1].astype(np.float32)).resize(
        (4 * SIDE, 4 * SIDE), Image.Resampling.BICUBIC
    )
    band = np.floor(np.asarray(smooth) / STEP).astype(int).clip(-1, len(colors) - 1)
    rgb = np.vstack([colors, [[255, 255, 255]]]).round().astype(np.uint8)[band]  # -1 is white
    file = io.BytesIO()
    Image.fromarray(rgb).resize((2 * SIDE, 2 * SIDE), Image.Resampling.BOX).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def sample_marks(sample: Sample | None, words: str) -> list[alt.Chart]:
    if sample is None:
        return []
    x, y = sample.position
    data = chart_of([{"x": x, "y": y, "words": words}])
    data = data.encode(x=plane("x"), y=plane("y"))
    halo, text = (
        data.mark_text(
            dx=9, dy=-9, align="left", fontSize=13, fontWeight="bold", fill=INK, stroke=stroke
        ).encode(text="words:N", strokeWidth=alt.value(4))
        for stroke in ("#ffffff", None)
    )
    ring = data.mark_point(shape="circle", size=75, fill="#ffffff", stroke=INK, opacity=1)
    return [ring, halo, text]


def chart_of(values: list[dict[str, Any]]) -> alt.Chart:
    """As text, since Altair copies every list whenever charts are joined: seconds for nothing."""
    return alt.Chart(alt.InlineData(json.dumps(values), format=alt.JsonDataFormat(type="json")))


def plane(channel: str) -> Any:
    """Equal axes without ticks: the features have no unit."""
    kind = alt.X if channel == "x" else alt.Y
    scale = alt.Scale(domain=[-REACH, REACH], nice=False)
    return kind(f"{channel}:Q", scale=scale, axis=None)


def panel(marks: list[Any], title: str) -> alt.LayerChart:
    corners = {"x": -REACH, "y": -REACH, "u": REACH, "v": REACH}
    # The view's own frame would be under the picture.
    frame = (
        chart_of([corners])
        .mark_rect(fill=None, stroke="#888888", strokeWidth=1)
        .encode(x=plane("x"), y=plane("y"), x2="u:Q", y2="v:Q")
    )
    return alt.LayerChart(layer=[*marks, frame], width=SIDE, height=SIDE, title=title)


def row_title(words: str, more: str) -> alt.TitleParams:
    return alt.TitleParams(
        words, subtitle=more, orient="left", anchor="middle", fontSize=16, subtitleFontSize=12
    )


def styled(chart: alt.VConcatChart, caption: list[str]) -> alt.VConcatChart:
    below = alt.TitleParams(
        caption,
        orient="bottom",
        anchor="start",
        fontSize=11.5,
        fontWeight="normal",
        lineHeight=16,
        offset=12,
    )
    dressed: alt.VConcatChart = (
        chart.properties(title=below)
        .resolve_scale(stroke="shared", shape="shared", fill="shared")
        .configure(font=FONT, background="white", padding=12, aria=False)
        .configure_title(fontSize=13, color=INK, subtitleColor=INK, offset=6)
        .configure_view(stroke=None)
        .configure_legend(labelFontSize=12, titleFontSize=12, labelColor=INK, titleColor=INK)
    )
    return dressed
