"""The page in a browser without a network: on a desk, on a phone and in the dark."""

from pathlib import Path
from typing import Any

import pytest

from chromium import for_pictures, keep
from ovor.report import make

ROOT = Path(__file__).parents[2]
PICTURED = ("curves", "differences", "confusion", "energies")


@pytest.fixture(scope="module")
def address(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    make.of_folders([finished]).write(path)
    return path.as_uri()


def opened(browser: Any, address: str, width: int, scheme: str) -> tuple[Any, list[str]]:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    wrong: list[str] = []

    def refuse(route: Any) -> None:
        wrong.append(f"asked for {route.request.url}")
        route.abort()

    context.route("http://**", refuse)
    context.route("https://**", refuse)
    page = context.new_page()
    page.on("console", lambda told: wrong.append(told.text) if told.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(address)
    page.wait_for_selector("html[data-drawn=all]", state="attached", timeout=60_000)
    return page, wrong


MARKS = "el => el.querySelectorAll('svg [class*=mark-] path, svg [class*=mark-] text').length"
# By how much the browser shrinks what was drawn: panels must be drawn in the width that they have.
SCALED = """el => Math.max(...[...el.querySelectorAll('.drawing svg')].map(
    (svg) => 1 - svg.getBoundingClientRect().width / Number(svg.getAttribute('width'))))"""
BRIGHTNESS = """el => getComputedStyle(el).backgroundColor.match(/\\d+/g).slice(0, 3)
    .reduce((sum, part) => sum + Number(part), 0)"""
SVG_TEXT = """() => getComputedStyle(document.querySelector('figure svg text')).fill
    .match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0)"""


@pytest.mark.parametrize(
    ("width", "scheme"), [(1100, "light"), (1100, "dark"), (375, "light"), (375, "dark")]
)
def test_every_chart_is_drawn(browser: Any, address: str, width: int, scheme: str) -> None:
    page, wrong = opened(browser, address, width, scheme)
    figures = page.query_selector_all("figure")
    assert len(figures) == 11
    for figure in figures:
        assert figure.evaluate(MARKS) > 3, figure.get_attribute("data-chart")
        assert figure.evaluate(SCALED) < 0.02, figure.get_attribute("data-chart")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    bright = page.query_selector("html").evaluate(BRIGHTNESS)
    assert (bright < 150) == (scheme == "dark")
    assert (page.evaluate(SVG_TEXT) > 380) == (scheme == "dark")
    assert wrong == []


def test_colours_follow_the_system_and_paper_is_light(browser: Any, address: str) -> None:
    page, _ = opened(browser, address, 1100, "light")
    page.emulate_media(color_scheme="dark")
    assert page.query_selector("html").evaluate(BRIGHTNESS) < 150
    assert page.evaluate(SVG_TEXT) > 380
    page.emulate_media(color_scheme="dark", media="print")
    assert page.query_selector("html").evaluate(BRIGHTNESS) > 700
    assert page.evaluate(SVG_TEXT) < 380


def test_methods_are_chosen_and_picked(browser: Any, address: str) -> None:
    page, wrong = opened(browser, address, 1100, "light")
    titles = "figure[data-chart=matrix] .panel-title"
    assert [t.inner_text() for t in page.query_selector_all(titles)] == [
        "oneprompt",
        "oneprompt+vor",
    ]
    page.select_option("figure[data-chart=matrix] select", "simplecil")
    page.wait_for_function(f"document.querySelector('{titles}')?.textContent === 'simplecil'")
    assert len(page.query_selector_all(titles)) == 1
    button = "figure[data-chart=curves] .picks button >> nth=2"
    assert page.get_attribute(button, "aria-pressed") == "true"
    page.click(button)
    assert page.get_attribute(button, "aria-pressed") == "false"
    assert wrong == []


def test_data_are_saved_as_csv(browser: Any, address: str, finished: Path, tmp_path: Path) -> None:
    from ovor.report.page import as_csv

    page, wrong = opened(browser, address, 1100, "light")
    with page.expect_download() as download:
        page.click("figure[data-chart=curves] .csv")
    download.value.save_as(tmp_path / "curves.csv")
    charts = {chart.name: chart for chart in make.of_folders([finished]).contents[0].charts}
    head, *rows = (tmp_path / "curves.csv").read_text().splitlines()
    expected_head, *expected = as_csv(charts["curves"].records).splitlines()
    assert head == expected_head
    for row, other in zip(rows, expected, strict=True):
        # 64.0 in Python is 64 in a browser.
        assert [as_number(cell) for cell in row.split(",")] == [
            as_number(cell) for cell in other.split(",")
        ]
    assert wrong == []


def as_number(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell


@for_pictures
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_for_the_documents(browser: Any, scheme: str) -> None:
    """Of the report of `ovor grid main-table --data quickdraw`."""
    address = (ROOT / "docs/results/report-main-table.html").as_uri()
    page, _ = opened(browser, address, 900, scheme)
    keep(page.screenshot(), f"report-top-{scheme}")
    for chart in PICTURED:
        keep(page.locator(f"figure[data-chart={chart}]").screenshot(), f"report-{chart}-{scheme}")
    page, _ = opened(browser, address, 375, scheme)
    page.evaluate("document.querySelector('figure[data-chart=matrix]').scrollIntoView()")
    keep(page.screenshot(), f"report-phone-{scheme}")
