"""Image files and folders of drawings, as a user would have them."""

from pathlib import Path

from PIL import Image

from ovor.data.embedded import quickdraw

DRAWINGS = quickdraw()


def paint(path: Path, color: str | tuple[int, int, int] = "red") -> Path:
    """Write a small image of one colour."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (6, 4), color).save(path, quality=100)
    return path


def draw(root: Path, classes: list[str], each: int, first: int = 0, size: int = 28) -> Path:
    """`each` drawings of every class, in a folder of its own; `first` skips that many."""
    for name in classes:
        label = DRAWINGS.class_names.index(name)
        indices = [i for i, own in enumerate(DRAWINGS.train.labels) if own == label]
        (root / name).mkdir(parents=True, exist_ok=True)
        for number, index in enumerate(indices[first : first + each], first):
            image = DRAWINGS.train.image(index)
            if size != 28:
                image = image.resize((size, size), Image.Resampling.BILINEAR)
            image.save(root / name / f"{number:03}.png")
    return root
