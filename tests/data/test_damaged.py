"""A wrong or half-downloaded data set ends the command with a sentence, not with a traceback.

Some of each kind; test_sources, test_cifar_100, test_shards and test_hf have all that is refused.
"""

import gzip
import shutil
from pathlib import Path

import pytest

from command import ovor

ARCHIVE, IMAGE = "cifar-100-python.tar.gz", "images/train/class2/3.png"


@pytest.fixture
def data(tiny_images: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder in which something is wrong with everything but `images`."""
    shutil.copytree(tiny_images.removeprefix("folder:"), tmp_path / "images")
    shutil.copytree(tmp_path / "images" / "train", tmp_path / "imagenet-a" / "train")
    (tmp_path / "CUB_200_2011").mkdir()
    (tmp_path / "imagenet-r").touch()
    (tmp_path / ARCHIVE).write_bytes(gzip.compress(b"no tar" * 99))
    monkeypatch.setenv("OVOR_DATA", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def last_line(data: Path, name: str, backbone: str, *flags: str) -> str:
    """Run on a data set, which must fail with nothing on stdout; return the end of stderr."""
    given = ["run", "--data", name, "--method", "simplecil", "--backbone", backbone, *flags]
    done = ovor(*given, "--tasks", "2", "--device", "cpu", "--json", cwd=data)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    line = done.stderr.splitlines()[-1]
    assert line.startswith("ovor: ")
    assert line.endswith(".")
    return line


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("imagenet-r", "is a file, not a folder: get imagenet-r.tar"),
        ("imagenet-r:pilot", "not a folder where the folders train and test"),
        ("cifar-100", f"{ARCHIVE} is damaged"),
        ("cub-200", "has no file classes.txt, it is empty"),
        ("cub-200:pilot", "get CUB-200 as split"),
        ("imagenet-a", "holds train where"),
        ("folder:", "write folder:PATH"),
        ("folder:nowhere", "There is no folder nowhere"),
        ("shards:", "write shards:PATTERN"),
        ("shards:a-{0..1}.tar", "There is no shard a-0.tar"),
        (f"shards:{ARCHIVE}", "is compressed"),
        ("hf:", "write hf:NAME"),
        ("hf:./nowhere", "There is no folder nowhere"),
    ],
)
def test_the_last_line_names_what_is_wrong(
    name: str, said: str, data: Path, tiny_backbone: str
) -> None:
    assert said in last_line(data, name, tiny_backbone)


@pytest.mark.parametrize("flags", [(), ("--cache", "0.1"), ("--workers", "2")])
@pytest.mark.parametrize("kept", [0, 90])
def test_so_do_workers_and_the_cache(
    kept: int, flags: tuple[str, ...], data: Path, tiny_backbone: str
) -> None:
    (data / IMAGE).write_bytes((data / IMAGE).read_bytes()[:kept])
    assert f"{IMAGE} cannot be read" in last_line(data, "folder:images", tiny_backbone, *flags)
