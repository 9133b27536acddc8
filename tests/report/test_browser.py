"""The page in a browser without a network: on a desk, on a phone and in the dark."""

from pathlib import Path
from typing import Any

import pytest

from ovor.report import make
from ovor.report.chart_files import as_csv


@pytest.fixture(scope="module")
def address(report: make.Report, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    report.write(path)
    return path.as_uri()


def opened(
    browser: Any, address: str, width: int = 1100, scheme: str = "light"
) -> tuple[Any, list[str]]:
    """Open the page without a network; the list fills with what goes wrong."""
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    wrong: list[str] = []

    def refuse(route: Any) -> None:
        wrong.append(f"asked for {route.request.url}")
        route.abort()

    context.route("http://**", refuse)
    context.route("https://**", refuse)
    page = context.new_page()
    page.on("console", lambda told: wrong.append(told.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(address)
    page.wait_for_selector("html[data-drawn=all]", state="attached", timeout=60_000)
    return page, wrong


MARKS = "el => el.querySelectorAll('svg [class*=mark-] path, svg [class*=mark-] text').length"
# By how much the browser shrinks what was drawn: panels must be drawn in the width that they have.
SCALED = """el => Math.max(...[...el.querySelectorAll('.drawing svg')].map(
    (svg) => 1 - svg.getBoundingClientRect().width / Number(svg.getAttribute('width'))))"""
# Of the page and of the text in a chart, from 0 to 765.
BRIGHTNESS = """() => [
    getComputedStyle(document.documentElement).backgroundColor,
    getComputedStyle(document.querySelector('figure svg text')).fill,
  ].map((color) => color.match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0))"""


# What reaches out of the page: text of a legend or an axis, a table that does not scroll.
CUT_OFF = """width => [...document.querySelectorAll('svg text, img, p, li, h1, h2, h3, h4, figure')]
    .filter((el) => el.textContent || el.src)
    .filter((el) => !el.closest('.scroll') && el.getBoundingClientRect().width > 0)
    .filter((el) => el.getBoundingClientRect().right > width + 0.5
                 || el.getBoundingClientRect().left < -0.5)
    .map((el) => el.textContent || el.alt)"""


def is_dark(page: Any) -> bool:
    ground, text = page.evaluate(BRIGHTNESS)
    assert (ground < 150 and text > 380) or (ground > 700 and text < 380)
    return bool(ground < text)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1100, 375])
def test_every_chart_is_drawn(browser: Any, address: str, width: int, scheme: str) -> None:
    page, wrong = opened(browser, address, width, scheme)
    figures = page.query_selector_all("figure")
    assert len(figures) == 11
    for figure in figures:
        assert figure.evaluate(MARKS) > 3, figure.get_attribute("data-chart")
        assert figure.evaluate(SCALED) < 0.02, figure.get_attribute("data-chart")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CUT_OFF, width) == []
    assert page.evaluate("[...document.images].filter((one) => !one.naturalWidth).length") == 0
    assert is_dark(page) == (scheme == "dark")
    assert wrong == []


def test_colours_follow_the_system_and_paper_is_light(browser: Any, address: str) -> None:
    page, _ = opened(browser, address)
    page.emulate_media(color_scheme="dark")
    assert is_dark(page)
    page.emulate_media(color_scheme="dark", media="print")
    assert not is_dark(page)


def test_methods_are_chosen_and_picked(browser: Any, address: str) -> None:
    page, wrong = opened(browser, address)
    titles = "figure[data-chart=matrix] .panel-title"
    assert page.locator(titles).all_inner_texts() == ["oneprompt", "oneprompt+vor"]
    page.select_option("figure[data-chart=matrix] select", "simplecil")
    page.wait_for_function(f"document.querySelector('{titles}')?.textContent === 'simplecil'")
    assert len(page.query_selector_all(titles)) == 1
    button = "figure[data-chart=curves] .picks button >> nth=2"
    assert page.get_attribute(button, "aria-pressed") == "true"
    page.click(button)
    assert page.get_attribute(button, "aria-pressed") == "false"
    assert wrong == []


def test_data_are_saved_as_csv(
    browser: Any, address: str, report: make.Report, tmp_path: Path
) -> None:
    page, wrong = opened(browser, address)
    with page.expect_download() as download:
        page.click("figure[data-chart=curves] .csv")
    download.value.save_as(tmp_path / "curves.csv")
    (curves,) = [chart for chart in report.contents[0].charts if chart.name == "curves"]
    saved = (tmp_path / "curves.csv").read_text()
    # 64.0 in Python is 64 in a browser.
    assert saved == as_csv(curves.records).replace(".0,", ",").replace(".0\n", "\n")
    assert wrong == []
