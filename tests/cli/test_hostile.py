"""What people do by mistake, and what files and folders are like: a sentence, and nothing changed.

Every row of REFUSED is a command that cannot do what it is asked to; every row of FINE looks as if
it could not, and must just work.
"""

import io
import json
import operator
import os
import shutil
import struct
import tempfile
import unicodedata
import zlib
from collections.abc import Callable, Iterator
from contextlib import chdir, suppress
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from command import contents, ovor
from ovor import Classifier, OvorError
from ovor.events import TrainStep
from ovor.tensor_file import load_tensors, save_tensors

Damage = Callable[[], object]  # in the current folder
NEW = ["learn", "n.ovor", "new", "--backbone", "tiny.safetensors", "--method", "analytic"]


def noise(seed: int, size: tuple[int, int] = (14, 14)) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def encoded(kind: str, image: Image.Image, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def folder_of(root: Path, *classes: str, each: int = 2) -> Path:
    for number, name in enumerate(classes):
        (root / name).mkdir(parents=True)
        for i in range(each):
            noise(10 * number + i).save(root / name / f"{i}.png")
    return root


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, tiny_backbone: str) -> Path:
    """Models, folders and images as they should be."""
    root = tmp_path_factory.mktemp("whole")
    shutil.copy(tiny_backbone, root / "tiny.safetensors")
    shutil.copy(Path(tiny_backbone).with_suffix(".json"), root / "tiny.json")
    folder_of(root / "old", "ant", "bee")
    folder_of(root / "new", "cat", "dog")
    folder_of(root / "one", "ant")
    noise(99).save(root / "image.png")
    with chdir(root):  # models remember their backbone by the path that was given
        Classifier("tiny.safetensors", device="cpu").learn("old").save("m.ovor")
        Classifier("tiny.safetensors", device="cpu").learn("one").save("one.ovor")
        Classifier("tiny.safetensors", "l2", epochs=1, device="cpu").learn("old").save("l2.ovor")
        Classifier("tiny.safetensors", "analytic", device="cpu").learn("old").save("a.ovor")
        Classifier("tiny.safetensors", "analytic", device="cpu").learn("new").save("b.ovor")
    return root


# --- damage


def nothing() -> None:
    """The files are as they should be."""


def both(*damages: Damage) -> Damage:
    return lambda: [damage() for damage in damages]


def holds(name: str, content: bytes) -> Damage:
    def damage() -> None:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(content)

    return damage


def gone(name: str) -> Damage:
    return lambda: shutil.rmtree(name) if Path(name).is_dir() else Path(name).unlink()


def folder(name: str, *files: str) -> Damage:
    """A folder with images of these names."""

    def damage() -> None:
        Path(name).mkdir(parents=True)
        for file in files:
            noise(7).save(Path(name, file))

    return damage


def cut(name: str, length: int) -> Damage:
    return lambda: Path(name).write_bytes(Path(name).read_bytes()[:length])


def flipped(name: str, position: int) -> Damage:
    def damage() -> None:
        content = bytearray(Path(name).read_bytes())
        content[position] ^= 1
        Path(name).write_bytes(content)

    return damage


def retold(change: Callable[[dict[str, torch.Tensor], Any], object]) -> Damage:
    """Change the model's tensors or words, with a digest that fits."""

    def damage() -> None:
        tensors, meta = load_tensors(Path("m.ovor"))
        change(tensors, meta)
        save_tensors(Path("m.ovor"), tensors, meta)

    return damage


def inside(meta: Any, keys: tuple[Any, ...]) -> Any:
    return reduce(lambda value, key: value[key], keys, meta)


def says(*keys: Any, value: Any) -> Damage:
    return retold(lambda _, meta: operator.setitem(inside(meta, keys[:-1]), keys[-1], value))


def lacks(*keys: Any) -> Damage:
    return retold(lambda _, meta: inside(meta, keys[:-1]).pop(keys[-1]))


def weighs(change: Callable[[dict[str, torch.Tensor]], object]) -> Damage:
    return retold(lambda tensors, _: change(tensors))


def other_weights() -> None:
    path = Path("tiny.safetensors")
    flipped(str(path), path.stat().st_size - 3)()


def begun_by_training() -> None:
    """A lesson of a new model was begun with another method than it is continued with."""

    def stop(event: object) -> None:
        if isinstance(event, TrainStep) and event.epoch == 1:
            raise KeyboardInterrupt

    model = Classifier("tiny.safetensors", "l2", epochs=2, device="cpu")
    with suppress(KeyboardInterrupt):
        model.learn("new", checkpoint="n.ovor.learning", listen=stop)
    assert Path("n.ovor.learning").exists()


def renamed_non_utf8() -> None:
    os.rename(b"new/cat", b"new/\xff\xfe")


def linked(name: str, target: str) -> Damage:
    return lambda: Path(name).symlink_to(target)


def bomb() -> bytes:
    """A PNG of 60,000 x 60,000 pixels in a hundred bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        sum_ = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + sum_

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    rest = chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + rest


JPEG = encoded("jpeg", noise(1, (64, 64)))
FLOAT_TIFF = encoded("tiff", Image.fromarray(np.full((8, 8), 0.5, np.float32)))
BROKEN_PNG = encoded("png", noise(1, (64, 64)))[:800]
CMYK = encoded("jpeg", Image.new("CMYK", (14, 14), (0, 255, 255, 0)), icc_profile=b"broken")
GIF = encoded("gif", noise(1), save_all=True, append_images=[noise(2), noise(3)])
PICTURE = "new/cat/bad.png"
ABSENT = "mps" if torch.cuda.is_available() else "cuda"  # no machine has both


NOBODY = 65534


@dataclass(frozen=True)
class Case:
    name: str
    damage: Damage
    command: str | list[str]
    says: str
    code: int = 1

    @property
    def argv(self) -> list[str]:
        return self.command.split() if isinstance(self.command, str) else self.command


LEARN, TRAIN, LEARN_NEW = "learn m.ovor new", "learn l2.ovor new", " ".join(NEW)
INSPECT, PREDICT = "inspect m.ovor", "predict m.ovor image.png"
STOP = "predict m.ovor --on-error stop"
CORRECT, UNLEARN = "correct a.ovor --to bee", "unlearn a.ovor old"
MERGE = "merge c.ovor a.ovor b.ovor"
UNLIKE = "is not a file that ovor wrote"
TASK = ("about", "tasks", 0)

MODELS = [
    Case("missing", gone("m.ovor"), INSPECT, "There is no model m.ovor: check the name"),
    Case("missing", gone("m.ovor"), PREDICT, "There is no model m.ovor"),
    Case("missing", gone("m.ovor"), "evaluate m.ovor old", "There is no model m.ovor"),
    Case("missing", gone("m.ovor"), "forget m.ovor ant", "There is no model m.ovor"),
    Case("missing", gone("a.ovor"), f"{CORRECT} image.png", "There is no model a.ovor"),
    Case("missing", gone("a.ovor"), UNLEARN, "There is no model a.ovor"),
    Case("missing", gone("a.ovor"), "undo a.ovor", "There is no model a.ovor"),
    Case("missing", gone("a.ovor"), "rename a.ovor ant elk", "There is no model a.ovor"),
    Case("missing", gone("a.ovor"), MERGE, "There is no model a.ovor"),
    Case("missing", gone("b.ovor"), MERGE, "There is no model b.ovor"),
    Case("folder", nothing, "undo old", "old is a folder: give the name of a model file"),
    Case("folder", nothing, "merge old a.ovor b.ovor", "old is a folder: give the name of a"),
    Case("folder", nothing, "merge c.ovor a.ovor old", "old is a folder: give the name of a"),
    Case("folder", nothing, "inspect old", "old is a folder: give the name of a model file"),
    Case("folder", nothing, "learn old new", "old is a folder: give the name of a model file"),
    Case("folder", nothing, "learn . new", ". is a folder: give the name of a model file"),
    Case("folder", nothing, "forget .. ant", ".. is a folder: give the name of a model file"),
    Case("empty name", nothing, ["inspect", ""], ". is a folder"),
    Case("below a file", nothing, "learn image.png/m.ovor new", "no folder image.png: make it"),
    Case("no such folder", nothing, "learn a/b/m.ovor new", "There is no folder a/b: make it"),
    Case("link to no folder", linked("l.ovor", "no/m.ovor"), "learn l.ovor new", "/no: make it"),
    Case("long name", nothing, f"inspect {300 * 'm'}", "File name too long: choose a shorter name"),
    Case("empty file", holds("m.ovor", b""), INSPECT, UNLIKE),
    Case("empty file", holds("m.ovor", b""), LEARN, UNLIKE),
    Case("text", holds("m.ovor", b"a letter to somebody\n" * 9), INSPECT, UNLIKE),
    Case("image as a model", nothing, "inspect image.png", UNLIKE),
    Case("pickle", lambda: torch.save({"a": torch.ones(3)}, "m.pth"), "inspect m.pth", UNLIKE),
    Case("safetensors", nothing, "predict tiny.safetensors image.png", UNLIKE),
    Case(
        "safetensors with words of others",
        lambda: save_file({"a": torch.ones(2)}, "m.ovor", {"format": "pt"}),
        INSPECT,
        UNLIKE,
    ),
    Case(
        "a run's checkpoint",
        lambda: save_tensors(Path("m.ovor"), {}, {"schema": 1, "position": {}, "about": {}}),
        INSPECT,
        "is a file of ovor's, but not a classifier",
    ),
    Case("other kind", says("kind", value=["x"]), PREDICT, "but not a classifier"),
    Case("newer", says("schema", value=2), INSPECT, "has the format 2, and this version of ovor"),
    Case("newer", says("schema", value=2), LEARN, "update ovor"),
    Case("older", says("schema", value=0), INSPECT, "reads 1: learn it anew"),
    Case("schema in words", says("schema", value="new"), INSPECT, "has the format 'new'"),
    Case("no schema", lacks("schema"), INSPECT, "has the format None"),
    Case("no words", lacks("about"), INSPECT, "does not say what a model must"),
    Case("no run", lacks("about", "run"), INSPECT, "must (run: Field required)"),
    Case("no classes", lacks(*TASK, "classes"), INSPECT, "tasks.0.classes: Field required"),
    Case("wrong type", says("about", "tasks", value=7), INSPECT, "(tasks: "),
    Case("wrong type", says(*TASK, "classes", value="ant"), INSPECT, "tasks.0.classes: "),
    Case("wrong type", says(*TASK, "threshold", value="low"), INSPECT, "tasks.0.threshold: "),
    Case("foreign key", says("about", "colour", value=1), INSPECT, "(colour: "),
    Case("NaN", says(*TASK, "threshold", value=float("nan")), PREDICT, "that are not finite"),
    Case("infinite", says(*TASK, "threshold", value=float("inf")), PREDICT, "that are not finite"),
    Case("false alarms", says("about", "false_alarms", value=3), PREDICT, "false_alarms: "),
    Case("no task", says("about", "tasks", value=[]), INSPECT, "knows no class"),
    Case("twins", says(*TASK, "classes", value=["ant", "ant"]), INSPECT, "the same name"),
    Case(
        "a class more than counts",
        says(*TASK, "classes", value=["ant", "bee", "cow"]),
        INSPECT,
        "3 classes and 2 numbers of images",
    ),
    Case(
        "a class more than weights",
        both(
            says(*TASK, "classes", value=["ant", "bee", "cow"]),
            says(*TASK, "images", value=[2, 2, 2]),
        ),
        PREDICT,
        "do not fit its method, its classes and its backbone",
    ),
    Case("other method", says("about", "run", "method", value="x"), PREDICT, "no method 'x'"),
    Case("no method", says("about", "run", "epochs", value=0), PREDICT, "run.epochs: "),
    Case("cut", cut("m.ovor", 4), INSPECT, UNLIKE),
    Case("cut", cut("m.ovor", 60), INSPECT, "is truncated or damaged"),
    Case("cut", cut("m.ovor", 900), INSPECT, "is truncated or damaged"),
    Case("cut", cut("m.ovor", -1), LEARN, "is truncated or damaged"),
    Case("flipped", flipped("m.ovor", 200), INSPECT, "is truncated or damaged"),
    Case("flipped", flipped("m.ovor", -5), PREDICT, "is truncated or damaged"),
    Case("flipped", flipped("m.ovor", -5), "forget m.ovor ant", "is truncated or damaged"),
    Case("flipped", flipped("a.ovor", -5), "undo a.ovor", "is truncated or damaged"),
    Case("flipped", flipped("b.ovor", -5), MERGE, "b.ovor is truncated or damaged"),
    Case("text", holds("b.ovor", b"a letter to somebody\n"), MERGE, f"b.ovor {UNLIKE}"),
    Case("other backbone", other_weights, PREDICT, "learned with other weights than"),
    Case("backbone gone", gone("tiny.safetensors"), PREDICT, "Or say where it is now (--backbone)"),
    Case("backbone elsewhere", nothing, f"{PREDICT} --backbone x.pth", "no file x.pth"),
    Case("backbone no ViT", nothing, f"{PREDICT} --backbone m.ovor", "ends in .ovor"),
    Case("new backbone", nothing, [*NEW[:4], "nowhere", *NEW[5:]], 'no backbone "nowhere"'),
    Case("tensor gone", weighs(lambda t: t.popitem()), PREDICT, "do not fit"),
    Case(
        "tensor more",
        weighs(lambda t: t.update(x=torch.ones(1))),
        INSPECT,
        "weights of nothing ('x')",
    ),
    Case(
        "backbone smuggled in",
        weighs(lambda t: t.update({"learner.backbone.cls_token": torch.zeros(1, 1, 64)})),
        PREDICT,
        "do not fit",
    ),
    Case(
        "whole numbers",
        weighs(lambda t: t.update({k: v.int() for k, v in t.items()})),
        PREDICT,
        "do not fit",
    ),
    Case(
        "unfinished lesson damaged",
        holds("m.ovor.learning", b"half"),
        LEARN,
        "m.ovor.learning is not a file that ovor wrote",
    ),
    Case(
        "unfinished lesson of another",
        lambda: shutil.copy("l2.ovor", "m.ovor.learning"),
        f"{LEARN} --resume",
        "cannot be continued, the model has changed since",
    ),
    Case("unfinished", lambda: shutil.copy("l2.ovor", "m.ovor.learning"), LEARN, "(--resume)"),
    Case(
        "unfinished lesson of another method",
        begun_by_training,
        f"{LEARN_NEW} --resume",
        "cannot be continued, it was begun with other settings",
    ),
    Case(
        "forget in between",
        holds("m.ovor.learning", b""),
        "forget m.ovor ant",
        "is unfinished: finish it first",
    ),
    Case("unlearn in between", holds("a.ovor.learning", b""), UNLEARN, "is unfinished: finish"),
    Case("merge in between", holds("b.ovor.learning", b""), MERGE, "b.ovor was begun on the"),
    Case("no such folder", nothing, "merge no/c.ovor a.ovor b.ovor", "no folder no: make it first"),
    Case("something there", holds("c.ovor", b"x"), MERGE, "c.ovor exists already, and is none of"),
]

FOLDERS = [
    Case("missing", nothing, "learn m.ovor nowhere", "nowhere does not exist: give a folder"),
    Case("missing", nothing, "learn m.ovor ~nosuch", "~nosuch does not exist: give a folder"),
    Case("missing", nothing, "evaluate m.ovor nowhere", "nowhere does not exist: give a folder"),
    Case("file", nothing, "learn m.ovor image.png", "image.png is one image: say what it shows"),
    Case(
        "file",
        holds("a.txt", b""),
        "learn m.ovor a.txt",
        "a.txt holds texts, and this model reads images",
    ),
    Case("unset", nothing, ["learn", "m.ovor", ""], "An argument is empty", 2),
    Case("unset", nothing, ["unlearn", "a.ovor", ""], "An argument is empty", 2),
    Case("unset", nothing, ["evaluate", "", "old"], "An argument is empty", 2),
    Case("empty", folder("empty"), "learn m.ovor empty", "empty has no class folders"),
    Case("images only", nothing, "learn m.ovor old/ant", "or say what all of them show (--label"),
    Case("address", nothing, "learn m.ovor https://a.b/c", "https://a.b/c is an address"),
    Case("address", nothing, "evaluate m.ovor s3://a/b", "s3://a/b is an address, and nothing"),
    Case("address", nothing, "learn m.ovor gs://a/b --label x", "gs://a/b is an address"),
    Case("address", nothing, "forget a.ovor ant --images http://a/b", "http://a/b is an address"),
    Case("address", nothing, f"{STOP} https://a.b/c.png", "download it first"),
    Case("empty class", folder("new/elk"), LEARN, "No images in 'elk' of new: add some"),
    Case("no images", holds("new/elk/notes.txt", b"x"), LEARN, "No images in 'elk' of new"),
    Case("hidden only", folder("new/elk", ".1.png"), LEARN, "No images in 'elk' of new"),
    Case("link only", both(folder("new/elk"), linked("new/elk/a", "../cat")), LEARN, "'elk' of"),
    Case("pipe", both(folder("new/elk"), lambda: os.mkfifo("new/elk/1.png")), LEARN, "'elk' of"),
    Case(
        "a data set",
        both(folder("set/val/cat", "1.png"), folder("set/test/cat", "1.png")),
        "learn m.ovor set",
        "set has 'test', 'val', by the name and the folders inside part of a data set, and no part "
        "'train': give what you mean alone",
    ),
    Case("table", holds("t.csv", b"path,label\n"), "learn m.ovor t.csv", "t.csv has no rows"),
    Case(
        "table",
        holds("t.csv", b"path,label\nimage.png,cat\n1.png,dog\n"),
        "learn m.ovor t.csv",
        "Line 3 of t.csv names 1.png, and there is no such file",
    ),
    Case("zip", holds("z.zip", b"x"), "learn m.ovor z.zip", "z.zip cannot be read as a zip"),
    Case("zip", holds("z.zip", b"x"), "unlearn a.ovor z.zip", "z.zip cannot be read as a zip"),
    Case("missing", nothing, "unlearn a.ovor nowhere", "nowhere does not exist: give a folder"),
    Case("file", nothing, "unlearn a.ovor image.png", "image.png is one image: say what it shows"),
    Case("empty", folder("empty"), "unlearn a.ovor empty", "empty has no class folders"),
    Case("strangers", nothing, "unlearn a.ovor new", "There is no class 'cat', 'dog': there are"),
    Case(
        "more than taught",
        lambda: noise(5).save("old/ant/5.png"),
        UNLEARN,
        "2 images, so 3 cannot be",
    ),
    Case("all of it", nothing, UNLEARN, "No class would be left: delete"),
    Case("missing", nothing, "forget a.ovor ant --images nowhere", "no file or folder nowhere"),
    Case("empty", folder("empty"), "forget a.ovor ant --images empty", "and here are 0: give"),
    Case("too few", gone("old/ant/1.png"), "forget a.ovor ant --images old/ant", "and here are 1"),
    Case("known", nothing, "learn l2.ovor old", "'ant', 'bee' are learned already"),
    Case("one known", folder("new/bee", "1.png"), TRAIN, "'bee' is learned already, and a class"),
    Case(
        "ways out", folder("new/bee", "1.png"), TRAIN, "(--skip-known), or give it another name ("
    ),
    Case("nothing new", nothing, "learn m.ovor old --skip-known", "there is nothing new to learn"),
    Case("unknown", folder("new/unknown", "1.png"), LEARN, "A class cannot be called 'unknown'"),
    Case("spaces", folder("new/  ", "1.png"), LEARN, "A class cannot be called '  '"),
    Case("line break", folder("new/a\nb", "1.png"), LEARN, r"A class cannot be called 'a\nb'"),
    Case("escape", folder("new/\x1b[31m", "1.png"), LEARN, r"called '\x1b[31m'"),
    Case(
        "accents in two ways",
        both(
            folder(f"new/{unicodedata.normalize('NFC', 'é')}", "1.png"),
            folder(f"new/{unicodedata.normalize('NFD', 'é')}", "1.png"),
        ),
        LEARN,
        "Two folders of new are both called 'é': rename one",
    ),
    Case("not UTF-8", renamed_non_utf8, LEARN, r"b'\xff\xfe' has a name that is not UTF-8"),
    Case("loop", both(folder("loop"), linked("loop/a", "a")), "learn m.ovor loop", "no class f"),
    Case("strangers", nothing, "evaluate m.ovor new", "The model does not know 'cat', 'dog'"),
    Case("unknown gone", nothing, "evaluate m.ovor old --unknown no", "no file or folder no"),
    Case(
        "unknown empty",
        folder("empty"),
        "evaluate m.ovor old --unknown empty",
        "There is no image in empty",
    ),
    Case("drawings of what", nothing, "drawings d unicorn", "There is no drawing of 'unicorn'"),
    Case("drawings of nothing", nothing, "drawings d", "No class is named: choose from"),
    Case(
        "drawings into a file", nothing, "drawings image.png owl", "Not a directory: check the path"
    ),
]

IMAGES = [
    Case("empty", holds("new/cat/a.jpg", b""), LEARN, "new/cat/a.jpg cannot be read (it is empty"),
    Case(
        "cut", holds("new/cat/a.jpg", JPEG[:1500]), LEARN, "a.jpg cannot be read (image file is t"
    ),
    Case("way out", holds("new/cat/a.jpg", b""), LEARN, "leave such images out (--on-error skip)"),
    Case("text", holds(PICTURE, b"no picture"), LEARN, f"{PICTURE} cannot be read"),
    Case("text", holds(PICTURE, b"no picture"), f"{STOP} new", f"{PICTURE} cannot be read"),
    Case("text", holds("old/ant/a.gif", b"x"), "evaluate m.ovor old", "old/ant/a.gif cannot be"),
    Case("bomb", holds(PICTURE, bomb()), LEARN, "bad.png has more than 89 million pixels, which"),
    Case("bomb", holds(PICTURE, bomb()), f"{STOP} {PICTURE}", "make it smaller"),
    Case("floats", holds("new/cat/a.tif", FLOAT_TIFF), LEARN, "save it with 8 or 16 bits"),
    Case("cut PNG", holds(PICTURE, BROKEN_PNG), LEARN, f"{PICTURE} cannot be read (image file is"),
    Case("line break", holds("new/cat/a\nb.png", b""), LEARN, r"new/cat/a\nb.png cannot be read"),
    Case(
        "all of a class",
        both(gone("new/cat"), holds(PICTURE, b"")),
        f"{LEARN} --on-error skip",
        "No image of 'cat' can be read: replace them",
    ),
    Case("text", holds("a.png", b"no picture"), f"{CORRECT} a.png", "a.png cannot be read"),
    Case("missing", nothing, f"{CORRECT} a.png", "a.png cannot be read, as there is no such"),
    Case("none given", nothing, CORRECT, "There is no image given: give files"),
    Case("none piped", nothing, f"{CORRECT} -", "There is no image on standard input"),
    Case("no image", folder("empty"), f"{CORRECT} empty", "There is no image in empty"),
    Case("text", holds("old/ant/a.png", b"x"), UNLEARN, "old/ant/a.png cannot be read"),
    Case("missing", nothing, f"{STOP} a.png", "a.png cannot be read, as there is no such"),
    Case("missing", nothing, f"{STOP} ~a.png", "~a.png cannot be read, as there is no"),
    Case("no image", folder("empty"), "predict m.ovor empty", "There is no image in empty"),
    Case("none given", nothing, "predict m.ovor", "There is no image given: give files"),
    Case("none piped", nothing, "predict m.ovor -", "There is no image on standard input"),
    Case("in JSON", holds(PICTURE, b""), f"{STOP} new --json", "bad.png cannot be read"),
    Case("skipped", nothing, f"{STOP} image.png/x", "cannot be read (Not a"),
]

ARGUMENTS = [
    Case("no command", nothing, "lern m.ovor new", "there is no command 'lern'", 2),
    Case("no folder", nothing, "learn m.ovor", "SOURCE", 2),
    Case("no model", nothing, "inspect", "MODEL", 2),
    Case("strange option", nothing, f"{LEARN} --fast", "--fast", 2),
    Case("no =", nothing, f"{LEARN} --rename cat", "--rename takes OLD=NEW, not 'cat'", 2),
    Case("no name", nothing, f"{LEARN} --rename cat=", "--rename takes OLD=NEW, not 'cat='", 2),
    Case("twice", nothing, f"{LEARN} --rename cat=a --rename cat=b", "names 'cat' twice", 2),
    Case("rename what", nothing, f"{LEARN} --rename cow=elk", "There is no class 'cow' to rename"),
    Case("rename to a known", nothing, f"{TRAIN} --rename cat=ant", "'ant' is learned already"),
    Case("rename to another", nothing, f"{LEARN} --rename cat=dog", "Two classes would be called"),
    Case("rename to unknown", nothing, f"{LEARN} --rename cat=unknown", "cannot be called 'unkn"),
    Case("rename in an exam", nothing, "evaluate m.ovor old --rename ant=a", "does not know 'a'"),
    Case("epochs", nothing, f"{LEARN} --epochs 0", "epochs: Input should be greater than or", 2),
    Case("epochs", nothing, f"{LEARN} --epochs x", "--epochs", 2),
    Case("epochs", nothing, [*NEW[:-1], "ovor", "--epochs", "1"], "needs two epochs"),
    Case("rate", nothing, f"{LEARN} --lr -1", "lr: Input should be greater than 0", 2),
    Case("rate", nothing, f"{LEARN} --lr nan", "lr: ", 2),
    Case("rate", nothing, f"{LEARN} --lr inf", "lr: ", 2),
    Case("hold out", nothing, f"{LEARN} --hold-out 1.5", "hold_out: Input should be less than", 2),
    Case("alarms", nothing, f"{LEARN} --false-alarms 2", "false_alarms: Input should be less", 2),
    Case("alarms", nothing, f"{LEARN} --false-alarms nan", "false_alarms: ", 2),
    Case("seed", nothing, f"{LEARN} --seed -1", "seed: Input should be greater than or equal", 2),
    Case("batch", nothing, f"{LEARN} --batch-size 0", "batch_size: Input should be greater", 2),
    Case("on error", nothing, f"{LEARN} --on-error shrug", "--on-error", 2),
    Case("device", nothing, f"{LEARN} --device tpu", "--device", 2),
    Case("no GPU", nothing, f"{LEARN} --device {ABSENT}", "There is no device '"),
    Case("no GPU", nothing, f"{LEARN_NEW} --device {ABSENT}", "here: use cpu or auto"),
    Case("no GPU", nothing, f"{PREDICT} --device {ABSENT}", "here: use cpu or auto"),
    Case("method", nothing, [*NEW[:-1], "magic"], "There is no method 'magic': choose from"),
    Case("method", nothing, [*NEW[:-1], "magic+vor"], "There is no method 'magic': choose from"),
    Case("joint", nothing, [*NEW[:-1], "joint"], "joint learns all classes at once: choose"),
    Case("no head", nothing, [*NEW[:-1], "simplecil+vor"], "simplecil has no linear head for VOR"),
    Case("twice VOR", nothing, [*NEW[:-1], "ovor+vor"], "ovor has VOR already: leave out the +vor"),
    Case("other method", nothing, f"{LEARN} --method ovor", "was made with analytic, and a model"),
    Case("heads", nothing, f"{LEARN_NEW} --num-heads 7", "does not split into 7 heads"),
    Case("top", nothing, f"{PREDICT} --top 0", "top: Input should be greater than or equal", 2),
    Case("top", nothing, f"{PREDICT} --top many", "--top", 2),
    Case("forget what", nothing, "forget m.ovor cow", "There is no class 'cow': there are 'ant'"),
    Case("forget the last", nothing, "forget one.ovor ant", "'ant' is the only class: delete"),
    Case("forget a mixture", nothing, "forget l2.ovor ant", "L2 cannot forget one class, as"),
    Case("forget nothing", nothing, "forget m.ovor", "CLASS", 2),
    Case("to nothing", nothing, "correct a.ovor image.png", "--to", 2),
    Case("to unknown", nothing, "correct a.ovor image.png --to unknown", "cannot be called 'unkn"),
    Case("from what", nothing, f"{CORRECT} image.png --from cow", "There is no class 'cow'"),
    Case("from itself", nothing, f"{CORRECT} image.png --from bee", "are 'bee' already"),
    Case("rename what", nothing, "rename a.ovor cow elk", "There is no class 'cow'"),
    Case("rename to a known", nothing, "rename a.ovor ant bee", "There is a class 'bee' already"),
    Case("rename to unknown", nothing, "rename a.ovor ant unknown", "cannot be called 'unknown'"),
    Case("rename to a line", nothing, ["rename", "a.ovor", "ant", "a\nb"], r"called 'a\nb'"),
    Case("rename to nothing", nothing, "rename a.ovor ant", "NEW", 2),
    Case("undo nothing", nothing, "undo a.ovor", "Nothing is kept of a.ovor before its last"),
    Case("merge one", nothing, "merge c.ovor a.ovor", "two models or more", 2),
    Case("merge twice", nothing, "merge c.ovor a.ovor a.ovor", "a.ovor is named twice"),
    Case(
        "merge means",
        nothing,
        "merge c.ovor a.ovor l2.ovor",
        "l2.ovor: This model was made with l2",
    ),
    Case("unlearn means", nothing, "unlearn l2.ovor old", "l2, which cannot unlearn"),
    Case("correct means", nothing, "correct l2.ovor image.png --to ant", "l2, which cannot"),
    Case("drawings", nothing, "drawings d owl --each 0", "each", 2),
]
REFUSED = [
    pytest.param(case, id=f"{kind}-{number}-{case.name}".replace(" ", "-"))
    for kind, cases in {
        "model": MODELS,
        "folder": FOLDERS,
        "image": IMAGES,
        "argument": ARGUMENTS,
    }.items()
    for number, case in enumerate(cases)
]


@pytest.mark.parametrize("case", REFUSED)
def test_a_sentence_and_nothing_changed(case: Case, world: Path) -> None:
    case.damage()
    before = contents(world)
    done = ovor(*case.argv)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "mistake in ovor" not in done.stderr
    assert case.says in done.stderr
    assert done.returncode == case.code
    if not done.stderr.startswith("╭"):  # the parser's box around a word that it does not know
        assert done.stderr.startswith("ovor: ")
        assert done.stderr.endswith(".\n")
        assert done.stderr.count("\n") == 1
    assert contents(world) == before


# --- what just works

DOUBLE = "é"  # two characters that look like one
FINE = [
    Case("one image", both(gone("new/cat/1.png")), LEARN, "'cat': one image only"),
    Case(
        "one class", gone("new/dog"), LEARN_NEW, "One class alone has nothing to be told apart from"
    ),
    Case("other files", holds("new/cat/a.txt", b""), LEARN, "left out: 'cat/a.txt'"),
    Case("other files", holds("new/a.txt", b""), LEARN, "left out: 'a.txt'"),
    Case("hidden", folder("new/.git", "1.png"), LEARN, "left out: '.git'"),
    Case("hidden", folder("new/cat/.cache", "1.png"), LEARN, "left out: 'cat/.cache'"),
    Case("linked", linked("new/cat/dogs", "../dog"), LEARN, "left out: 'cat/dogs'"),
    Case("linked nowhere", linked("new/cat/a.png", "gone"), LEARN, "left out: 'cat/a.png'"),
    Case("in circles", linked("new/cat/self", "../../new"), LEARN, "left out: 'cat/self'"),
    Case("markup", holds("new/cat/x[/b][1].txt", b""), LEARN, "'cat/x[/b][1].txt'"),
    Case("deep", folder("new/cat/very/deep", "1.png"), LEARN, "cat (3)"),
    Case("linked class", linked("new/elk", "../old/ant"), LEARN, "elk (2)"),
    Case("a class in brackets", folder("new/[b]", "1.png"), LEARN, "[b] (1)"),
    Case("accents", folder(f"new/{DOUBLE}", "1.png"), LEARN, "é (1)"),
    Case("to accents", nothing, [*LEARN.split(), "--rename", f"cat={DOUBLE}"], "é (2)"),
    Case("from accents", folder("new/é", "1.png"), f"{LEARN} --rename {DOUBLE}=x", "x (1)"),
    Case("renamed twice", nothing, f"{LEARN} --rename cat=a --rename dog=b", "a (2), b (2)"),
    Case("swapped", nothing, f"{LEARN} --rename cat=dog --rename dog=cat", "dog (2), cat (2)"),
    Case("known", folder("new/ant", "1.png"), f"{LEARN} --skip-known", "already, left out: 'ant'"),
    Case("more of a known class", folder("new/ant", "1.png"), LEARN, "ant (1), cat (2), dog (2)"),
    Case("known classes alone", nothing, "learn m.ovor old", "m.ovor knows 2 classes"),
    Case("renamed to a known", nothing, f"{LEARN} --rename cat=ant", "ant (2), dog (2)"),
    Case("twice, and once", nothing, f"{LEARN} --once", "m.ovor knows 4 classes"),
    Case("skipped", holds(PICTURE, b""), f"{LEARN} --on-error skip", f"{PICTURE} cannot be read"),
    Case("bomb", holds(PICTURE, bomb()), f"{LEARN} --on-error skip", "89 million pixels"),
    Case("1 x 1", lambda: noise(1, (1, 1)).save(PICTURE), LEARN, "cat (3)"),
    Case("1 x 5000", lambda: noise(1, (1, 5000)).save(PICTURE), LEARN, "cat (3)"),
    Case("60000 x 1", lambda: noise(1, (60_000, 1)).save(PICTURE), LEARN, "cat (3)"),
    Case("wrong suffix", holds("new/cat/a.jpg", encoded("png", noise(1))), LEARN, "cat (3)"),
    Case("broken profile", holds("new/cat/a.jpg", CMYK), LEARN, "cat (3)"),
    Case("animated", holds("new/cat/a.gif", GIF), LEARN, "cat (3)"),
    Case("capitals", holds("new/cat/A.JPEG", JPEG), LEARN, "cat (3)"),
    Case("tilde", lambda: noise(1).save("~a.png"), "predict m.ovor ~a.png", "~a.png\t"),
    Case("top", nothing, f"{PREDICT} --top 99", "\tbee\t"),
    Case("brackets", folder("[", "b].png"), "predict m.ovor [/b].png", "[/b].png\t"),
    Case(
        "tab", lambda: noise(1).save("a\tb.png"), ["predict", "m.ovor", "a\tb.png"], "a\\tb.png\t"
    ),
    Case("skip", nothing, "predict m.ovor a.png image.png --on-error skip", "image.png\t"),
    Case("exam", nothing, "evaluate m.ovor old --unknown new", "4 images of other things"),
    Case("one picture", nothing, "evaluate m.ovor old --unknown image.png", "1 images of other"),
    Case("linked model", linked("l.ovor", "m.ovor"), "learn l.ovor new", "l.ovor knows 4 classes"),
    Case("restart", holds("m.ovor.learning", b"x"), f"{LEARN} --restart", "knows 4 classes"),
    Case("resume nothing", nothing, f"{LEARN} --resume", "knows 4 classes"),
    Case("hold out nearly all", nothing, f"{LEARN} --hold-out 0.99", "knows 4 classes"),
    Case(
        "backbone moved",
        lambda: os.rename("tiny.safetensors", "moved.safetensors"),
        f"{PREDICT} --backbone moved.safetensors",
        "image.png\t",
    ),
]


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=f"{i}-{case.name}".replace(" ", "-")) for i, case in enumerate(FINE)],
)
def test_just_works(case: Case, world: Path) -> None:
    case.damage()
    done = ovor(*case.argv)
    assert done.returncode == 0, done.stderr
    assert case.says in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    left = {path.name for path in world.iterdir()}
    assert not {name for name in left if name.endswith((".lock", ".tmp", ".learning"))}
    assert ovor("inspect", "m.ovor").returncode == 0
    assert ovor("inspect", "m.ovor", "--json").returncode == 0
    assert not Path("l.ovor").exists() or Path("l.ovor").is_symlink()


def test_a_name_that_is_not_utf8_goes_out_as_it_came(world: Path) -> None:
    noise(1).save("a.png")
    os.rename("a.png", b"\xff.png")
    name = os.fsdecode(b"\xff.png")
    assert ovor("predict", "m.ovor", name).stdout.startswith(f"{name}\t")
    done = ovor("predict", "m.ovor", "-", "--json", stdin=b"\xff.png\nold\n")
    assert [row["image"] for row in json.loads(done.stdout)][:2] == [name, "old/ant/0.png"]


def test_an_error_in_a_late_batch_prints_no_early_one(world: Path) -> None:
    images = ["image.png"] * 40
    done = ovor("predict", "m.ovor", *images, "gone.png", "--on-error", "stop")
    assert (done.returncode, done.stdout) == (1, "")
    done = ovor("predict", "m.ovor", *images, "gone.png", "--on-error", "skip")
    assert done.returncode == 0
    assert done.stdout.count("\n") == 40
    assert "gone.png" in done.stderr


def test_nothing_that_can_be_read_is_a_failure(world: Path) -> None:
    Path("bad.png").write_bytes(b"")
    done = ovor("predict", "m.ovor", "bad.png", "--on-error", "skip")
    assert (done.returncode, done.stdout) == (1, "")
    assert "bad.png cannot be read" in done.stderr
    assert done.stderr.endswith("None of these images could be read: check the paths.\n")


@pytest.fixture
def mine(world: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The world, and not as root, who may read and write everything."""
    if os.geteuid() != 0:
        yield world
        return
    with tempfile.TemporaryDirectory() as root:  # the folders above `world` are root's
        os.chmod(root, 0o755)
        shutil.copytree(world, Path(root, "world"))
        monkeypatch.chdir(Path(root, "world"))
        for parent, folders, files in os.walk("."):
            for name in (".", *folders, *files):
                os.chown(Path(parent, name), NOBODY, NOBODY)
        os.seteuid(NOBODY)
        try:
            yield Path(root, "world")
        finally:
            os.seteuid(0)
            monkeypatch.chdir(world)


def test_what_may_not_be_read_or_written(mine: Path) -> None:
    (mine / "new/cat/0.png").chmod(0)
    assert "new/cat/0.png cannot be read (Permission denied)" in ovor(*LEARN.split()).stderr
    (mine / "new/dog").chmod(0)
    assert "The folder new/dog cannot be read (Permission denied)" in ovor(*LEARN.split()).stderr
    (mine / "new/dog").chmod(0o755)
    mine.chmod(0o555)
    done = ovor(*LEARN.split())
    mine.chmod(0o755)
    assert done.returncode == 1
    assert "The folder of m.ovor cannot be written to (Permission" in done.stderr


def test_debug_shows_the_traceback(world: Path) -> None:
    with pytest.raises(OvorError, match="There is no model gone"):
        ovor("inspect", "gone", "--debug")


# --- the same in Python

Act = Callable[[Classifier], object]
GREY = np.zeros((4, 4), np.uint8)
PYTHON: list[tuple[Act, str]] = [
    (lambda m: m.learn([]), "no image to learn from"),
    (lambda m: m.learn([GREY, GREY], ["cat"]), "2 images and 1 labels: give one label each"),
    (lambda m: m.learn([GREY]), "every item must be a pair .image, label."),
    (lambda m: m.learn([(GREY, "")]), "A class cannot be called ''"),
    (lambda m: m.learn([(GREY, "unknown")]), "cannot be called 'unknown'"),
    (lambda m: Classifier.load("l2.ovor").learn([(GREY, "ant")]), "'ant' is learned already"),
    (lambda m: m.learn([("gone.png", "cat")]), "gone.png cannot be read"),
    (lambda m: m.learn([(3, "cat")]), "An image cannot be an int"),
    (lambda m: m.learn(None), "Images cannot be a NoneType"),
    (lambda m: m.learn("new", rename={"cow": "x"}), "no class 'cow' to rename"),
    (lambda m: m.predict(GREY.astype(float)), "An array of float64 says not what is white"),
    (lambda m: m.predict(np.zeros((4, 4, 2), np.uint8)), "is not an image"),
    (lambda m: m.predict([np.zeros((0, 4, 3), np.uint8)]), "is not an image"),
    (lambda m: m.predict([np.zeros(4, np.uint8)]), "is not an image"),
    (lambda m: m.predict([torch.full((3, 4, 4), 2.0)]), "values from 0 to 1"),
    (lambda m: m.predict([torch.full((3, 4, 4), torch.nan)]), "values from 0 to 1"),
    (lambda m: m.predict([torch.zeros(3, 4, 0)]), "values from 0 to 1"),
    (lambda m: m.predict(Image.new("F", (4, 4))), "save it with 8 or 16 bits"),
    (lambda m: m.predict(Image.new("RGB", (0, 4))), "it has no pixel"),
    (lambda m: m.predict(Image.open(io.BytesIO(JPEG[:1500]))), "image file is truncated"),
    (lambda m: m.predict("gone"), "There is no file or folder gone"),
    (lambda m: m.predict(7), "Images cannot be an int"),
    (lambda m: m.predict([b"x"]), "The image in memory cannot be read"),
    (lambda m: m.predict([{}]), "An image cannot be a dict"),
    (lambda m: m.score(["image.png"], []), "1 images and 0 labels"),
    (lambda m: m.score([], []), "0 images and 0 labels"),
    (lambda m: m.forget("cow"), "no class 'cow'"),
    (lambda m: m.set_params(method="l2"), "The method is fixed once something is learned"),
    (lambda m: m.set_params(hold_out=1.5).learn("new"), "hold_out: Input should be less than 1"),
    (lambda m: m.set_params(false_alarms=2).learn("new"), "false_alarms: Input should be less"),
    (lambda m: m.set_params(epochs=0).learn("new"), "epochs: Input should be greater"),
    (lambda m: m.set_params(lr="fast").learn("new"), "lr: Input should be a valid number"),
    (lambda m: m.set_params(device=ABSENT).learn("new"), "here: use cpu or auto"),
    (lambda m: Classifier("tiny.safetensors").predict("old"), "Nothing is learned yet"),
    (lambda m: Classifier("tiny.safetensors").save("x"), "Nothing is learned yet"),
    (lambda m: Classifier("tiny.safetensors", "l2", lr=1e30).learn("new"), "out of bounds"),
    (lambda m: Classifier("tiny.safetensors", epochs=0).learn("new"), "epochs: "),
]


@pytest.mark.parametrize(("act", "says"), PYTHON, ids=[says for _, says in PYTHON])
def test_python_says_it_too(act: Act, says: str, world: Path) -> None:
    model = Classifier.load("m.ovor", device="cpu")
    before, files = model.predict_proba("old"), contents(world)
    with pytest.raises(OvorError, match=says):
        act(model)
    assert model.classes_.tolist() == ["ant", "bee"]
    model.set_params(epochs=5, lr=0.1)
    np.testing.assert_array_equal(model.predict_proba("old"), before)
    assert contents(world) == files
