"""Draw the picture of docs/architecture.md: one image's way through a run, a prediction, a server.

`python -m docs.architecture` writes it; a test compares it with the modules that there are.
"""

from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs/figures/architecture.svg"
WIDTH, HEIGHT, GAP, MARGIN = 290, 62, 20, 16

# A step is a module and what happens to the image there.
WAYS: dict[str, list[tuple[str, str]]] = {
    "ovor run": [
        ("cli/run.py", "flags become one frozen Run"),
        ("experiments/runner.py", "data, network and folder of the run"),
        ("data/loader.py", "file to augmented bytes, in batches"),
        ("training/loop.py", "Algorithm 1: epochs, head phase, test"),
        ("learners/prompt.py", "loss: prompts by image, head by task"),
        ("encoders/vit.py", "prefixes in, class token out"),
        ("outliers/exact_search.py", "features to virtual outliers (Alg. 2)"),
        ("experiments/folder.py", "result.json, weights, events"),
    ],
    "ovor predict": [
        ("cli/predict.py", "paths, one after the other"),
        ("data/images.py", "bytes to an upright RGB image"),
        ("data/transforms.py", "resized and cropped"),
        ("classifier/prediction.py", "batches in, one row an image out"),
        ("classifier/model.py", "features and logits of the learner"),
        ("classifier/rejection.py", "does any task claim it, or unknown?"),
        ("cli/predict.py", "a line of text, or JSON"),
    ],
    "ovor serve": [
        ("web/app.py", "POST /predict, once security has passed it"),
        ("web/upload.py", "the body, within its limits"),
        ("web/images.py", "kind and size, before decoding"),
        ("data/images.py", "bytes to an upright RGB image"),
        ("web/predictor.py", "a queue; one thread takes batches"),
        ("classifier/prediction.py", "batches in, one row an image out"),
        ("web/handlers.py", "the row as JSON"),
    ],
}

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1d2430 }
  .way { font-weight: 600; font-size: 15px }
  .module { font: 600 13px ui-monospace, monospace }
  rect { fill: #eef3fb; stroke: #6d8fc7 }
  .shared rect { fill: #fdf1dc; stroke: #c9973a }
  path { stroke: #6b7484; fill: none; marker-end: url(#head) }
  #head path { fill: #6b7484; stroke: none; marker-end: none }
  @media (prefers-color-scheme: dark) {
    text { fill: #e4e8ef } rect { fill: #1f2a3c } .shared rect { fill: #3a2f1a }
  }
"""


def box(module: str, what: str, x: int, y: int, shared: bool) -> str:
    """Return one step as SVG, marked where several ways share its module."""
    return (
        f'<g class="{"shared" if shared else "own"}">'
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT - 14}" rx="6"/>'
        f'<text class="module" x="{x + 10}" y="{y + 20}">{escape(module)}</text>'
        f'<text x="{x + 10}" y="{y + 38}">{escape(what)}</text></g>'
    )


def draw() -> str:
    """Return the whole picture as SVG."""
    found: list[str] = []
    lists = [[module for module, _ in steps] for steps in WAYS.values()]
    for column, (way, steps) in enumerate(WAYS.items()):
        x = MARGIN + column * (WIDTH + GAP)
        found.append(f'<text class="way" x="{x}" y="{MARGIN + 12}">{escape(way)}</text>')
        for number, (module, what) in enumerate(steps):
            y = MARGIN + 24 + number * HEIGHT
            shared = sum(module in modules for modules in lists) > 1
            found.append(box(module, what, x, y, shared))
            if number:
                middle = x + WIDTH // 2
                found.append(f'<path d="M{middle} {y - 14} V{y - 3}"/>')
    width = 2 * MARGIN + len(WAYS) * (WIDTH + GAP) - GAP
    height = 2 * MARGIN + 24 + HEIGHT * max(map(len, WAYS.values()))
    marker = (
        '<marker id="head" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0L6 3L0 6z"/></marker>'
    )
    body = "\n".join(found)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'role="img" aria-label="One image\'s way through ovor run, predict and serve">'
        f"<style>{STYLE}</style><defs>{marker}</defs>\n{body}\n</svg>\n"
    )


if __name__ == "__main__":
    PICTURE.write_text(draw())
    print(PICTURE.relative_to(ROOT))
