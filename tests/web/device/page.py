"""The page's modules for models on the device, in Chromium, called from Python."""

import base64
import json
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from playwright.sync_api import Browser, Page, Route

from ovor import Classifier
from ovor.classifier.file import DESCRIPTION
from ovor.web.security import POLICY

from ..browser import Watch
from .table import digest

ADDRESS = "http://localhost"  # nobody listens: every request is answered here
STATIC = files("ovor.web") / "static"
HELPER = Path(__file__).with_name("helper.js")
DEVICE_POLICY = POLICY.replace("script-src 'self'", "script-src 'self' 'wasm-unsafe-eval'")
KINDS = {".js": "text/javascript", ".wasm": "application/wasm", ".html": "text/html"}
TRY_EACH = 40  # files that are sent at once


class SaidError(Exception):
    """What a module refuses to do, in its words."""

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(told["message"])
        self.kind, self.status, self.alike = told["kind"], told["status"], told["alike"]
        self.stack = told["stack"]


class Device:
    """A page without anything on it, which has the modules."""

    def __init__(self, browser: Browser) -> None:
        self.page: Page = browser.new_page(base_url=ADDRESS)
        self.watch = Watch(self.page, ADDRESS)
        self.page.route("**/*", answer)
        self.page.goto("/empty.html")
        self.count = 0

    def ask(self, function: str, *args: Any) -> Any:
        """Call a function of the helper; as text, which is quicker than Playwright's values."""
        run = f"(await import('/helper.js')).{function}(...JSON.parse(args))"
        script = f"async (args) => JSON.stringify(await {run})"
        return json.loads(self.page.evaluate(script, json.dumps(args)))

    def call(self, module: str, name: str, *args: Any) -> Any:
        """Return what a function of a module gives."""
        return found(self.ask("call", module, name, as_sent(args)))

    def call_each(self, module: str, name: str, each: Iterable[Sequence[Any]]) -> list[Any]:
        """Return what it gives for each of some lists of arguments."""
        return [found(one) for one in self.ask("callEach", module, name, as_sent(list(each)))]

    def opening(self, contents: Sequence[bytes]) -> list["SaidError | bytes"]:
        """Return for each file what opening it says, or what it is if it is saved again."""
        told: list[SaidError | bytes] = []
        for at in range(0, len(contents), TRY_EACH):
            some = [base64.b64encode(c).decode() for c in contents[at : at + TRY_EACH]]
            for one in self.ask("openEach", some):
                told.append(SaidError(one["error"]) if "error" in one else found(one))
        return told

    def memory(self, content: bytes | None = None, like: Classifier | None = None) -> "OnDevice":
        """Return the memory of a file, or an empty one with the settings of a classifier."""
        self.count += 1
        memory = OnDevice(self, f"memory {self.count}")
        if content is not None:
            memory.do("open", content)
        else:
            assert like is not None
            about = DESCRIPTION.dump_python(like.about(), mode="json")
            memory.do("empty", {**about, "tasks": [], "expected": {}})
        return memory


class OnDevice:
    """A memory in the page, whose methods are those of memory.js."""

    def __init__(self, device: Device, name: str) -> None:
        self.device, self.name = device, name

    def do(self, method: str, *args: Any) -> Any:
        return found(self.device.ask("perform", self.name, method, as_sent(args)))

    def learn(self, features: Any, groups: dict[str, list[int]], **options: Any) -> Any:
        """Teach rows of a table of features, by class."""
        return self.do("learn", given(features, groups), options)

    def outputs(self, features: Any) -> Any:
        return np.array(self.do("outputs", features))

    def file(self) -> bytes:
        content: bytes = self.do("file")
        return content


def given(
    features: Any, groups: dict[str, list[int]], weights: dict[int, float] | None = None
) -> list[dict[str, Any]]:
    """Return images of a table, by class, as `Memory.learn` takes them."""
    return [
        {
            "name": name,
            "features": [features[row] for row in rows],
            "images": [f"{row}.png" for row in rows],
            "digests": [digest(row) for row in rows],
            **({"weights": [weights[row] for row in rows]} if weights else {}),
        }
        for name, rows in groups.items()
    ]


def as_sent(value: Any) -> Any:
    """Return a value that Playwright can send, with bytes and features in base64."""
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, np.ndarray):
        return {"$floats": base64.b64encode(np.ascontiguousarray(value, np.float32)).decode()}
    if isinstance(value, dict):
        return {key: as_sent(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_sent(inner) for inner in value]
    return value


def found(answered: dict[str, Any]) -> Any:
    """Return what a call has given, or raise what it refused."""
    if "error" in answered:
        raise SaidError(answered["error"])
    value = answered["found"]
    if isinstance(value, dict) and set(value) == {"$bytes"}:
        return base64.b64decode(value["$bytes"])
    return value


def answer(route: Route) -> None:
    """Answer with a module, under the policy of an exported page; nothing else is there."""
    path = urlsplit(route.request.url).path
    headers = {"content-security-policy": DEVICE_POLICY}
    headers["content-type"] = KINDS[path[path.rindex(".") :]]
    if path == "/empty.html":
        route.fulfill(body="<!doctype html><link rel=icon href='data:,'>", headers=headers)
    elif path == "/helper.js":
        route.fulfill(body=HELPER.read_bytes(), headers=headers)
    else:
        part = STATIC.joinpath(*path.removeprefix("/static/").split("/"))
        route.fulfill(body=part.read_bytes(), headers=headers)
