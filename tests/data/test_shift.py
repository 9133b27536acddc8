"""A shift of domain: which images look how, by the task of their class and the seed alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ovor.config import Shift
from ovor.data.base import Dataset, Items
from ovor.data.modality import Given
from ovor.data.shift import shifted
from ovor.errors import OvorError

ORDER, SIZES = [3, 1, 0, 2], (2, 1, 1)


def line(paper: int = 0, ink: int = 255) -> np.ndarray:
    """Draw a thin upright line, off the middle."""
    pixels = np.full((28, 28, 3), paper, np.uint8)
    pixels[4:24, 12] = ink
    return pixels


def dataset(pixels: np.ndarray) -> Dataset:
    images = Given([pixels] * 4, np.arange(4))
    return Dataset("lines", ("a", "b", "c", "d"), images, images)


def seen(pixels: np.ndarray, kind: Shift, seed: int = 0, part: str = "train") -> list[np.ndarray]:
    """Return the image of each class, in the order in which classes come."""
    data = shifted(dataset(pixels), ORDER, SIZES, kind, seed)
    images = getattr(data, part)
    assert images.labels.tolist() == [0, 1, 2, 3]
    return [np.asarray(images.item(label)).astype(int) for label in ORDER]


def share_of_ink(images: Sequence[np.ndarray], paper: int) -> list[float]:
    return [float(np.abs(image - paper).mean()) for image in images]


@pytest.mark.parametrize("kind", ["ink", "light"])
def test_the_first_task_is_unchanged_and_others_the_more_the_later(kind: Any) -> None:
    first, same, second, last = seen(line(), kind)
    assert np.array_equal(first, line())
    assert np.array_equal(same, line())  # it is of the first task too
    changes = [float(np.abs(image - line()).mean()) for image in (second, last)]
    assert 0 < changes[0] < changes[1]


@pytest.mark.parametrize("kind", ["ink", "light"])
def test_test_images_look_as_the_training_images_of_their_task(kind: Any) -> None:
    pairs = zip(seen(line(), kind), seen(line(), kind, part="test"), strict=True)
    assert all(np.array_equal(*pair) for pair in pairs)


@pytest.mark.parametrize(("paper", "ink"), [(0, 255), (255, 0)])
def test_ink_grows_thicker_on_any_paper(paper: int, ink: int) -> None:
    ours = share_of_ink(seen(line(paper, ink), "ink"), paper)
    assert ours[0] == ours[1]
    assert ours[0] < 0.7 * ours[2] < 0.7 * ours[3]
    corners = [image[[0, 0, -1, -1], [0, -1, 0, -1]] for image in seen(line(paper, ink), "ink")]
    assert all((corner == paper).all() for corner in corners)  # no black wedges beside the paper


def test_ink_is_rotated_by_thirty_degrees_in_the_last_task() -> None:
    """By the direction in which the ink of an upright line spreads most."""
    *_, last = seen(line(), "ink")
    rows, columns = np.nonzero(last[..., 0] > 128)
    values, axes = np.linalg.eigh(np.cov(rows, columns))
    along = axes[:, values.argmax()]
    assert abs(np.degrees(np.arctan2(abs(along[1]), abs(along[0]))) - 30) < 3


def test_the_seed_says_in_which_direction() -> None:
    lasts = [seen(line(), "ink", seed)[-1] for seed in range(8)]
    different = {last.tobytes() for last in lasts}
    assert len(different) == 2
    assert np.array_equal(seen(line(), "ink", 3)[-1], lasts[3])


def test_light_goes_and_edges_soften() -> None:
    grey = np.full((28, 28, 3), 200, np.uint8)
    _, _, second, last = seen(grey, "light")
    assert (second == 140).all()  # 0.3 of it is gone
    assert (last == 80).all()  # 0.6 of it
    steps = [
        np.abs(np.diff(image[..., 0], axis=1)).max() / image.max()
        for image in seen(line(), "light")
    ]
    assert steps[0] > steps[2] > steps[3]


def test_without_a_shift_nothing_is_wrapped() -> None:
    data = dataset(line())
    assert shifted(data, ORDER, SIZES, "none", 0) is data


def test_one_task_is_the_first() -> None:
    data = shifted(dataset(line()), ORDER, (4,), "ink", 0)
    assert np.array_equal(np.asarray(data.train.image(2)), line())
    assert isinstance(data.train.image(2), Image.Image)


class Texts(Items):
    labels = np.zeros(1, np.int64)
    many = "texts"


def test_texts_cannot_look_different() -> None:
    with pytest.raises(OvorError, match="notes has texts: --shift is for images alone"):
        shifted(Dataset("notes", ("a", "b"), Texts(), Texts()), [1, 0], [1, 1], "ink", 0)
