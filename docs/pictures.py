"""Take the pictures of the report and of the page of `ovor serve`, light and dark, in Chromium.

They go to docs/figures. Those of the report are of runs/demo/report.html, which `make demo` makes,
the differences of docs/results/report-main-table.html, and those of an evaluation of a model that
is taught here.

    PYTHONPATH=tests python -m docs.pictures [report] [evaluation] [page]
"""

import io
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, Page, expect

from chromium import browsing
from drawings import draw
from ovor import Classifier
from web.browser import drop, sketch, sun

DOCS = Path(__file__).parent
FIRST = ["banana", "candle", "fish"]
LATER = (["sun", "train"], ["circle", "lollipop"], ["owl", "whale"])
SCHEMES: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")
LESSON = 120_000  # milliseconds that a lesson may take


def keep(shot: bytes, name: str) -> None:
    """Write a picture with 256 colours, which for pages is a fraction of the size."""
    image = Image.open(io.BytesIO(shot)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    path = DOCS / f"figures/{name}.png"
    image.save(path, optimize=True)
    if path.stat().st_size >= 150_000:
        raise SystemExit(f"{path} is too large for a document: {path.stat().st_size:,} bytes.")


def report_pictures(browser: Browser) -> None:
    path = DOCS.parent / "runs/demo/report.html"
    if not path.exists():
        raise SystemExit(f"There is no {path}: run make demo.")
    table = (DOCS / "results/report-main-table.html").as_uri()
    for scheme in SCHEMES:
        page = report_page(browser, path.as_uri(), 900, scheme)
        keep(page.screenshot(), f"report-top-{scheme}")
        for chart in ("curves", "confusion", "energies"):
            shot = page.locator(f"figure[data-chart={chart}]").screenshot()
            keep(shot, f"report-{chart}-{scheme}")
        keep(page.locator(".cards").first.screenshot(), f"report-mistakes-{scheme}")
        page = report_page(browser, table, 900, scheme)
        shot = page.locator("figure[data-chart=differences]").screenshot()
        keep(shot, f"report-differences-{scheme}")
        page = report_page(browser, path.as_uri(), 375, scheme)
        page.evaluate("document.querySelector('figure[data-chart=energies]').scrollIntoView()")
        keep(page.screenshot(), f"report-phone-{scheme}")


def evaluation_pictures(browser: Browser) -> None:
    """Teach a model drawings, and take the page that `ovor evaluate --report` writes."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        model = Classifier("embedded")
        for names in (FIRST, *LATER):
            model.learn(draw(root / "-".join(names), names, 20))
        model.save(root / "garden.ovor")
        draw(root / "kept", [name for names in (FIRST, *LATER) for name in names], 30, first=50)
        draw(root / "others", ["teapot", "snowman"], 30)
        command = "evaluate garden.ovor kept --unknown others --report page.html"
        subprocess.run([sys.executable, "-m", "ovor", *command.split()], cwd=root, check=True)
        for scheme in SCHEMES:
            page = report_page(browser, (root / "page.html").as_uri(), 900, scheme)
            keep(page.screenshot(), f"evaluation-top-{scheme}")
            keep(page.locator(".cards").screenshot(), f"evaluation-mistakes-{scheme}")
            shot = page.locator("figure[data-chart=calibration]").screenshot()
            keep(shot, f"evaluation-calibration-{scheme}")
            page = report_page(browser, (root / "page.html").as_uri(), 375, scheme)
            keep(page.screenshot(), f"evaluation-phone-{scheme}")


def report_page(
    browser: Browser, address: str, width: int, scheme: Literal["light", "dark"]
) -> Page:
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.goto(address)
    page.wait_for_selector("html[data-drawn=all]", state="attached", timeout=60_000)
    return page


def page_pictures(browser: Browser) -> None:
    """Teach a model three tasks on its page, and ask it about images."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        Classifier("embedded", "ovor").learn(draw(root / "1", FIRST, 70)).save(root / "garden.ovor")
        kept = draw(root / "kept", FIRST, 10, first=70)
        with serving(root, kept) as address:
            page = browser.new_page(base_url=address, viewport={"width": 1100, "height": 900})
            page.goto("/")
            for number, names in enumerate(LATER, 2):
                teach(page, draw(root / str(number), names, 70), number)
            page.get_by_role("tab", name="Memory").click()
            expect(page.locator("#tasks .card").last).not_to_contain_text("not measured")
            take(page, "memory")
            fill_in(page, draw(root / "next", ["butterfly", "snowman"], 14))
            take(page, "teach")
            page.get_by_role("tab", name="Predict").click()
            sketch(page.locator("#pad"), sun())
            drop(page.locator("#predict-zone"), some_known_and_one_unknown(root))
            expect(page.locator(".result meter")).to_have_count(12)
            expect(page.locator("#sketch-answer strong")).to_have_text("sun")
            take(page, "predict")
            page.set_viewport_size({"width": 375, "height": 740})
            page.locator("#results-clear").click()
            take(page, "phone")


@contextmanager
def serving(folder: Path, kept: Path) -> Iterator[str]:
    """Run `ovor serve` on the folder's garden.ovor, and give its address."""
    command = [sys.executable, "-m", "ovor", "serve", "garden.ovor", "--port", "0", "--exam", kept]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            found = re.search(r"http://\S+", process.stdout.readline())
            assert found
            yield found[0]
        finally:
            process.terminate()


def teach(page: Page, folder: Path, number: int) -> None:
    """Teach the classes of a folder as task `number`; the last one is pictured on its way."""
    page.get_by_role("tab", name="Teach").click()
    drop(page.locator("#folder-choose"), [folder])
    for place, path in enumerate(sorted(folder.iterdir())):
        expect(page.get_by_label("Class name").nth(place)).to_have_value(re.compile(path.name))
    page.get_by_role("button", name="Learn").click()
    if number == len(LATER) + 1:
        expect(page.locator("#lesson-doing")).to_contain_text("epoch 2", timeout=LESSON)
        take(page, "teaching")
    learned = page.locator(".outcome.good")
    expect(learned).to_contain_text(f"Task {number}", timeout=LESSON)


def fill_in(page: Page, folder: Path) -> None:
    """Fill in the form of a task, class by class, without sending it."""
    page.get_by_role("tab", name="Teach").click()
    for number, path in enumerate(sorted(folder.iterdir())):
        page.get_by_label("Class name").nth(number).fill(path.name)
        drop(page.locator(".class").nth(number), sorted(path.iterdir()))
    expect(page.locator("#tally")).to_have_text("2 classes, 28 images")


def some_known_and_one_unknown(root: Path) -> list[Path]:
    """Return three images that the model names right, and one that is unknown to it."""
    model = Classifier.load(root / "garden.ovor")
    found = []
    for name, unknown in (("fish", False), ("lollipop", False), ("train", False), ("teapot", True)):
        images = sorted(draw(root / "ask", [name], 20, first=60).glob(f"{name}/*.png"))
        said = model.classify(images)
        right = said.unknown if unknown else (said.labels == name) & ~said.unknown
        found.append(root / f"{name}.png")
        shutil.copy(images[int(right.argmax())], found[-1])
    return found


def take(page: Page, name: str) -> None:
    """Take a picture of the whole page in both schemes, without focus and pointer."""
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    page.mouse.move(0, 0)
    assert page.viewport_size
    page.set_viewport_size({"width": page.viewport_size["width"], "height": 480})  # or more
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(400)
        keep(page.screenshot(full_page=True), f"page-{name}-{scheme}")
    page.emulate_media(color_scheme="light")


PICTURES = {
    "report": report_pictures,
    "evaluation": evaluation_pictures,
    "page": page_pictures,
}


def main() -> None:
    with browsing() as browser:
        for name in sys.argv[1:] or PICTURES:
            PICTURES[name](browser)


if __name__ == "__main__":
    main()
