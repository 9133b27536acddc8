"""Use an exported page for photographs from its first classes on, and take its pictures.

The photographs are CIFAR-10's (docs/cifar_10.py), and the camera is the film that Chromium plays in
the place of one.
"""

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, expect

from chromium import launched
from docs.cifar_10 import fetched, load
from docs.page_pictures import DESK, LESSON, Camera, fill_in, learn
from ovor.classifier.new import new_classifier
from ovor.web.exported_page import export_page
from web.browser import drop
from web.exported.serving import file_server

FILM = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
TAUGHT, STRANGE = (0, 3, 7), (8,)  # airplanes, cats and horses; ships
MIXED_UP = "mixed-up.png"  # an airplane among the cats
STATES = ("teach", "lesson", "ask", "camera", "memory")


def exported_pictures(browser: Browser) -> None:
    """Teach three classes, one photograph wrongly; ask, look by camera, see what it remembers."""
    train, test = load(fetched())
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        train.chosen(list(TAUGHT), 12, 0).write(root / "first")
        test.chosen([*TAUGHT, *STRANGE], 2, 0).write(root / "new")
        shutil.copy(sorted(root.glob("new/airplane/*"))[1], root / "first/cat" / MIXED_UP)
        export_page(new_classifier("photos", device="cpu"), None, root / "album")
        filming = launched(browser.browser_type, *FILM)
        with file_server(root / "album") as address:
            page = filming.new_page(base_url=address, viewport=DESK)
            page.goto("/")
            expect(page.locator("#device-offline")).to_contain_text("without", timeout=LESSON)
            page.reload()  # so that it has threads, as on every later visit
            expect(page.locator("#device-offline")).to_contain_text("without", timeout=LESSON)
            states(Camera(page, "browser"), root)
        filming.close()


def states(camera: Camera, root: Path) -> None:
    page = camera.page
    fill_in(page, root / "first")
    camera.take("teach")
    learn(page, "airplane (12), cat (13) and horse (12)")
    camera.take("lesson")
    suspect = page.locator(".suspects li", has_text=MIXED_UP)
    suspect.get_by_role("button", name="It is airplane").click()
    expect(suspect).to_contain_text("counts as airplane now")
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
    camera.keep_phones({"phone": STATES})
