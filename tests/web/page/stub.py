"""The page without a server: its own files, with a backend that says what a test wants."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, Route, expect

from ovor.web.app import static
from ovor.web.security import POLICY

from ..browser import Watch

ADDRESS = "http://localhost"  # nobody listens: every request is answered here
BACKEND = Path(__file__).with_name("stub_backend.js")
DESK, PHONE = {"width": 1100, "height": 900}, {"width": 375, "height": 667}
LIMITS = {"image_bytes": 10**7, "images_per_lesson": 100, "request_bytes": 10**8}


def known(**images: int) -> list[dict[str, Any]]:
    return [
        {"name": name, "images": count, "expected": 90.0, "confused_with": []}
        for name, count in images.items()
    ]


def lesson(number: int, **images: int) -> dict[str, Any]:
    aside = {"held_out": 0, "held_out_accuracy": None}
    return {"lesson": number, **aside, "classes": known(**images)}


def a_model(*lessons: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return what GET /model would say."""
    return {
        "name": "garden.ovor",
        "method": "analytic",
        "exact": True,
        "backbone": "embedded",
        "drawing": True,
        "megabytes": 2.6,
        "version": 1,
        "empty": not lessons,
        "can_teach": True,
        "can_undo": True,
        "lessons": list(lessons),
        "exams": [],
        "memory": [],
        "limits": LIMITS,
        "learning": None,
        "inbox": 0,
        **more,
    }


GARDEN = a_model(lesson(1, banana=30, fish=30), lesson(2, train=12))


READS_TEXTS = {"one": "text", "many": "texts", "written": True}


def of_texts(*lessons: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return what GET /model would say of a model of texts."""
    said = {"name": "tickets.ovor", "backbone": "text", "drawing": False, "reads": READS_TEXTS}
    return a_model(*lessons, **{**said, **more})


def row(label: str, confidence: float = 0.96, other: str = "fish") -> dict[str, Any]:
    best = [{"class": label, "confidence": confidence}]
    rest = {"class": other, "confidence": round(1 - confidence, 6)}
    sure = {"unknown": False, "likeliest": label, "confidence": confidence, "margin": 1.0}
    return {"label": label, **sure, "best": [*best, rest]}


ALIKE = {
    "status": 409,
    "error": "Fish looks like fish: is it the same?",
    "label": "Fish",
    "alike": [{"given": "Fish", "known": "fish"}],
}


def unknown(likeliest: str) -> dict[str, Any]:
    return {**row(likeliest, 0.92), "label": "unknown", "unknown": True, "margin": -1.0}


def an_inbox(**groups: int) -> dict[str, Any]:
    """Return an inbox with a group for each class that its images are most like."""
    images: list[dict[str, Any]] = []
    found = []
    for number, (name, count) in enumerate(groups.items(), 1):
        ids = [str(len(images) + i) for i in range(count)]
        said = {"label": "unknown", "likeliest": name, "confidence": 0.4, "group": number}
        images += [{"id": own, "image": f"{own}.png", **said} for own in ids]
        found.append({"group": number, "images": ids, "likeliest": name})
    return {"kept": "memory", "most": 500, "images": images, "groups": found}


def done(
    verdict: str | None = "good", expected: float = 95.0, advice: Sequence[str] = (), **more: Any
) -> dict[str, Any]:
    """Return the last state of a lesson about owls."""
    told = {"classes": [{"name": "owl", "images": 12}], "accuracy": expected, "lesson": 3}
    return {
        "state": "done",
        "report": verdict and report(verdict, expected, advice),
        **told,
        **more,
    }


def report(verdict: str, expected: float, advice: Sequence[str]) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "advice": list(advice),
        "by": "leave-one-out",
        "judged": 12,
        "expected": expected,
        "interval": [64.6, 98.5],
        "chance": 25.0,
        "older": {"how": "none", "lost": None, "classes": [], "note": ""},
    }


def opened(browser: Browser, size: dict[str, int] = DESK, view: str = "", **stub: Any) -> Page:
    """Open the page with a backend that says `stub`."""
    page = browser.new_page(base_url=ADDRESS, viewport=size, accept_downloads=True)
    page.watch = Watch(page, ADDRESS)
    told = {"model": GARDEN, "rows": [row("train")], **stub}
    page.add_init_script(f"window.stub ??= {json.dumps(told)}")
    page.route("**/*", answer)
    page.goto(f"/#{view}")
    if not told.get("late"):  # else the model is not told of until the test says so
        expect(page).to_have_title(f"{told['model']['name']} \u2013 ovor")
    return page


def answer(route: Route) -> None:
    """Answer with a file of the page, under its policy; nothing else is there to be asked."""
    path = urlsplit(route.request.url).path
    if path == "/static/backend.js":
        route.fulfill(body=BACKEND.read_text(), content_type="text/javascript")
        return
    found = static("page.html" if path == "/" else path.removeprefix("/static/"))
    headers = {"content-security-policy": POLICY, "content-type": str(found.media_type)}
    route.fulfill(body=bytes(found.body), headers=headers)


def calls(page: Page, name: str) -> list[dict[str, Any]]:
    """Return what was asked of the backend under a name."""
    found: list[dict[str, Any]] = page.evaluate(
        "(name) => window.calls.filter((call) => call.name === name)", name
    )
    return found
