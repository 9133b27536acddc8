"""Everybody can use it: names, order, size, contrast and stillness, in every state."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from ovor.web.app import STATIC

from ..access import check_access
from ..browser import TRIANGLE, drop, sketch
from .conftest import Open
from .stub import DESK, GARDEN, PHONE, a_model, an_inbox, done, row, unknown
from .test_camera import PHOTOS, held, live
from .test_memory import remembered
from .test_teach import teach


def drawn(page: Page, _: Path) -> None:
    sketch(page.locator("#pad"), TRIANGLE)
    page.locator("#sketch .wrong").click()
    expect(page.locator(".correct")).to_be_visible()


def corrected(page: Page, folder: Path) -> None:
    drawn(page, folder)
    page.locator(".choice").first.click()
    expect(page.locator(".learned")).to_be_visible()


def dropped(page: Page, folder: Path) -> None:
    long = folder / ("a-very-long-name-without-any-place-to-break-it" * 3 + ".png")
    long.write_bytes((folder / "fish/000.png").read_bytes())
    drop(page.locator("#ask-zone"), [long, folder / "owl/000.png"])
    expect(page.locator(".result .answer")).to_have_count(2)


def selected(page: Page, _: Path) -> None:
    page.locator(".group .check input").first.check()


def taught(page: Page, folder: Path) -> None:
    teach(page, folder / "owl", "w" * 60)
    expect(page.locator("#outcome")).to_be_visible()


def renaming(page: Page, _: Path) -> None:
    page.get_by_role("button", name="Rename fish").click()


def told(page: Page, _: Path) -> None:
    page.get_by_text("The same as a table").click()
    page.get_by_role("button", name="Undo the last change").click()
    page.get_by_role("dialog").get_by_role("button", name="Undo").click()
    expect(page.locator("#told")).to_be_visible()


def advised(verdict: str) -> dict[str, object]:
    return {"lesson": done(verdict, advice=["Add more."])}


STATES: dict[str, tuple[str, dict[str, object], Callable[[Page, Path], None] | None]] = {
    "start": ("ask", {}, None),
    "empty": ("ask", {"model": a_model()}, None),
    "empty teach": ("teach", {"model": a_model()}, None),
    "photographs": ("ask", {"model": {**GARDEN, "drawing": False}}, None),
    "only ask": ("memory", {"model": {**GARDEN, "can_teach": False}}, None),
    "wrong": ("ask", {"rows": [row("train")]}, drawn),
    "corrected": ("ask", {}, corrected),
    "unknown": ("ask", {"rows": [unknown("train")]}, dropped),
    "inbox": ("inbox", {"inbox": an_inbox(train=4, fish=2)}, selected),
    "empty inbox": ("inbox", {}, None),
    "good": ("teach", advised("good"), taught),
    "fair": ("teach", advised("fair"), taught),
    "poor": ("teach", advised("poor"), taught),
    "memory": ("memory", {"model": remembered(banana=[4, 1], fish=[4, 4])}, told),
    "camera": ("ask", {"model": PHOTOS}, live),
    "camera in teach": ("teach", {"model": PHOTOS}, held),
    "renaming": ("memory", {}, renaming),
}


@pytest.mark.parametrize("state", STATES)
def test_it_is_named_ordered_large_and_clear(show: Open, drawings: Path, state: str) -> None:
    view, stub, act = STATES[state]
    for size in (DESK, PHONE):
        page = show(size, view=view, **stub)
        if act:
            act(page, drawings)
        check_access(page, *{size["width"], 768, 900})


def test_focus_is_seen_wherever_the_keyboard_goes(show: Open) -> None:
    for view in ("ask", "inbox", "teach", "memory"):
        page = show(view=view, inbox=an_inbox(train=2))
        for _ in range(12):
            page.keyboard.press("Tab")
            seen = page.evaluate(
                """() => {
                  const at = document.activeElement;
                  if (at === document.body) return "3px solid";
                  const around = at.closest(".waiting") ?? at;
                  const { outlineWidth, outlineStyle } = getComputedStyle(around);
                  return `${outlineWidth} ${outlineStyle}`;
                }"""
            )
            assert seen == "3px solid"


def test_nothing_moves_for_who_wants_it_still(show: Open) -> None:
    page = show(delay=400)
    page.emulate_media(reduced_motion="reduce")
    sketch(page.locator("#pad"), TRIANGLE)
    expect(page.locator(".looking")).to_be_visible()
    assert page.evaluate("document.getAnimations().length") == 0


def test_the_scripts_speak_to_the_backend_alone() -> None:
    for script in STATIC.iterdir():
        if script.name.endswith(".js") and script.name != "transport.js":
            words = script.read_text()
            assert not re.search(r"\bfetch\(|XMLHttpRequest|EventSource|WebSocket", words), script
            if script.name not in ("api.js", "backend.js"):
                assert "./api.js" not in words, script
                assert "./transport.js" not in words, script
