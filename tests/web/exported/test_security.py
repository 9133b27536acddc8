"""An exported page asks no other host, and could not if it wanted to."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

from chromium import launched
from drawings import draw
from ovor.web.exported_page import POLICY

from .conftest import ready, visited
from .test_day import asked, teach

pytestmark = pytest.mark.xdist_group("exported")

ASKING = """async (address) => {
  const answer = await fetch(address, { mode: "no-cors" }).then(() => "sent", () => "stopped");
  return answer;
}"""
SHOWING = """(address) => new Promise((done) => {
  const image = new Image();
  image.onload = () => done("sent");
  image.onerror = () => done("stopped");
  image.src = address;
})"""

HEADER = """async (name) => (await fetch(name)).headers.get("content-security-policy")"""


@contextmanager
def stranger() -> Iterator[tuple[str, list[str]]]:
    """Run another host, and note what it is asked for."""
    asked_for: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked_for.append(self.path)
            self.send_response(200)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.send_header("Cross-Origin-Resource-Policy", "cross-origin")
            self.end_headers()

        do_POST = do_GET  # noqa: N815

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked_for
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("again", [False, True])
def test_the_policy_stops_requests_to_other_hosts(
    browser: Browser, drawings_page: Path, again: bool
) -> None:
    """Of the page and of its worker; by the page's own policy, and by the service worker's."""
    with stranger() as (address, asked_for), visited(browser, drawings_page) as page:
        page.watch.allow("policy", "Content Security Policy", "violates", address, "Fetch API")
        ready(page)
        if again:
            page.reload()
            ready(page)
            assert page.evaluate("crossOriginIsolated")
        assert page.evaluate(ASKING, f"{address}/fetch") == "stopped"
        assert page.evaluate(SHOWING, f"{address}/image") == "stopped"
        page.evaluate("(address) => navigator.sendBeacon(address)", f"{address}/beacon")
        [worker] = [one for one in page.workers if one.url.startswith("blob:")]
        assert worker.evaluate(ASKING, f"{address}/worker") == "stopped"
        if again:  # the engine's threads, which wait and answer nothing, are files of the page
            assert page.evaluate(HEADER, "runtime/wasm/engine.js").startswith(POLICY)
            assert len(page.workers) > 1
        assert page.evaluate(ASKING, "manifest.json") == "sent"
        assert worker.evaluate(ASKING, f"{page.url}manifest.json") == "sent"
    assert not asked_for


def test_the_log_of_the_browser_names_no_other_host(
    browser: Browser, drawings_page: Path, tmp_path: Path
) -> None:
    """From the first load to an answer, by Chromium's own log of its network."""
    log = tmp_path / "net.json"
    own = launched(browser.browser_type, f"--log-net-log={log}")
    with visited(own, drawings_page) as page:
        ready(page)
        teach(page, draw(tmp_path / "a", ["fish", "owl"], 4), "fish (4) and owl (4).")
        assert asked(page, tmp_path / "a/owl/001.png")
        address = page.url
    own.close()  # which ends the log
    seen = requests(log)
    assert any("/encoder.onnx" in url for url in seen)
    hosts = {urlsplit(url).netloc for url in seen if url.startswith(("http:", "https:", "ws"))}
    assert hosts == {urlsplit(address).netloc}


def requests(log: Path) -> set[str]:
    """Return the addresses that pages have asked for, not those of the browser itself."""
    said = json.loads(log.read_text())
    start = said["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    told = [
        event["params"] for event in said["events"] if event["type"] == start and "params" in event
    ]
    return {one["url"] for one in told if one.get("initiator", "").startswith("http")}


def test_a_link_in_a_name_stays_text(browser: Browser, drawings_page: Path, tmp_path: Path) -> None:
    """Names of classes and of files are shown as they are."""
    name = "<img src=x onerror=alert(1)>"
    folder = draw(tmp_path / "a", ["fish", "owl"], 3)
    (folder / "owl").rename(folder / "__proto__")
    with visited(browser, drawings_page) as page:
        teach(page, folder, "__proto__ (3) and fish (3).")
        file = (folder / "fish/000.png").rename(folder / f"{name}.png")
        page.get_by_role("tab", name="Ask").click()
        page.locator("#ask-files").set_input_files(file)
        expect(page.locator(".file")).to_have_text(f"{name}.png")
        expect(page.locator("img[src=x]")).to_have_count(0)
