"""A browser on the page of `ovor serve`, and a hand that drops, pastes and draws."""

import base64
import math
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import ConsoleMessage, Locator, Page

Point = tuple[float, float]


class Watch:
    """Notes what a page must not do: complain, fail, break its policy, or ask other hosts."""

    def __init__(self, page: Page, address: str) -> None:
        self.faults: list[str] = []
        self.allowed: list[str] = []
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("console", self.hear)
        page.on("request", lambda request: self.ask(request.url, address))
        page.add_init_script(
            "document.addEventListener('securitypolicyviolation', (event) =>"
            " console.error('policy', event.violatedDirective, event.blockedURI))"
        )

    def hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"{message.type}: {message.text}")

    def ask(self, url: str, address: str) -> None:
        if not url.startswith((address + "/", "blob:", "data:")):
            self.faults.append(f"request to {url}")

    def allow(self, *signs: object) -> None:
        """Allow faults with these signs: Chromium logs every 4xx, also those a test is about."""
        self.allowed += [str(sign) for sign in signs]

    def check(self) -> None:
        left = [fault for fault in self.faults if not any(sign in fault for sign in self.allowed)]
        assert not left, left


def drop(target: Locator, paths: Sequence[Path]) -> None:
    """Drop files or folders as a file manager does: by Chromium's own drop, folders and all."""
    target.scroll_into_view_if_needed()
    box = target.bounding_box()
    assert box
    session = target.page.context.new_cdp_session(target.page)
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    where = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, **where, "data": data})
    session.detach()


def paste(page: Page, path: Path) -> None:
    page.evaluate(
        """([name, content]) => {
          const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
          const clipboardData = new DataTransfer();
          clipboardData.items.add(new File([bytes], name, { type: "image/png" }));
          document.activeElement.dispatchEvent(
            new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
        }""",
        [path.name, base64.b64encode(path.read_bytes()).decode()],
    )


def sketch(pad: Locator, strokes: Sequence[Sequence[Point]]) -> None:
    """Draw strokes with the mouse; their points go from 0 to 1."""
    pad.scroll_into_view_if_needed()
    box = pad.bounding_box()
    assert box
    mouse = pad.page.mouse
    for stroke in strokes:
        places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in stroke]
        mouse.move(*places[0])
        mouse.down()
        for place in places[1:]:
            mouse.move(*place, steps=3)
        mouse.up()


def sun(turn: float = 0.2) -> list[list[Point]]:
    def at(angle: float, radius: float) -> Point:
        return 0.5 + radius * math.cos(angle), 0.5 + radius * math.sin(angle)

    disc = [at(turn + step * math.pi / 12, 0.19) for step in range(25)]
    angles = [turn + ray * math.pi / 5 for ray in range(10)]
    return [disc, *([at(angle, 0.25), at(angle, 0.38)] for angle in angles)]


TRIANGLE = [[(0.5, 0.15), (0.85, 0.8), (0.15, 0.82)], [(0.15, 0.82), (0.5, 0.15)]]
