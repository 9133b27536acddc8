"""What everybody needs of a page: names, order, size and contrast."""

import re

from playwright.sync_api import Page

NAMELESS = re.compile(
    r"- (button|textbox|combobox|checkbox|tab|tabpanel|link|meter|progressbar|img|dialog)\b(?! \")"
)
CROOKED = """() => {
  const levels = [...document.querySelectorAll("h1, h2, h3, h4")]
    .filter((heading) => heading.checkVisibility()).map((heading) => Number(heading.tagName[1]));
  return levels.filter((level, i) => level > (levels[i - 1] ?? 0) + 1);
}"""
TOUCHED = "button, a.button, summary, [type=text], .check, .waiting"
SMALL = """(touched) => [...document.querySelectorAll(touched)]
  .filter((node) => node.checkVisibility())
  .filter((node) => node.getBoundingClientRect().height < 44 || node.clientWidth < 40)
  .map((node) => node.outerHTML)"""
FAINT = """() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => c / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = parts(getComputedStyle(at).backgroundColor);
      if (colour[3] === undefined || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const faint = [];
  for (const node of document.querySelectorAll("body *")) {
    const words = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    const left = ":disabled, .unseen, noscript, svg, [aria-busy=true]";
    if (!words || !node.checkVisibility() || node.closest(left)) continue;
    const two = [light(parts(getComputedStyle(node).color)), light(ground(node))];
    const contrast = (Math.max(...two) + 0.05) / (Math.min(...two) + 0.05);
    if (contrast < 4.5) faint.push([contrast, node.outerHTML.slice(0, 120)]);
  }
  return faint;
}"""


def check_access(page: Page, *widths: int) -> None:
    """Look at a page as it is now, in several widths, light and dark."""
    assert not NAMELESS.findall(page.locator("body").aria_snapshot())
    assert page.evaluate(CROOKED) == []
    assert page.evaluate(SMALL, TOUCHED) == []
    for width in widths:
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert page.evaluate(FAINT) == []
