from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from ovor.config import Transform
from ovor.data.base import Images, Integers
from ovor.data.loader import SHUFFLE, VIEW, train_batches
from ovor.data.loader import test_batches as plain_batches
from ovor.data.transforms import draw_view, train_view
from ovor.errors import OvorError

TRANSFORM = Transform(size=16, crop_pct=1.0)
TASK: Integers = np.array([3, 8, 1, 40, 22, 7, 15, 30, 31, 2, 11])
LABELS: Integers = TASK % 5


@dataclass(frozen=True)
class Noise(Images):
    """Image i is noise with seed i; the one at `broken` cannot be read."""

    labels: Integers
    broken: int = -1

    def image(self, index: int) -> Image.Image:
        if index == self.broken:
            raise OvorError(f"Image {index} is broken.")
        rng = np.random.default_rng(index)
        return Image.fromarray(rng.integers(0, 256, (20, 24, 3), dtype=np.uint8))


NOISE = Noise(np.arange(50) % 5)


def epoch(images: Noise = NOISE, count: int = 11, **changes: Any) -> list[tuple[Tensor, Tensor]]:
    """Return the batches of the first `count` images of the task."""
    given: dict[str, Any] = {"seed": 1, "task": 2, "epoch": 3, "batch_size": 4, "workers": 0}
    chosen = TASK[:count], LABELS[:count]
    return list(train_batches(images, *chosen, TRANSFORM, **(given | changes)))


def joined(batches: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    images, labels = zip(*batches, strict=True)
    return torch.cat(images), torch.cat(labels)


def test_batches_hold_every_image_once_and_keep_the_short_last_one() -> None:
    batches = epoch()
    assert [tuple(images.shape) for images, _ in batches] == [(n, 16, 16, 3) for n in (4, 4, 3)]
    labels = joined(batches)[1]
    assert labels.dtype == torch.int64
    assert sorted(labels.tolist()) == sorted(LABELS.tolist())


@pytest.mark.parametrize("changes", [{"workers": 2}, {"batch_size": 3}, {"batch_size": 50}])
def test_workers_and_batch_size_change_nothing(changes: dict[str, int]) -> None:
    for ours, expected in zip(joined(epoch(**changes)), joined(epoch()), strict=True):
        assert torch.equal(ours, expected)


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**32, 5 * 2**64 + 3])
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_views_are_drawn_from_the_plain_seed_sequence(seed: int, workers: int) -> None:
    order = np.random.default_rng((SHUFFLE, seed, 2, 3)).permutation(len(TASK))
    views, labels = joined(epoch(seed=seed, workers=workers))
    assert labels.tolist() == LABELS[order].tolist()
    for view, index in zip(views, TASK[order].tolist(), strict=True):
        drawn = draw_view(TRANSFORM, 24, 20, np.random.default_rng((VIEW, seed, 2, 3, index)))
        expected = train_view(NOISE.image(index), drawn, TRANSFORM)
        assert np.array_equal(view.numpy(), np.asarray(expected))


@pytest.mark.parametrize("changes", [{"seed": 2}, {"task": 3}, {"epoch": 4}])
def test_seed_task_and_epoch_each_change_order_and_views(changes: dict[str, int]) -> None:
    (images, labels), (other_images, other_labels) = joined(epoch()), joined(epoch(**changes))
    assert not torch.equal(labels, other_labels)
    rows = {row.numpy().tobytes() for row in images}
    assert not rows & {row.numpy().tobytes() for row in other_images}


def test_a_view_does_not_depend_on_the_other_images_of_the_task() -> None:
    alone = joined(epoch(count=1))[0]
    assert any(torch.equal(alone[0], view) for view in joined(epoch())[0])


def test_every_sample_has_a_view_of_its_own() -> None:
    class Same(Noise):
        def image(self, index: int) -> Image.Image:
            return super().image(0)

    views = joined(epoch(Same(NOISE.labels)))[0]
    assert len({view.numpy().tobytes() for view in views}) == len(TASK)


@pytest.mark.parametrize("workers", [0, 2])
def test_test_batches_keep_the_order_and_have_no_chance(workers: int) -> None:
    images, labels = joined(
        list(plain_batches(NOISE, TASK, LABELS, TRANSFORM, batch_size=4, workers=workers))
    )
    assert labels.tolist() == LABELS.tolist()
    for row, index in enumerate(TASK.tolist()):
        resized = NOISE.image(index).resize((19, 16), Image.Resampling.BILINEAR)
        assert np.array_equal(images[row].numpy(), np.asarray(resized.crop((2, 0, 18, 16))))


@pytest.mark.parametrize("workers", [0, 2])
def test_global_random_states_are_left_alone(workers: int) -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    epoch(workers=workers)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_broken_image_gives_its_own_sentence(workers: int) -> None:
    with pytest.raises(OvorError, match=r"^Image 22 is broken\.$"):
        epoch(Noise(NOISE.labels, broken=22), workers=workers)


def test_no_images_make_no_batches() -> None:
    none = np.array([], dtype=np.int64)
    assert list(plain_batches(NOISE, none, none, TRANSFORM, batch_size=4, workers=0)) == []


def test_more_workers_than_cores_are_no_reason_for_a_warning(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0}, raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert len(epoch(workers=2)) == 3
    assert not recwarn.list
