"""Use the page of `ovor serve` from the first class to an undone lesson, and take its pictures.

At a desk each state is a picture of its own, light and dark; on a phone four stand side by side,
as they are seen without scrolling.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, ViewportSize, expect

from docs.picture_file import SCHEMES, keep, side_by_side
from drawings import draw
from web.browser import drop, sketch, sun

FIRST, SECOND = ["banana", "candle", "fish"], ["sun", "train"]
LESSON = 120_000  # milliseconds that a lesson may take
DESK, PHONE = ViewportSize(width=960, height=480), ViewportSize(width=375, height=667)
STRIPS = {
    "phone": ("empty", "ask", "unknown", "wrong"),
    "phone-2": ("inbox", "good", "poor", "memory"),
}


class Camera:
    """Takes each state at the desk and on the phone, and puts those of the phone in rows."""

    def __init__(self, page: Page, prefix: str = "page") -> None:
        self.page, self.prefix = page, prefix
        self.phones: dict[tuple[str, str], bytes] = {}

    def take(self, name: str) -> None:
        """Take a state in both sizes and schemes, without focus and pointer."""
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
            page.set_viewport_size({**DESK, "height": height})  # so that nothing sticks half-way
            page.wait_for_timeout(600)
            keep(page.screenshot(), f"{self.prefix}-{name}-{scheme}")
        page.emulate_media(color_scheme="light")

    def keep_phones(self, strips: dict[str, tuple[str, ...]]) -> None:
        for scheme in SCHEMES:
            for name, states in strips.items():
                shots = [self.phones[state, scheme] for state in states]
                keep(side_by_side(shots), f"{self.prefix}-{name}-{scheme}")


def page_pictures(browser: Browser) -> None:
    """Teach two lessons, ask, put right, name what waits, teach badly and undo that."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        exam = draw(root / "exam", [*FIRST, *SECOND], 10, first=70)
        options = ("garden.ovor", "--backbone", "embedded", "--exam", str(exam))
        with serving(root, *options) as address:
            page = browser.new_page(base_url=address, viewport=DESK)
            page.goto("/")
            camera = Camera(page)
            expect(page.locator("#about")).to_have_text("Knows nothing yet")
            camera.take("empty")
            lessons(camera, root)
            answers(camera, root)
            inbox(camera, root)
            camera.keep_phones(STRIPS)


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[str]:
    """Run `ovor serve` on a model that is not there yet, and give its address."""
    command = [sys.executable, "-m", "ovor", "serve", *options, "--port", "0"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            found = re.search(r"http://\S+", process.stdout.readline())
            assert found
            yield found[0]
        finally:
            process.terminate()


def lessons(camera: Camera, root: Path) -> None:
    """Teach two good lessons and a bad one, which is undone."""
    page = camera.page
    fill_in(page, draw(root / "first", FIRST, 20))
    camera.take("teach")
    learn(page, "banana (20), candle (20) and fish (20)")
    camera.take("good")
    fill_in(page, draw(root / "second", SECOND, 20))
    learn(page, "sun (20) and train (20)")
    same = draw(root / "same", ["owl"], 6)
    shutil.copytree(same / "owl", same / "bird")  # which cannot be told apart
    fill_in(page, same)
    learn(page, "bird (6) and owl (6)")
    camera.take("poor")
    page.get_by_role("button", name="Undo this lesson").click()
    page.get_by_role("dialog").get_by_role("button", name="Undo").click()
    expect(page.locator("#told")).to_contain_text("Undone.", timeout=LESSON)
    page.locator("#told").get_by_role("button", name="Close").click()
    page.get_by_role("tab", name="Memory").click()
    expect(page.locator(".class-row", has_text="train")).to_contain_text("asked again")
    camera.take("memory")


def fill_in(page: Page, folder: Path) -> None:
    """Drop a folder of class folders on the form."""
    page.get_by_role("tab", name="Teach").click()
    drop(page.locator("#folder-choose"), [folder])
    for place, path in enumerate(sorted(folder.iterdir())):
        expect(page.get_by_label("Class name").nth(place)).to_have_value(path.name)


def learn(page: Page, words: str) -> None:
    page.get_by_role("button", name="Learn", exact=True).click()
    expect(page.locator("#outcome")).to_contain_text(words, timeout=LESSON)


def answers(camera: Camera, root: Path) -> None:
    """Draw a sun, ask about files, and begin to put an answer right."""
    page = camera.page
    page.get_by_role("tab", name="Ask").click()
    sketch(page.locator("#pad"), sun())
    expect(page.locator("#sketch-answer strong")).to_have_text("sun")
    files = [root / f"exam/{name}/07{n}.png" for name, n in (("fish", 1), ("candle", 2))]
    drop(page.locator("#ask-zone"), files)
    expect(page.locator(".result .answer")).to_have_count(2)
    camera.take("ask")
    page.locator("#sketch .wrong").click()
    camera.take("wrong")
    page.locator("#clear").click()
    page.get_by_role("button", name="Clear the list").click()
    sketch(page.locator("#pad"), [ZIGZAG])
    expect(page.locator("#sketch-answer .unknown")).to_be_visible()
    camera.take("unknown")


ZIGZAG = [(0.1 + 0.07 * i, 0.2 if i % 2 else 0.8) for i in range(12)]


def inbox(camera: Camera, root: Path) -> None:
    """Ask about what it does not know, and select a group of what waits."""
    page = camera.page
    strangers = draw(root / "strangers", ["owl", "stairs"], 12)
    drop(page.locator("#ask-zone"), sorted(strangers.glob("*/*.png")))
    expect(page.locator(".result .answer")).to_have_count(24, timeout=LESSON)
    page.get_by_role("tab", name="Inbox").click()
    page.locator(".group .check input").first.check()
    expect(page.locator(".waiting img").first).to_be_visible()
    page.get_by_label("They are a").fill("stairs")
    camera.take("inbox")
