"""Use an exported page for photographs from its first classes on, and take its pictures.

The photographs are CIFAR-10's (docs/cifar_10.py), and the camera is the film that Chromium plays in
the place of one.
"""

import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from chromium import launched
from docs.cifar_10 import fetched, load
from docs.page_pictures import DESK, LESSON, PHONE, fill_in, learn
from docs.picture_file import SCHEMES, keep, side_by_side
from ovor.classifier.new import new_classifier
from ovor.web.exported_page import export_page
from web.browser import drop
from web.exported.serving import file_server

FILM = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
TAUGHT, STRANGE = (0, 3, 7), (8,)  # airplanes, cats and horses; ships
STATES = ("teach", "ask", "camera", "memory")


class Photographer:
    """Takes each state at the desk, and keeps those of the phone for one picture."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.phones: dict[tuple[str, str], bytes] = {}

    def take(self, name: str) -> None:
        page = self.page
        page.evaluate("document.activeElement.blur()")
        page.mouse.move(0, 0)
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size(PHONE)
            page.evaluate("scrollTo(0, 0)")
            page.wait_for_timeout(400)
            self.phones[name, scheme] = page.screenshot()
            page.set_viewport_size(DESK)
            height: int = page.evaluate("document.documentElement.scrollHeight")
            page.set_viewport_size({**DESK, "height": height})
            page.wait_for_timeout(600)
            keep(page.screenshot(), f"browser-{name}-{scheme}")
        page.emulate_media(color_scheme="light")

    def keep_phones(self) -> None:
        for scheme in SCHEMES:
            shots = [self.phones[state, scheme] for state in STATES]
            keep(side_by_side(shots), f"browser-phone-{scheme}")


def exported_pictures(browser: Browser) -> None:
    """Teach three classes of photographs, ask, look by camera, and see what it remembers."""
    train, test = load(fetched())
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        train.chosen(list(TAUGHT), 12, 0).write(root / "first")
        test.chosen([*TAUGHT, *STRANGE], 2, 0).write(root / "new")
        export_page(new_classifier("photos", device="cpu"), None, root / "album")
        filming = launched(browser.browser_type, *FILM)
        with file_server(root / "album") as address:
            page = filming.new_page(base_url=address, viewport=DESK)
            page.goto("/")
            expect(page.locator("#device-offline")).to_contain_text("without", timeout=LESSON)
            page.reload()  # so that it has threads, as on every later visit
            expect(page.locator("#device-offline")).to_contain_text("without", timeout=LESSON)
            states(Photographer(page), root)
        filming.close()


def states(camera: Photographer, root: Path) -> None:
    page = camera.page
    fill_in(page, root / "first")
    camera.take("teach")
    learn(page, "airplane (12), cat (12) and horse (12)")
    page.get_by_role("tab", name="Ask").click()
    drop(page.locator("#ask-zone"), sorted((root / "new").glob("*/*"))[::2])
    expect(page.locator(".result .answer")).to_have_count(4, timeout=LESSON)
    camera.take("ask")
    page.get_by_role("button", name="Clear the list").click()
    page.get_by_role("button", name="Start the camera").click()
    expect(page.locator(".camera-answer .answer")).to_be_visible(timeout=LESSON)
    camera.take("camera")
    page.get_by_role("button", name="Stop the camera").click()
    page.get_by_role("tab", name="Memory").click()
    camera.take("memory")
    camera.keep_phones()
