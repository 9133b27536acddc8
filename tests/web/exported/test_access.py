"""An exported page on a small phone, by the keyboard alone, light and dark."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from drawings import draw

from ..access import check_access
from .conftest import visited

pytestmark = pytest.mark.xdist_group("exported")

PHONE = {"width": 375, "height": 667}
MOST = 60  # stops of the keyboard, in any view


def reach(page: Page, selector: str) -> None:
    """Go to an element by the Tab key."""
    for _ in range(MOST):
        page.keyboard.press("Tab")
        if page.evaluate("(what) => document.activeElement.matches(what)", selector):
            return
    raise AssertionError(f"{selector} is not reached")


def give(page: Page, selector: str, files: list[Path]) -> None:
    """Press the button that asks for files, by a key, and choose some."""
    reach(page, selector)
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Enter")
    chooser.value.set_files(files)


def test_by_the_keyboard_alone_on_a_phone(
    browser: Browser, drawings_page: Path, tmp_path: Path
) -> None:
    folder = draw(tmp_path / "a", ["fish", "owl"], 8)
    with visited(browser, drawings_page, viewport=PHONE) as page:
        expect(page.locator("#about")).to_have_text("Knows nothing yet")
        check_access(page, 375)
        page.on("filechooser", lambda chooser: None)  # from now on Playwright is the one to ask
        reach(page, "#tab-ask")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        for number, name in enumerate(["fish", "owl"], 1):
            reach(page, f"li.class:nth-child({number}) input[type=text]")
            page.keyboard.type(name)
            give(
                page,
                f"li.class:nth-child({number}) .buttons button",
                sorted(folder.glob(f"{name}/*")),
            )
        reach(page, "#learn")
        page.keyboard.press("Enter")
        expect(page.locator("#outcome")).to_contain_text("fish (8) and owl (8).", timeout=60_000)
        check_access(page, 375)
        reach(page, "#outcome a[href='#ask']")
        page.keyboard.press("Enter")
        expect(page.locator("#ask")).to_be_visible()
        give(page, "#ask-choose", [folder / "owl/003.png"])
        expect(page.locator(".result .answer strong")).to_have_text("owl", timeout=60_000)
        check_access(page, 375)
        reach(page, "#device-save")
        with page.expect_download() as saved:
            page.keyboard.press("Enter")
        assert saved.value.suggested_filename == "garden.ovor"
        expect(page.locator("#device-unsaved")).to_be_hidden()
