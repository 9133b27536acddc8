"""How large and how fast an exported page is, beside the same page of `ovor serve`.

    PYTHONPATH=tests python -m docs.browser

writes docs/results/browser.json. Both are used by Chromium on this machine as a person would: files
are dropped, a button is pressed, and the clock runs until the page shows the answer. The encoder
for drawings gets drawings of 28 pixels, that for photographs generated ones of 640 x 480, as only
their size matters here.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FILE = Path(__file__).parent / "results/browser.json"
CLASSES = ["banana", "candle", "fish", "owl", "sun"]
EACH, ASKED = 20, 100
PATIENCE = 300_000  # milliseconds
NAMES = {
    "megabytes": "folder, MB",
    "loaded": "of it loaded, MB",
    "first": "first visit to first answer, s",
    "again": "second visit, s",
    "per_second": "images/s",
    "taught": "5 classes of 20 taught in, s",
}
PLACES = {"page": "exported page", "server": "`ovor serve`"}


def images(root: Path, backbone: str, each: int, first: int = 0) -> Path:
    """Write images of every class: drawings, or pictures as large as small photographs."""
    from drawings import draw

    if backbone == "embedded":
        return draw(root, CLASSES, each, first=first)
    for number, name in enumerate(CLASSES):
        (root / name).mkdir(parents=True)
        for one in range(first, first + each):
            rng = np.random.default_rng([number, one])
            colours = rng.integers(0, 256, (6, 8, 3)) // 2 + 25 * number
            image = Image.fromarray(colours.astype(np.uint8))
            image.resize((640, 480), Image.Resampling.BICUBIC).save(root / name / f"{one}.jpg")
    return root


def export(model: Path, folder: Path) -> dict[str, float]:
    """Export a model, and return how large its page is, and how much of that a visit loads."""
    command = [sys.executable, "-m", "ovor", "export", str(model), str(folder), "--web"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    files = json.loads((folder / "manifest.json").read_text())["files"]
    sizes = {name: about["bytes"] for name, about in files.items()}
    loaded = sum(size for name, size in sizes.items() if files[name]["engine"] != "webgpu")
    return {"megabytes": sum(sizes.values()) / 1e6, "loaded": loaded / 1e6}


@contextmanager
def serving(model: Path) -> Iterator[str]:
    """Run `ovor serve`, and give its address."""
    command = [sys.executable, "-m", "ovor", "serve", str(model), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            found = re.search(r"http://\S+", process.stdout.readline())
            assert found
            yield found[0]
        finally:
            process.terminate()


def visit(page: "Page", address: str, image: Path) -> float:
    """Open the page, ask about an image at once, and return the seconds until it is answered."""
    from playwright.sync_api import expect

    begun = time.perf_counter()
    page.goto(address)
    page.locator("#ask-files").set_input_files(image)
    expect(page.locator(".result .answer")).to_have_count(1, timeout=PATIENCE)
    return time.perf_counter() - begun


def use(browser: "Browser", address: str, root: Path, backbone: str) -> dict[str, Any]:
    """Return how long a person waits for answers and for a lesson."""
    from playwright.sync_api import expect

    from web.browser import drop

    page = browser.new_context().new_page()
    one = next((root / "more").glob("*/*"))
    found: dict[str, Any] = {"first": visit(page, address, one)}
    if page.locator("body.on-device").count():
        words = page.locator("#device-offline")
        expect(words).to_contain_text("It works without a network", timeout=PATIENCE)
    found["again"] = visit(page, address, one)
    page.get_by_role("button", name="Clear the list").click()
    begun = time.perf_counter()
    drop(page.locator("#ask-zone"), [root / "more"])
    expect(page.locator(".result .answer")).to_have_count(ASKED, timeout=PATIENCE)
    found["per_second"] = ASKED / (time.perf_counter() - begun)
    page.get_by_role("tab", name="Teach").click()
    drop(page.locator("#folder-choose"), [root / "taught"])
    expect(page.get_by_label("Class name").nth(len(CLASSES) - 1)).to_have_value(CLASSES[-1])
    begun = time.perf_counter()
    page.get_by_role("button", name="Learn", exact=True).click()
    expect(page.locator("#outcome")).to_contain_text(f"sun ({EACH})", timeout=PATIENCE)
    found["taught"] = time.perf_counter() - begun
    if page.locator("body.on-device").count():
        found["engine"] = page.locator("#device-engine").inner_text()
    page.context.close()
    return found


def measure(browser: "Browser", backbone: str) -> list[dict[str, Any]]:
    """Return the figures of an encoder, in an exported page and by a server."""
    from ovor import Classifier
    from web.exported.serving import file_server

    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        model = Classifier(backbone, device="cpu").learn(images(root / "known", backbone, 3, 70))
        model.save(root / "garden.ovor")
        images(root / "taught", backbone, EACH)
        images(root / "more", backbone, ASKED // len(CLASSES), 40)
        sizes = export(root / "garden.ovor", root / "page")
        with file_server(root / "page") as address:
            page = sizes | use(browser, address, root, backbone)
        with serving(root / "garden.ovor") as address:
            server = use(browser, address, root, backbone)
    return [
        {"encoder": backbone, "place": place, **found}
        for place, found in (("page", page), ("server", server))
    ]


def as_markdown(rows: list[dict[str, Any]]) -> str:
    """Return the figures as a table."""
    lines = ["| encoder | | " + " | ".join(NAMES.values()) + " |", "|---" * (len(NAMES) + 2) + "|"]
    for row in rows:
        cells = (f"{row[key]:.1f}" if key in row else "" for key in NAMES)
        lines.append(f"| {row['encoder']} | {PLACES[row['place']]} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    from chromium import browsing

    rows: list[dict[str, Any]] = []
    with browsing() as browser:
        for backbone in ("embedded", "photos"):
            rows += measure(browser, backbone)
            print(json.dumps(rows[-2:]), flush=True)
    FILE.write_text(json.dumps(rows, indent=1) + "\n")
    print(as_markdown(rows))


if __name__ == "__main__":
    main()
