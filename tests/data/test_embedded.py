import importlib.util
from importlib.resources import files
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from ovor.data import Dataset, load_dataset
from ovor.errors import OvorError


@pytest.fixture(scope="module")
def names() -> dict[str, list[str]]:
    with (files("ovor") / "assets" / "drawings.npz").open("rb") as file, np.load(file) as arrays:
        parts = ("benchmark", "development", "pretraining")
        return {part: arrays[f"{part}_names"].tolist() for part in parts}


@pytest.fixture(scope="module")
def split_script() -> ModuleType:
    path = Path(__file__).parents[2] / "embedded" / "split.py"
    spec = importlib.util.spec_from_file_location("embedded_split", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", params=[("quickdraw", 100), ("quickdraw-dev", 45)])
def loaded(request: pytest.FixtureRequest) -> tuple[Dataset, int]:
    name, classes = request.param
    return load_dataset(name), classes


def test_every_class_has_80_drawings_to_train_and_20_to_test(loaded: tuple[Dataset, int]) -> None:
    data, classes = loaded
    assert len(data.class_names) == len(set(data.class_names)) == classes
    for images, each in ((data.train, 80), (data.test, 20)):
        assert images.labels.dtype == np.int64
        assert np.bincount(images.labels).tolist() == [each] * classes
        assert len(images) == each * classes


def test_drawings_are_white_on_black_rgb(loaded: tuple[Dataset, int]) -> None:
    data, _ = loaded
    for index in range(0, len(data.test), 97):
        image = data.test.image(index)
        assert (image.mode, image.size) == ("RGB", (28, 28))
        pixels = np.asarray(image)
        assert np.ptp(pixels, axis=2).max() == 0
        assert (pixels == 0).mean() > 0.2
        assert pixels.max() > 200


def test_no_test_drawing_is_also_trained_on(loaded: tuple[Dataset, int]) -> None:
    data, _ = loaded
    trained = {data.train.image(i).tobytes() for i in range(len(data.train))}
    tested = {data.test.image(i).tobytes() for i in range(len(data.test))}
    assert not trained & tested


def test_the_three_class_lists_are_disjoint(names: dict[str, list[str]]) -> None:
    assert {part: len(listed) for part, listed in names.items()} == {
        "benchmark": 100,
        "development": 45,
        "pretraining": 200,
    }
    assert len(set().union(*names.values())) == 345


def test_the_lists_are_those_of_the_seeded_script(
    names: dict[str, list[str]], split_script: ModuleType
) -> None:
    everything = [name for listed in names.values() for name in listed]
    assert split_script.class_lists(everything) == tuple(names.values())


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(
        OvorError,
        match=r"'mnist'.*quickdraw, .*folder:PATH, shards:PATTERN, hf:NAME or texts:PATH",
    ):
        load_dataset("mnist")
