"""Model files that are given to an exported page: opened, merged, or refused in a sentence."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from drawings import draw
from ovor import Classifier

from ..browser import drop
from .conftest import visited
from .test_day import teach

pytestmark = pytest.mark.xdist_group("exported")


@pytest.fixture(scope="module")
def pond(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of drawings, and the same for predicting only."""
    folder = tmp_path_factory.mktemp("pond")
    model = Classifier("embedded", device="cpu").learn(draw(folder / "a", ["fish", "owl"], 4))
    model.save(folder / "pond.ovor")
    model.save(folder / "small.ovor", sums=False)
    return folder


def open_file(page: Page, path: Path) -> None:
    page.get_by_role("tab", name="Memory").click()
    page.get_by_label("Model file to open").set_input_files(path)
    page.get_by_role("dialog").get_by_role("button", name="Open").click()


def test_a_file_that_cannot_be_opened_saves_nothing(
    browser: Browser, drawings_page: Path, pond: Path, tmp_path: Path
) -> None:
    """Also if it is called as the page's own model: what is unsaved stays so."""
    broken = tmp_path / "garden.ovor"
    broken.write_bytes((pond / "pond.ovor").read_bytes()[:-100])
    with visited(browser, drawings_page) as page:
        teach(page, draw(tmp_path / "a", ["fish", "owl"], 4), "fish (4) and owl (4).")
        expect(page.locator("#name")).to_have_text("garden.ovor")
        open_file(page, broken)
        expect(page.locator("#told.bad")).to_contain_text("This file is truncated or damaged")
        expect(page.locator("#device-unsaved")).to_be_visible()
        expect(page.locator("#device-save")).to_be_visible()
        expect(page.locator("#about")).to_have_text("Knows 2 classes: fish, owl")


def test_a_model_is_opened_where_there_is_nothing_to_merge_it_into(
    browser: Browser, drawings_page: Path, pond: Path
) -> None:
    with visited(browser, drawings_page) as page:
        expect(page.locator("#about")).to_have_text("Knows nothing yet")
        page.get_by_role("tab", name="Memory").click()
        expect(page.locator("#model-download")).to_be_disabled()
        drop(page.locator("#model-card"), [pond / "pond.ovor"])
        dialog = page.get_by_role("dialog", name="Open pond.ovor instead of this model?")
        expect(dialog).not_to_contain_text("lost")  # there is nothing to lose
        dialog.get_by_role("button", name="Open").click()
        expect(page.locator("#about")).to_have_text("Knows 2 classes: fish, owl")
        expect(page.locator("#told")).to_have_text("pond.ovor is open.Close")
        expect(page.locator("#device-unsaved")).to_be_hidden()
        expect(page.locator("#model-download")).to_be_enabled()


def test_a_model_for_predicting_only_answers_and_is_not_taught(
    browser: Browser, drawings_page: Path, pond: Path
) -> None:
    with visited(browser, drawings_page) as page:
        expect(page.locator("#about")).to_have_text("Knows nothing yet")
        open_file(page, pond / "small.ovor")
        expect(page.locator("#told")).to_contain_text("It is for asking only")
        expect(page.get_by_role("tab", name="Teach")).to_be_hidden()
        expect(page.get_by_role("button", name="Forget fish")).to_have_count(0)
        page.get_by_role("tab", name="Ask").click()
        drop(page.locator("#ask-zone"), [pond / "a/owl/003.png"])
        expect(page.locator(".result .answer strong")).to_have_text("owl", timeout=60_000)
        expect(page.locator(".result .wrong")).to_have_count(0)
        drop(page.locator("#ask-zone"), [pond / "pond.ovor"])  # there is nothing to merge it into
        page.get_by_role("dialog").get_by_role("button", name="Open").click()
        expect(page.get_by_role("tab", name="Teach")).to_be_visible()


def test_a_model_of_another_encoder_is_refused_with_what_to_do(
    browser: Browser, photos_page: Path, pond: Path
) -> None:
    with visited(browser, photos_page) as page:
        expect(page.locator("#about")).to_have_text("Knows nothing yet")
        open_file(page, pond / "pond.ovor")
        expect(page.locator("#told.bad")).to_contain_text(
            "made with another backbone (embedded, and this page has photos)"
        )
