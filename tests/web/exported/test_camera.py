"""The camera of an exported page, by the film that Chromium plays in the place of one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from chromium import launched
from drawings import draw

from .conftest import visited

pytestmark = pytest.mark.xdist_group("exported")

FILM = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")


@pytest.fixture(scope="module")
def filming(browser: Browser) -> Iterator[Browser]:
    found = launched(browser.browser_type, *FILM)
    yield found
    found.close()


def test_teach_and_ask_by_camera(filming: Browser, photos_page: Path, tmp_path: Path) -> None:
    other = draw(tmp_path / "a", ["owl"], 3, size=64)
    with visited(filming, photos_page) as page:
        page.get_by_role("tab", name="Teach").click()
        page.get_by_label("Class name").nth(0).fill("film")
        card = page.locator(".class").nth(0)
        card.get_by_role("button", name="Camera", exact=True).click()
        hold = card.get_by_role("button", name="Hold to take pictures")
        expect(hold).to_be_enabled()
        box = hold.bounding_box()
        assert box
        page.mouse.move(box["x"] + 20, box["y"] + 20)
        page.mouse.down()
        expect(card.locator(".thumbs li").nth(2)).to_be_visible(timeout=30_000)
        page.mouse.up()
        card.get_by_role("button", name="Stop the camera").click()
        expect(hold).to_be_disabled()
        taken = card.locator(".thumbs li").count()
        page.get_by_label("Class name").nth(1).fill("owl")
        files = sorted(other.glob("owl/*"))
        page.get_by_label("Images of the class").nth(1).set_input_files(files)
        page.get_by_role("button", name="Learn", exact=True).click()
        outcome = page.locator("#outcome")
        expect(outcome).to_contain_text(f"film ({taken}) and owl (3)", timeout=90_000)

        page.get_by_role("link", name="Try it").click()
        page.get_by_role("button", name="Start the camera").click()
        live = page.locator(".camera-answer .answer strong")
        expect(live).to_have_text("film", timeout=60_000)
        page.get_by_role("button", name="Take a picture").click()
        expect(page.locator(".result .answer strong")).to_have_text("film", timeout=60_000)
        page.get_by_role("tab", name="Memory").click()  # nobody looks at it any more
        page.get_by_role("tab", name="Ask").click()
        expect(page.get_by_role("button", name="Start the camera")).to_be_visible()
