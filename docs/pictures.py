"""The pictures of docs/report.md, taken of a report in a browser: python -m docs.pictures report

python -m docs.pictures report [runs/grid/report-main-table.html]
"""

import io
import shutil
import sys
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).parent / "figures"
# By name: width, colours, and the chart; a phone shows more than one.
PICTURES = {
    "curves": (900, "light", "curves"),
    "differences": (900, "light", "differences"),
    "confusion": (900, "light", "confusion"),
    "energies": (900, "dark", "energies"),
    "phone": (375, "dark", "matrix"),
}


def take(browser: Any, page_file: Path, name: str) -> None:
    width, scheme, chart = PICTURES[name]
    context = browser.new_context(
        viewport={"width": width, "height": 700}, color_scheme=scheme, device_scale_factor=2
    )
    page = context.new_page()
    page.goto(page_file.resolve().as_uri())
    page.wait_for_selector("html[data-drawn=all]", state="attached")
    figure = page.locator(f"figure[data-chart={chart}]")
    figure.scroll_into_view_if_needed()
    if name == "phone":
        page.evaluate(f"document.querySelector('figure[data-chart={chart}]').scrollIntoView()")
    shot = page.screenshot() if name == "phone" else figure.screenshot()
    save(shot, FOLDER / f"report-{name}.png")


def save(shot: bytes, path: Path) -> None:
    image = Image.open(io.BytesIO(shot)).convert("RGB")
    image = image.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    image.save(path, format="PNG", optimize=True)
    print(path, f"{path.stat().st_size // 1024} KB")


def main() -> None:
    what, *given = sys.argv[1:]
    assert what == "report", "There are pictures of the report alone."
    page_file = Path(given[0] if given else "runs/grid/report-main-table.html")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name in PICTURES:
            take(browser, page_file, name)
        browser.close()


if __name__ == "__main__":
    main()
