"""The page that `ovor evaluate --report` writes: what it says is what was found."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from command import ovor
from drawings import draw
from ovor import Classifier
from ovor.data.images import to_image
from ovor.data.modality import IMAGES
from ovor.metrics import wilson
from ovor.report import page
from ovor.report.evaluation import Subject, report_on, subject_of
from ovor.report.pictures import thumbnail
from report.test_browser import CUT_OFF, MARKS, SCALED, is_dark, opened
from report.test_report import LOADED, Page

TAUGHT = (["circle", "square"], ["map", "postcard"])
CLASSES = [name for names in TAUGHT for name in names]


@pytest.fixture(scope="module")
def garden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of two lessons, images to ask it about and its page."""
    root = tmp_path_factory.mktemp("garden")
    model = Classifier("embedded")
    for names in TAUGHT:
        model.learn(draw(root / "-".join(names), names, 6))
    model.save(root / "garden.ovor")
    draw(root / "kept", CLASSES, 12, first=60)
    draw(root / "others", ["owl", "whale"], 8)
    done = ovor(*["evaluate", "garden.ovor", "kept", "--unknown", "others", "--json"],
                "--report", "new/page.html", cwd=root)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "Report in new/page.html"
    (root / "found.json").write_text(done.stdout)
    return root


@pytest.fixture(scope="module")
def found(garden: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((garden / "found.json").read_text())
    return value


@pytest.fixture(scope="module")
def html(garden: Path) -> str:
    return (garden / "new/page.html").read_text()


def told(html: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(Page(html).scripts["results"])["groups"][0]
    return value


def test_the_first_sentence_has_accuracy_chance_mistakes_and_the_unknown(
    html: str, found: dict[str, Any]
) -> None:
    (words,) = told(html)["summary"]
    low, high = wilson(round(found["accuracy"] * 48 / 100), 48)
    assert words.startswith(
        f"garden.ovor names {found['accuracy']:.1f} % (95 % interval {low:.1f} to {high:.1f}) of "
        "48 images of 4 classes, where 25 % is chance; most often mistaken: "
    )
    other = found["unknown"]["called_unknown"]
    assert f"calls {other:.1f} % of 16 images of other things unknown" in words


def test_every_class_has_its_interval(html: str, found: dict[str, Any]) -> None:
    rows = Page(html).tables["classes"][1:]
    assert {row[0][0] for row in rows} == set(CLASSES)
    values = [float(row[2][1]["data-value"] or "") for row in rows]
    assert values == sorted(values)  # the worst first
    for row in rows:
        (one,) = [one for one in found["classes"] if one["class"] == row[0][0]]
        assert row[1][0] == "12"
        low, high = wilson(round(one["accuracy"] * 12 / 100), 12)
        assert row[3][0] == f"{low:.0f} to {high:.0f}"


def test_what_it_was_taught_is_there_lesson_by_lesson(html: str) -> None:
    rows = [[cell for cell, _ in row] for row in Page(html).tables["tasks"][1:]]
    assert rows == [["1", "circle (6), square (6)"], ["2", "map (6), postcard (6)"]]


def test_an_export_tells_no_counts(garden: Path) -> None:
    class Export:
        classes_ = Classifier.load(garden / "garden.ovor").classes_
        task_sizes_ = (2, 2)
        reads = IMAGES

    subject = subject_of(Export(), "garden.onnx", "kept")  # type: ignore[arg-type]
    assert subject.lessons == [
        {"circle": None, "square": None},
        {"map": None, "postcard": None},
    ]


def test_mistakes_show_the_images(garden: Path, html: str, found: dict[str, Any]) -> None:
    """Exactly those that were mistaken, as small copies; and none where none is wanted."""
    shown = set(Page(html).images)
    examples = {path for one in found["confusions"] for path in one["examples"]}
    assert shown
    assert shown <= {thumbnail(to_image(garden / path)) for path in examples}
    subject = Subject("garden.ovor", "kept", [])
    without = report_on(found, subject, images=False)
    assert not Page(page.html(without.contents, without.title, without.notes)).images


def test_images_that_are_gone_leave_names_and_counts(found: dict[str, Any]) -> None:
    """Their paths lead from another folder."""
    report = report_on(found, Subject("garden.ovor", "kept", []))
    (section,) = [part for part in report.contents[0].sections if part.cards]
    assert section.words[-1] == "The images cannot be shown: names and counts alone."
    first = section.cards[0]
    assert re.fullmatch(r"\d+ of 12 right", first.words)
    assert re.fullmatch(r"\d+ taken for \w+", first.taken[0].words)


def test_nothing_is_loaded_and_names_are_only_text(html: str, found: dict[str, Any]) -> None:
    assert not LOADED.search(html)
    assert all(source.startswith("data:image/") for source in Page(html).images)
    evil = "<script>alert(1)</script><!--"
    classes = [{**one, "class": evil} for one in found["classes"][:1]]
    bad = {**found, "classes": classes, "confusions": [], "notes": [evil]}
    report = report_on(bad, Subject(evil, evil, [{evil: 3}]))
    text = page.html(report.contents, report.title, report.notes)
    assert "<script>alert" not in text
    assert "<!--" not in text


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1100, 375])
def test_the_page_in_a_browser(browser: Any, garden: Path, width: int, scheme: str) -> None:
    view, wrong = opened(browser, (garden / "new/page.html").as_uri(), width, scheme)
    figures = view.query_selector_all("figure")
    assert [one.get_attribute("data-chart") for one in figures] == ["classes", "calibration"]
    for figure in figures:
        assert figure.evaluate(MARKS) > 3
        assert figure.evaluate(SCALED) < 0.02
    assert view.evaluate("document.documentElement.scrollWidth") <= width
    assert view.evaluate(CUT_OFF, width) == []
    assert view.evaluate("[...document.images].filter((one) => !one.naturalWidth).length") == 0
    assert is_dark(view) == (scheme == "dark")
    assert wrong == []


def test_a_page_that_cannot_be_written_does_not_cost_the_result(garden: Path) -> None:
    done = ovor("evaluate", "garden.ovor", "kept", "--json", "--report", "kept", cwd=garden)
    assert done.returncode == 1
    assert json.loads(done.stdout)["images"] == 48
    assert done.stderr.splitlines()[-1].startswith("ovor: kept")
    assert "Traceback" not in done.stderr
