"""What the page says of images is what Python says of them, with both encoders."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter
from playwright.sync_api import Browser, Page

from drawings import draw
from ovor import Classifier
from ovor.classifier.prediction import Prediction
from ovor.data.images import to_image

from .conftest import Export
from .serving import file_server

pytestmark = pytest.mark.xdist_group("exported")

ANSWERS = """async ([folder, names]) => {
  const { Service } = await import("/static/device/service.js");
  const service = await Service.open(location.origin + "/");
  const rows = [];
  for (const name of names) {
    const content = await (await fetch(`/${folder}/${name}`)).blob();
    const seen = await service.view(new File([content], name));
    const [features] = await service.featuresOf([seen]);
    const [row] = service.memory.classify(features);
    const outputs = Array.from(service.memory.outputs(features)[0]);
    rows.push({ row, outputs, features: Array.from(features) });
  }
  return rows;
}"""
SHAPES = ["ellipse", "rectangle", "line", "pieslice", "polygon"]


def photograph(kind: str, seed: int) -> Image.Image:
    """Return a coloured picture of a shape before a blurred ground, of some size of its own."""
    rng = np.random.default_rng([seed, SHAPES.index(kind)])
    width, height = (int(side) for side in rng.integers(120, 420, 2))
    ground = Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8))
    image = ground.resize((width, height), Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(image)
    colour = tuple(int(c) for c in rng.integers(0, 256, 3))
    left, top = int(rng.integers(5, width // 3)), int(rng.integers(5, height // 3))
    box = (left, top, left + width // 2, top + height // 2)
    if kind == "polygon":
        pen.polygon([box[:2], box[2:], (box[0], box[3])], fill=colour)
    elif kind == "pieslice":
        pen.pieslice(box, 30, 250, fill=colour)
    elif kind == "line":
        pen.line(box, fill=colour, width=14)
    else:
        getattr(pen, kind)(box, fill=colour)
    return image.filter(ImageFilter.GaussianBlur(1))


def photographs(root: Path, each: int, first: int = 0) -> Path:
    for kind in SHAPES:
        (root / kind).mkdir(parents=True)
        for number in range(first, first + each):
            file = root / kind / (f"{number}.jpg" if number % 2 else f"{number}.png")
            photograph(kind, number).save(file)
    return root


def compared(
    browser: Browser, folder: Path, model: Path, images: list[Path]
) -> Iterator[tuple[Any, Any, Any]]:
    """Give of each image what the page says, and what Python says, and its outputs."""
    python = Classifier.load(model, device="cpu")
    (folder / "images").mkdir()
    for number, path in enumerate(images):
        (folder / f"images/{number}{path.suffix}").write_bytes(path.read_bytes())
    names = [f"{number}{path.suffix}" for number, path in enumerate(images)]
    with file_server(folder) as address:
        page: Page = browser.new_page(base_url=address)
        page.goto("/README.txt")  # of the same address: the page itself is not needed
        found = page.evaluate(ANSWERS, ["images", names])
        page.close()
    views = np.stack([python.view(to_image(path)) for path in images])
    features = python.features(views)
    outputs = python.learner().logits(features).numpy()
    said = [Prediction(python.classes_, *one) for one in zip(*python.judged(features), strict=True)]
    return zip(found, said, outputs, strict=True)


def check(rows: Iterator[tuple[Any, Any, Any]]) -> int:
    unknown = 0
    for page, said, outputs in rows:
        assert np.abs(np.array(page["outputs"]) - outputs).max() < 1e-4
        row = said.as_json(5)
        assert (page["row"]["label"], page["row"]["unknown"]) == (row["label"], row["unknown"])
        assert page["row"]["likeliest"] == row["likeliest"]
        assert abs(page["row"]["confidence"] - row["confidence"]) < 1e-4
        unknown += row["unknown"]
    return unknown


def test_a_hundred_drawings(
    browser: Browser, drawings_page: Path, export: Export, tmp_path: Path
) -> None:
    names = ["banana", "candle", "fish", "owl", "sun"]
    model = Classifier("embedded", device="cpu").learn(draw(tmp_path / "a", names[:4], 10))
    model.save(tmp_path / "m.ovor")
    folder = export(drawings_page, tmp_path / "page", tmp_path / "m.ovor")
    asked = draw(tmp_path / "b", names, 20, first=60)
    images = sorted(asked.glob("*/*.png"))
    assert len(images) == 100
    assert check(compared(browser, folder, tmp_path / "m.ovor", images)) > 0


def test_a_hundred_photographs(
    browser: Browser, photos_page: Path, export: Export, tmp_path: Path
) -> None:
    model = Classifier("photos", device="cpu").learn(photographs(tmp_path / "a", 5))
    model.save(tmp_path / "m.ovor")
    folder = export(photos_page, tmp_path / "page", tmp_path / "m.ovor")
    images = sorted(photographs(tmp_path / "b", 20, first=50).glob("*/*"))
    assert len(images) == 100
    check(compared(browser, folder, tmp_path / "m.ovor", images))
