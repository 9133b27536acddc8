"""What every data set promises, wherever its pixels come from."""

import multiprocessing
import os
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import datasets
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from ovor.config import Run, Transform
from ovor.data import Dataset, load_dataset
from ovor.data.base import Images, Integers
from ovor.data.cache import cached
from ovor.data.loader import test_batches as unchanged_batches
from ovor.distributed.ranks import Ranks
from ovor.events import Event, TaskEnds
from ovor.experiments.folder import Folder
from ovor.experiments.runner import assist, execute
from processes import CLOSE, difference, together
from shard_files import as_hugging_face, write_manifest, write_shards


def in_shards(given: Dataset, root: Path) -> str:
    for part in ("train", "test"):
        write_shards(getattr(given, part), root / "shards", part)
    splits = {"train": ["train-{000..003}.tar"], "test": ["test-*.tar"]}
    write_manifest(root / "shards", classes=list(given.class_names), splits=splits)
    return f"shards:{root}/shards"


def in_parquet(given: Dataset, root: Path) -> str:
    (root / "parquet").mkdir()
    for part in ("train", "test"):
        rows = as_hugging_face(getattr(given, part), given.class_names)
        rows.to_parquet(root / "parquet" / f"{part}-00000-of-00001.parquet")
    return f"hf:{root}/parquet"


def saved(given: Dataset, root: Path) -> str:
    parts = {p: as_hugging_face(getattr(given, p), given.class_names) for p in ("train", "test")}
    datasets.DatasetDict(parts).save_to_disk(root / "saved")
    return f"hf:{root}/saved"


# Ways to hand over the images of one and the same folder.
WAYS: dict[str, Callable[[Dataset, Path], str]] = {
    "folder": lambda given, root: given.name,
    "shards": in_shards,
    "parquet": in_parquet,
    "saved": saved,
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def caches(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", home / "hf")


@pytest.fixture(scope="module")
def names(tiny_images: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Each way's --data."""
    root, given = tmp_path_factory.mktemp("ways"), load_dataset(tiny_images)
    return {way: write(given, root) for way, write in WAYS.items()} | {"quickdraw": "quickdraw"}


@pytest.fixture(params=[*WAYS, "quickdraw"])
def dataset(request: pytest.FixtureRequest, names: dict[str, str]) -> Dataset:
    return load_dataset(names[request.param])


def pixels(images: Images, index: int) -> NDArray[np.uint8]:
    image = images.item(index)
    assert image.mode == "RGB"
    return np.asarray(image)


def test_labels_are_positions_in_the_class_names(dataset: Dataset) -> None:
    assert len(set(dataset.class_names)) == len(dataset.class_names)
    for images in (dataset.train, dataset.test):
        assert len(images) == len(images.labels) > 0
        assert images.labels.dtype == np.int64
        assert set(images.labels.tolist()) == set(range(len(dataset.class_names)))


def test_an_image_is_the_same_every_time_and_after_loading_again(dataset: Dataset) -> None:
    again = load_dataset(dataset.name)
    assert again.name == dataset.name
    assert again.class_names == dataset.class_names
    for ours, theirs in ((dataset.train, again.train), (dataset.test, again.test)):
        assert np.array_equal(ours.labels, theirs.labels)
        for index in (0, len(ours) - 1, 0):
            assert np.array_equal(pixels(ours, index), pixels(theirs, index))


@pytest.fixture(scope="module")
def spawned() -> Iterator[ProcessPoolExecutor]:
    """One process, started anew as those of a grid are; it takes long to start."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        yield pool


def test_a_process_of_its_own_reads_the_same(
    names: dict[str, str], spawned: ProcessPoolExecutor
) -> None:
    parts = [load_dataset(name).train for name in names.values()]
    theirs = spawned.map(pixels, parts, [1] * len(parts))
    for part, own in zip(parts, theirs, strict=True):
        assert np.array_equal(own, pixels(part, 1))


def test_what_is_decoded_each_time_can_be_cached(dataset: Dataset, tmp_path: Path) -> None:
    kept = cached(dataset, 10**8, str(tmp_path))
    for _ in range(2):
        assert np.array_equal(pixels(kept.train, 3), pixels(dataset.train, 3))
    assert any(tmp_path.rglob("*.npy")) == (dataset.name != "quickdraw")


@pytest.mark.parametrize("way", [way for way in WAYS if way != "folder"])
def test_it_costs_no_more_to_hand_over_than_an_index(names: dict[str, str], way: str) -> None:
    """Images stay on the disk: sixty of them would be ten times as large."""
    assert len(pickle.dumps(load_dataset(names[way]).train)) < 8000


@pytest.fixture(scope="module")
def unbroken(tiny_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    folder = Folder(tmp_path_factory.mktemp("unbroken") / "run")
    execute(tiny_run, folder)
    return folder


def check_same(ours: Folder, theirs: Folder) -> None:
    """Compare what two runs say of all but their data and seconds, and what they learned."""
    results = (
        folder.result() | {"data": "", "seconds": 0, "core_seconds": 0} for folder in (ours, theirs)
    )
    assert next(results) == next(results)
    assert ours.weights.read_bytes() == theirs.weights.read_bytes()


@pytest.mark.parametrize("way", [way for way in WAYS if way != "folder"])
def test_a_run_gives_what_it_gives_on_the_folder_byte_for_byte(
    way: str, names: dict[str, str], tiny_run: Run, unbroken: Folder, results: Path
) -> None:
    execute(replace(tiny_run, data=names[way]), Folder(results))
    check_same(Folder(results), unbroken)


@pytest.mark.parametrize("way", ["shards", "parquet", "saved"])
def test_so_does_a_run_that_was_stopped_and_resumed_with_workers(
    way: str, names: dict[str, str], tiny_run: Run, unbroken: Folder, results: Path
) -> None:
    def stop(event: Event) -> None:
        if isinstance(event, TaskEnds) and event.task == 1:
            raise KeyboardInterrupt

    run = replace(tiny_run, data=names[way])
    with pytest.raises(KeyboardInterrupt):
        execute(run, Folder(results), stop)
    assert not Folder(results).finished
    execute(replace(run, workers=2), Folder(results))
    check_same(Folder(results), unbroken)


def do_each(ranks: Ranks, runs: list[Run], root: Path) -> None:
    for number, run in enumerate(runs):
        folder = Folder(root / str(number))
        if ranks.rank:
            assist(run, folder, ranks, torch.device("cpu"))
        else:
            execute(run, folder, ranks=ranks, device=torch.device("cpu"))


@pytest.mark.parametrize("size", [3, pytest.param(2, marks=pytest.mark.slow)])
def test_several_processes_read_the_same(
    size: int, names: dict[str, str], tiny_run: Run, unbroken: Folder, tmp_path: Path
) -> None:
    """From a folder, shards and parquet to the last byte; and as one process, to rounding."""
    runs = [replace(tiny_run, data=names[way]) for way in WAYS]
    together(size, tmp_path, do_each, [*runs, replace(runs[1], workers=1)], tmp_path)
    folders = [Folder(tmp_path / str(number)) for number in range(len(runs) + 1)]
    for folder in folders:
        assert folder.weights.read_bytes() == folders[0].weights.read_bytes()
    assert folders[0].result()["accuracy"] == unbroken.result()["accuracy"]
    assert difference(folders[0].path, unbroken.path) <= CLOSE


@dataclass(frozen=True)
class Parents(Images):
    """Images whose colour is the number of the process that started the one that reads them."""

    labels: Integers

    def image(self, index: int) -> Image.Image:
        red, green, blue = os.getppid().to_bytes(3)
        return Image.new("RGB", (14, 14), (red, green, blue))


def starters_of_workers() -> tuple[int, list[int], bool]:
    """This process, those that started its workers in two passes, and whether they have torch."""
    images, chosen, starters = Parents(np.zeros(1, np.int64)), np.arange(1), []
    for _ in range(2):
        (batch,) = unchanged_batches(
            images, chosen, images.labels, Transform(size=14), batch_size=1, workers=1
        )
        starters.append(int.from_bytes(bytes(batch[0][0, 0, 0].tolist())))
    maps = [Path(f"/proc/{pid}/maps") for pid in starters]
    return os.getpid(), starters, all("libtorch" in m.read_text() for m in maps if m.exists())


@pytest.mark.slow
def test_workers_of_a_process_that_was_started_anew_load_torch_once(
    spawned: ProcessPoolExecutor,
) -> None:
    """As the processes of a grid are: a server that has loaded torch once forks them."""
    own, (first, second), loaded = spawned.submit(starters_of_workers).result()
    assert first == second != own
    assert loaded
