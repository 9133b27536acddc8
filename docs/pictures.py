"""Take the pictures of the report, of the page of `ovor serve`, and of an exported page.

Light and dark, in Chromium; they go to docs/figures. Those of the report are of
runs/demo/report.html, which `make demo` makes, the differences of
docs/results/report-main-table.html, and those of an evaluation of a model that is taught here.

    PYTHONPATH=tests python -m docs.pictures [report] [evaluation] [page] [texts] [browser]
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page

from chromium import browsing
from docs.exported_pictures import exported_pictures
from docs.page_pictures import page_pictures
from docs.picture_file import SCHEMES, keep
from docs.text_pictures import text_pictures
from drawings import draw
from ovor import Classifier

DOCS = Path(__file__).parent
FIRST = ["banana", "candle", "fish"]
LATER = (["sun", "train"], ["circle", "lollipop"], ["owl", "whale"])


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


PICTURES = {
    "report": report_pictures,
    "evaluation": evaluation_pictures,
    "page": page_pictures,
    "texts": text_pictures,
    "browser": exported_pictures,
}


def main() -> None:
    with browsing() as browser:
        for name in sys.argv[1:] or PICTURES:
            PICTURES[name](browser)


if __name__ == "__main__":
    main()
