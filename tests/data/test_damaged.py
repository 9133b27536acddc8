"""A wrong or half-downloaded data set ends the command with a sentence, not with a traceback.

Some of each kind of damage; test_sources and test_cifar_100 have all that their readers refuse.
"""

import io
import os
import pickle
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from ovor.cli import main

CLASSES = [f"n{number:03}" for number in range(200)]
FILES = {"train": ("a.jpg", "b.jpg"), "test": ("c.jpg",)}
Damage = Callable[[Path], object]


def copies() -> dict[str, bytes]:
    """Every data set of the paper in its true layout, with three images a class: path -> bytes."""
    file = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, "jpeg")
    image = file.getvalue()
    made: dict[str, bytes] = {}
    for part, files in FILES.items():
        listed = [(name, label, own) for label, name in enumerate(CLASSES) for own in files]
        for name, _, own in listed:
            made[f"imagenet-r/{name}/{own}"] = image
            made[f"imagenet-a/{part}/{name}/{own}"] = image
            made[f"CUB_200_2011/images/{name}/{own}"] = image
        lists = {"data": [f"{n}/{o}" for n, _, o in listed], "targets": [t for _, t, _ in listed]}
        made[f"imagenet-r/imagenet-r_{part}.yaml"] = yaml.safe_dump(lists).encode()
    rows = [(n, t, o) for t, n in enumerate(CLASSES) for o in ("a.jpg", "b.jpg", "c.jpg")]
    tables = {
        "classes": CLASSES,
        "images": [f"{name}/{own}" for name, _, own in rows],
        "image_class_labels": [label + 1 for _, label, _ in rows],
        "train_test_split": [int(own != "c.jpg") for _, _, own in rows],
    }
    for name, values in tables.items():
        lines = [f"{number} {value}\n" for number, value in enumerate(values, 1)]
        made[f"CUB_200_2011/{name}.txt"] = "".join(lines).encode()
    return made | cifar()


def cifar() -> dict[str, bytes]:
    fields = {"fine_labels": list(range(100)), "data": np.zeros((100, 3072), np.uint8)}
    contents = {"train": fields, "test": fields, "meta": {"fine_label_names": CLASSES[:100]}}
    return {f"cifar-100-python/{n}": pickle.dumps(c) for n, c in contents.items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("whole")
    for name, content in copies().items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    with tarfile.open(root / "cifar-100-python.tar.gz", "w:gz") as archive:
        archive.add(root / "cifar-100-python", "cifar-100-python")
    return root


def gone(name: str) -> Damage:
    def damage(data: Path) -> None:
        path = data / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return damage


def holds(name: str, content: bytes) -> Damage:
    """Replaced, not rewritten: the file is linked to that of the whole copy."""

    def damage(data: Path) -> None:
        gone(name)(data)
        (data / name).write_bytes(content)

    return damage


def cut(name: str) -> Damage:
    def damage(data: Path) -> None:
        content = (data / name).read_bytes()
        holds(name, content[: len(content) // 2])(data)

    return damage


def only_the_archive(damage: Damage) -> Damage:
    def both(data: Path) -> None:
        gone("cifar-100-python")(data)
        damage(data)

    return both


class Attack:
    def __reduce__(self) -> object:
        return os.mkdir, ("executed",)


LIST, IMAGE = "imagenet-r/imagenet-r_train.yaml", "imagenet-r/n005/a.jpg"
TRAIN, ARCHIVE = "cifar-100-python/train", "cifar-100-python.tar.gz"
CASES: list[tuple[str, Damage, str]] = [
    ("imagenet-r", gone("imagenet-r"), "get imagenet-r.tar"),
    ("imagenet-r", holds("imagenet-r", b""), "is a file, not a folder"),
    ("imagenet-r", holds(LIST, b"\xff\xfe"), LIST),
    ("imagenet-r", cut(LIST), LIST),
    ("imagenet-r", gone("imagenet-r/n005"), "lacks 2 of 400 images, such as n005/a.jpg"),
    ("imagenet-r", cut(IMAGE), IMAGE),
    ("imagenet-r", holds(IMAGE, b"no picture"), IMAGE),
    ("imagenet-r:pilot", lambda data: None, "where the folders train and test"),
    ("cifar-100", holds(TRAIN, pickle.dumps(Attack())), "which was not executed"),
    ("cifar-100", holds(TRAIN, pickle.dumps({"labels": []})), "no list 'fine_labels'"),
    ("cifar-100", only_the_archive(cut(ARCHIVE)), ARCHIVE),
    ("cub-200", cut("CUB_200_2011/image_class_labels.txt"), "image_class_labels.txt"),
    ("cub-200", gone("CUB_200_2011/images/n005"), "lacks 3 of 600 images"),
    ("cub-200:pilot", lambda data: None, "get CUB-200 as split"),
    ("imagenet-a", gone("imagenet-a/test"), "holds train where"),
    ("imagenet-a", gone("imagenet-a/train/n005"), "'n005'"),
    ("folder:", lambda data: None, "write folder:PATH"),
    ("folder:nowhere", lambda data: None, "There is no folder nowhere"),
    ("shards:", lambda data: None, "write shards:PATTERN"),
    ("shards:a-{0..1}.tar", lambda data: None, "There is no shard a-0.tar"),
    ("shards:data/" + ARCHIVE, lambda data: None, "is compressed"),
    ("hf:", lambda data: None, "write hf:NAME"),
    ("hf:./nowhere", lambda data: None, "There is no folder nowhere"),
]


def run(monkeypatch: pytest.MonkeyPatch, data: str, backbone: str, *flags: str) -> object:
    argv = ["ovor", "run", "--data", data, "--method", "simplecil", "--backbone", backbone]
    monkeypatch.setattr("sys.argv", [*argv, "--device", "cpu", "--json", *flags])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code


@pytest.fixture
def copy(name: str, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the data set `name`, and of nothing else."""
    data = tmp_path / "data"
    kind = name.split(":")[0]
    place = {"cub-200": "CUB_200_2011", "cifar-100": "cifar-100-python"}.get(kind, kind)
    data.mkdir()
    for path in whole.iterdir():
        if path.is_file():
            os.link(path, data / path.name)
        elif path.name == place:
            shutil.copytree(path, data / path.name, copy_function=os.link)
    monkeypatch.setenv("OVOR_DATA", str(data))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return data


@pytest.mark.parametrize(("name", "damage", "said"), CASES)
def test_the_last_line_names_what_is_wrong(
    name: str,
    damage: Damage,
    said: str,
    copy: Path,
    tiny_backbone: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage(copy)
    assert run(monkeypatch, name, tiny_backbone) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err
    last = printed.err.splitlines()[-1]
    assert last.startswith("ovor: ")
    assert last.endswith(".")
    assert said in last
    assert not Path("executed").exists()


@pytest.mark.parametrize("flags", [("--cache", "0.1"), ("--workers", "2")])
@pytest.mark.parametrize("damage", [cut(IMAGE), holds(IMAGE, b"")])
@pytest.mark.parametrize("name", ["imagenet-r"])
def test_so_do_workers_and_the_cache(
    name: str,
    flags: tuple[str, ...],
    damage: Damage,
    copy: Path,
    tiny_backbone: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage(copy)
    assert run(monkeypatch, name, tiny_backbone, *flags) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err
    assert f"{IMAGE} cannot be read" in printed.err.splitlines()[-1]
