"""Solving for a head in the browser, as an exported page does after a lesson: seconds in Chromium.

Features are drawn by chance, as wide as those of `photos`: the time depends on nothing else.
"""

from collections.abc import Iterator
from typing import Any

from benchmarks.harness import Row
from tests.chromium import browsing
from tests.web.device.page import Device

WIDTH = 1904  # of the network for photographs
LESSON = (5, 20)  # classes, and images of each
KNOWN = (100, 1000, 5000)  # images that a model knows when it is corrected
TARGET = 2.0  # seconds

# One lesson after the other, as often as rounds are wanted; then one image counts as another class.
SCRIPT = """
async ({ width, classes, each, rounds }) => {
  const { Memory } = await import("/static/device/memory.js");
  const about = {
    run: { method: "analytic", options: {}, vor: null, transform: { size: 224 } },
    backbone: { name: "drawn", sha256: "" },
    tasks: [], false_alarms: 0.05, hold_out: 0.1, expected: {},
  };
  const chance = (base) => base.map((x) => x + 2 * (Math.random() - 0.5));
  const lesson = Array.from({ length: classes }, (_, c) => {
    const base = chance(new Float32Array(width));
    return { name: `class ${c}`, features: Array.from({ length: each }, () => chance(base)) };
  });
  const timed = async (act) => {
    const begun = performance.now();
    await act();
    return (performance.now() - begun) / 1000;
  };
  const found = { learn: [], correct: [], file: [], open: [] };
  for (let round = 0; round <= rounds; round += 1) {
    const memory = Memory.empty(about);
    const [image] = lesson[0].features;
    let content;
    const seconds = {
      learn: await timed(() => memory.learn(lesson)),
      correct: await timed(() => memory.correct(image, null, "class 1", { was: "class 0" })),
      file: await timed(async () => { content = await memory.file(); }),
      open: await timed(() => Memory.open(content)),
    };
    if (round) for (const name of Object.keys(found)) found[name].push(seconds[name]);
  }
  return found;
}
"""


def measure(quick: bool) -> Iterator[Row]:
    """Yield the seconds of a lesson, of one image more in models of several sizes, and of files."""
    rounds = 2 if quick else 5
    with browsing() as browser:
        device = Device(browser)

        def run(classes: int, each: int) -> dict[str, Any]:
            asked = {"width": WIDTH, "classes": classes, "each": each, "rounds": rounds}
            found: dict[str, Any] = device.page.evaluate(SCRIPT, asked)
            return found

        classes, each = LESSON
        first = run(classes, each)
        yield seconds(f"learning {classes * each} images", first["learn"], TARGET)
        yield seconds("  saving the model", first["file"])
        yield seconds("  opening it", first["open"])
        for images in KNOWN[: 2 if quick else None]:
            found = first if images == classes * each else run(classes, images // classes)
            yield seconds(f"correcting one of {images:,} images", found["correct"], TARGET)


def seconds(what: str, samples: list[float], at_most: float | None = None) -> Row:
    return Row(what, "", tuple(samples), "s", at_most=at_most)
