"""Use the page of `ovor serve` with a model of texts, from a table to the inbox; take its pictures.

The tickets are those of the README's walk.
"""

import csv
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, expect

from docs.page_pictures import DESK, Camera, learn, serving
from web.browser import drop

TICKETS = Path(__file__).parent / "tickets"
STRIPS = {"phone": ("ask", "wrong", "teach", "inbox")}
LATE = "My package is three days late, can you find out where it is?"
STRANGE = "Do you have any job openings for students this summer?"


def text_pictures(browser: Browser) -> None:
    """Teach a table, ask, begin to put an answer right, and look at what waits."""
    options = ("tickets.ovor", "--backbone", "text")
    with tempfile.TemporaryDirectory() as name, serving(Path(name), *options) as address:
        page = browser.new_page(base_url=address, viewport=DESK)
        page.goto("/#teach")
        camera = Camera(page, "texts")
        drop(page.locator("#table-choose"), [TICKETS / "march.csv"])
        expect(page.locator("#tally")).to_contain_text("classes")
        camera.take("teach")
        learn(page, "Learned")
        page.get_by_role("tab", name="Ask").click()
        box = page.get_by_label("Ask about a text")
        box.fill(LATE)
        expect(page.locator("#text-answer .bars")).to_be_visible()
        camera.take("ask")
        box.fill(STRANGE)
        expect(page.locator("#text-answer .unknown")).to_be_visible()
        page.locator("#text-answer .wrong").click()
        camera.take("wrong")
        ask_strangers(camera)
        camera.keep_phones(STRIPS)


def ask_strangers(camera: Camera) -> None:
    """Ask about texts of a class that it does not know, and select the first group that waits."""
    page = camera.page
    with (TICKETS / "april.csv").open(newline="", encoding="utf-8") as file:
        count = sum(1 for _ in csv.DictReader(file))
    drop(page.locator("#ask-zone"), [TICKETS / "april.csv"])
    expect(page.locator(".result .answer")).to_have_count(count, timeout=60_000)
    page.get_by_role("tab", name="Inbox").click()
    page.locator(".group .check input").first.check()
    expect(page.locator(".waiting .quote").first).to_be_visible()
    page.get_by_label("They are a").fill("repair")
    camera.take("inbox")
