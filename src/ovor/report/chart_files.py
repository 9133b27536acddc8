"""The charts of a report as files for a paper: their data as CSV, and drawings as SVG."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

from ovor.atomic import write_atomically
from ovor.report.content import Content
from ovor.report.page import header
from ovor.report.vega import BESIDE, HUES, ROOM, SCHEMES, Chart, Records, Spec, fill, row_count


def as_csv(records: Records) -> str:
    """Return records as CSV; what a record lacks is empty."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, header(records), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def chart_files(contents: list[Content]) -> Iterator[tuple[str, Content, Chart]]:
    """Yield every chart with its file name, which of several groups begins with their number."""
    for number, group in enumerate(contents, 1):
        prefix = f"{number}-" if len(contents) > 1 else ""
        for chart in group.charts:
            yield prefix + chart.name, group, chart


def write_csv(contents: list[Content], folder: Path) -> None:
    """Write the data of every chart into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, _, chart in chart_files(contents):
        write_atomically(folder / f"{name}.csv", as_csv(chart.records).encode())


def write_svg(contents: list[Content], folder: Path) -> None:
    """Write every panel of every chart into a folder, in light colours."""
    import vl_convert

    folder.mkdir(parents=True, exist_ok=True)
    for name, group, chart in chart_files(contents):
        for ending, spec in drawings(chart, group):
            path = folder / f"{safe(name + ending)}.svg"
            write_atomically(path, vl_convert.vegalite_to_svg(spec).encode())


def safe(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_+." else "-" for c in name)


def drawings(chart: Chart, group: Content) -> Iterator[tuple[str, Spec]]:
    """Yield every panel of every choice, as page.js draws it, after the ending of its name."""
    for _, chosen in split(chart.records, chart.choose):
        values = {**shared_limits(chart, chosen), **method_styles(group.picked)}
        for panel, shown in split(chosen, chart.panels):
            spec = {**frame(panel), **fill(chart.spec, values), "data": {"values": shown}}
            if rows := row_count(spec, shown):
                spec["height"] = rows * spec["height"]["step"]
            yield f"-{panel}" if panel else "", in_light_colors(with_legends(spec))


def split(records: Records, column: str | None) -> Iterator[tuple[str, Records]]:
    """Yield each value of a column with its records; without a column, all of them once."""
    if column is None:
        yield "", records
        return
    for value in dict.fromkeys(one[column] for one in records):
        yield value, [one for one in records if one[column] == value]


def shared_limits(chart: Chart, records: Records) -> dict[str, float]:
    """Return the @column_min and @column_max that all panels have in common."""
    found: dict[str, float] = {}
    for column in chart.shared:
        values = [one[column] for one in records if one[column] is not None]
        found |= {f"{column}_min": min(values), f"{column}_max": max(values)}
    return found


def method_styles(picked: list[str]) -> Spec:
    """Return the same hue for a method with and without VOR, which is dashed or a triangle."""
    families = list(dict.fromkeys(name.removesuffix("+vor") for name in picked))
    hues = [HUES[families.index(name.removesuffix("+vor")) % len(HUES)] for name in picked]
    vor = [name.endswith("+vor") for name in picked]
    return {
        "picked": picked,
        "beside": beside(picked),
        "colors": hues,
        "dashes": [[6, 3] if with_vor else [1, 0] for with_vor in vor],
        "shapes": ["triangle-up" if with_vor else "circle" for with_vor in vor],
    }


def beside(picked: list[str]) -> str:
    """Return where a method's task is drawn, so that bars stand side by side, as page.js does."""
    step = min(BESIDE, ROOM / max(1, len(picked)))
    place = f"indexof({json.dumps(picked)}, datum.method)"
    return f"datum.task + {step} * ({place} - {(len(picked) - 1) / 2})"


def frame(title: str) -> Spec:
    return {
        "width": 460,
        "background": "white",
        "title": title,
        "config": {"view": {"stroke": None}, "legend": {"orient": "bottom", "columns": 2}},
    }


def with_legends(spec: Spec) -> Spec:
    """Add the legend that a file needs; on the page the buttons below a chart are its legend."""
    for part in spec.get("layer", []):
        second = {"strokeDash", "shape"} & part.get("encoding", {}).keys()
        for channel in ("color", *second) if second else ():
            part["encoding"][channel]["legend"] = {"title": None, "columns": 3, "symbolSize": 120}
    return spec


def in_light_colors(spec: Spec) -> Spec:
    """Return the specification with colours in place of the page's CSS variables."""
    text = json.dumps(spec)
    for name, color in {**SCHEMES["light"], "muted": "#6e7781", "on-heat": "#ffffff"}.items():
        text = text.replace(f"var(--{name})", color)
    return json.loads(text)  # type: ignore[no-any-return]
