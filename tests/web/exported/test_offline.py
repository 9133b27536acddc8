"""What the service worker keeps, and how a newer export takes over."""

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from drawings import draw
from ovor import Classifier

from .conftest import Export, ready, visited

pytestmark = pytest.mark.xdist_group("exported")

KEPT = """async () => {
  const [name] = await caches.keys();
  const found = await (await caches.open(name)).keys();
  return [(await caches.keys()).length, found.map(({ url }) => new URL(url).pathname.slice(1))];
}"""


def test_a_newer_export_takes_over_when_asked_to(
    browser: Browser, drawings_page: Path, export: Export, tmp_path: Path
) -> None:
    folder = tmp_path / "page"
    shutil.copytree(drawings_page, folder)
    model = Classifier("embedded", device="cpu").learn(draw(tmp_path / "a", ["fish", "owl"], 3))
    model.save(tmp_path / "pond.ovor")
    with visited(browser, folder) as page:
        ready(page)
        caches, names = page.evaluate(KEPT)
        assert caches == 1
        assert {"index.html", "manifest.json", "encoder.onnx", "runtime/wasm/engine.wasm"} <= set(
            names
        )
        assert not [name for name in names if "webgpu" in name]  # an engine that is not used
        export(drawings_page, folder, tmp_path / "pond.ovor")
        page.reload()
        told = page.locator("#told")
        expect(told).to_contain_text("There is a newer version of this page.", timeout=60_000)
        expect(page.locator("#about")).to_have_text("Knows nothing yet")
        told.get_by_role("button", name="Reload").click()
        expect(page.locator("#about")).to_have_text("Knows 2 classes: fish, owl", timeout=60_000)
        ready(page)
        assert page.evaluate(KEPT)[0] == 1
        page.context.set_offline(True)
        page.reload()
        expect(page.locator("#about")).to_have_text("Knows 2 classes: fish, owl")


def test_a_file_that_is_not_of_the_export_is_not_kept(
    browser: Browser, drawings_page: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(drawings_page, tmp_path / "page")
    (folder / "encoder.onnx").write_bytes(b"something else")
    with visited(browser, folder) as page:
        page.watch.allow("encoder", "is not the one of this export", "ServiceWorker")
        expect(page.locator("#gone")).to_contain_text(
            "This browser cannot compute with the encoder", timeout=60_000
        )


def test_an_engine_that_computes_otherwise_is_not_used(
    browser: Browser, drawings_page: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(drawings_page, tmp_path / "page")
    check = bytearray((folder / "encoder.check").read_bytes())
    check[3] ^= 1
    (folder / "encoder.check").write_bytes(check)
    with visited(browser, folder, service_workers="block") as page:
        page.watch.allow("blocked by Playwright")
        expect(page.locator("#gone")).to_contain_text("wasm differs by", timeout=60_000)


def test_it_says_if_it_could_not_be_kept(
    browser: Browser, drawings_page: Path, tmp_path: Path
) -> None:
    """As when a program that uploads files has changed the ends of lines."""
    folder = shutil.copytree(drawings_page, tmp_path / "page")
    readme = (folder / "README.txt").read_bytes()
    (folder / "README.txt").write_bytes(readme.replace(b"\n", b"\r\n"))
    with visited(browser, folder) as page:
        page.watch.allow("is not the one of this export", "ServiceWorker")
        expect(page.locator("#device-engine")).to_contain_text("Computes", timeout=60_000)
        expect(page.locator("#device-offline")).to_contain_text(
            "It could not be kept for use without a network", timeout=60_000
        )


def test_opened_as_a_file_it_says_what_to_do(browser: Browser, drawings_page: Path) -> None:
    page = browser.new_page()
    page.goto((drawings_page / "index.html").as_uri())
    expect(page.locator("#gone")).to_contain_text("put its folder on a web server")
    expect(page.locator("#device-engine")).to_be_empty()
    page.close()
