"""The figure as a person asks for it: files, numbers, and sentences when it cannot be had."""

import json
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pytest
from PIL import Image

from command import ovor
from ovor.analysis import boundaries, confusion, figures
from ovor.analysis.toy import Toy
from ovor.config import Vor

SMALL = Toy(train=40, test=20, epochs=3, vor=Vor(epochs=1))


def test_the_command_draws_and_prints_json_alone(tmp_path: Path) -> None:
    done = ovor("figure", "boundaries", "--out", "new/here.svg", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert done.stderr == ""
    assert found["picture"]["seed"] == 0
    assert (found["seeds"], found["mean"]) == ([], None)
    assert found["toy"]["vor"]["weight"] == Vor().weight
    picture = (tmp_path / "new/here.svg").read_text()
    assert picture.startswith("<svg")
    for words in ("without VOR", "with VOR", "score of class 1", "score of class 3", "class 4"):
        assert words in picture
    for row in confusion.ROWS:  # the marked sample wears its scores
        assert f"x: {found['sample']['scores'][row][0]:.1f}" in picture
    assert list(tmp_path.iterdir()) == [tmp_path / "new"]


def without_data(spec: Any) -> Any:
    if isinstance(spec, list):
        return [without_data(part) for part in spec]
    if isinstance(spec, dict):
        return {k: {"values": []} if k == "data" else without_data(v) for k, v in spec.items()}
    return spec


def test_vega_lite_becomes_a_small_png_and_html_without_a_network(tmp_path: Path) -> None:
    chart = boundaries.draw(SMALL, confusion.train_pair(SMALL, 0))
    alt.Chart.from_dict(without_data(chart))  # checks it
    figures.save(chart, tmp_path / "a.PNG")
    with Image.open(tmp_path / "a.PNG") as image:
        assert image.size[0] > 1500
    assert (tmp_path / "a.PNG").stat().st_size < 300_000
    figures.save(chart, tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    fetched = page.count("<script src=") + page.count("<link")  # pytest would show the page
    assert fetched == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["boundaries", "--out", "here.gif"], 1, ".png, .svg, .html"),
        (["boundaries", "--seed", "-1"], 2, "seed"),
        (["portraits"], 2, "portraits"),
        ([], 2, "boundaries"),
    ],
)
def test_what_cannot_be(arguments: list[str], code: int, words: str, tmp_path: Path) -> None:
    done = ovor("figure", *arguments, cwd=tmp_path)
    assert done.returncode == code
    assert words in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_zero_line_of_a_circle() -> None:
    axis = np.linspace(-2, 2, 81)
    x, y = np.meshgrid(axis, axis)
    segments = boundaries.zero_line(x**2 + y**2 - 1, axis)
    ends = segments.reshape(-1, 2)
    assert np.hypot(*ends.T) == pytest.approx(1, abs=1e-3)
    lengths = np.hypot(segments[:, 2] - segments[:, 0], segments[:, 3] - segments[:, 1])
    assert lengths.sum() == pytest.approx(2 * np.pi, rel=1e-2)


def test_the_zero_line_keeps_x_and_y_apart() -> None:
    axis = np.linspace(-1, 1, 4)
    x, _ = np.meshgrid(axis, axis)
    segments = boundaries.zero_line(x - 0.5, axis)
    assert segments[:, [0, 2]] == pytest.approx(0.5)
    assert sorted({*segments[:, 1], *segments[:, 3]})[0] == -1
    assert len(boundaries.zero_line(x - 5, axis)) == 0
