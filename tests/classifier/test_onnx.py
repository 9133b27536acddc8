"""An export computes what the classifier does, says all that it needs, and is never half right."""

import builtins
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from command import in_new_process, ovor
from ovor import Classifier, OvorError
from ovor.classifier import onnx_export
from ovor.classifier.onnx import OnnxClassifier, sealed
from ovor.classifier.onnx_export import Exportable, Graph, describe, export_onnx, to_program
from ovor.classifier.prediction import Scores
from ovor.data import transforms
from ovor.learners import METHODS
from tiny import noisy, save_backbone, shrink

from .conftest import CLASSES, TASKS
from .damage import Damage, append, flip, prepend, truncate

NAMES = sorted(["кошка", "naïve 🌸", "ovor-sha256", 'quote " and \\'])
CLOSE = {"rtol": 0, "atol": 1e-4}

pytestmark = pytest.mark.xdist_group("onnx")  # they share an export that takes a while


@pytest.fixture(scope="module")
def exporting(model_file: Path, tmp_path_factory: pytest.TempPathFactory) -> CompletedProcess[str]:
    """Export by a real process, whose every line shows."""
    path = tmp_path_factory.mktemp("onnx") / "garden.onnx"
    return in_new_process("export", model_file, path)


@pytest.fixture(scope="module")
def exported(exporting: CompletedProcess[str]) -> Path:
    assert exporting.returncode == 0, exporting.stderr
    return Path(exporting.args[-1])


@pytest.fixture(scope="module")
def theirs(exported: Path) -> OnnxClassifier:
    return OnnxClassifier.load(exported)


@dataclass(frozen=True)
class Traced:
    """What takes seconds, done once."""

    model: Classifier
    program: Any
    images: list[Any]


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Traced:
    backbone = save_backbone(tmp_path_factory.mktemp("tiny") / "tiny.safetensors")
    images, labels = noisy(NAMES, 1)
    model = Classifier(str(backbone), "simplecil", device="cpu").learn(images, labels)
    program = to_program(Graph(model, model.transform()).eval(), torch.zeros(2, 3, 14, 14))
    return Traced(model, program, [Image.fromarray(image) for image in images])


@pytest.fixture
def quick(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> Classifier:
    """A classifier whose export takes no time, as it is traced already."""
    monkeypatch.setattr("ovor.classifier.onnx_export.to_program", lambda *_: traced.program)
    return traced.model


@pytest.fixture
def small(quick: Classifier, tmp_path: Path) -> Path:
    """An export of a few kilobytes."""
    export_onnx(quick, tmp_path / "small.onnx")
    return tmp_path / "small.onnx"


def images_in(folder: Path) -> list[Image.Image]:
    return [Image.open(path).convert("RGB") for path in sorted(folder.rglob("*.png"))]


def scores(model: Classifier | OnnxClassifier, images: list[Image.Image]) -> Scores:
    return model.scores(np.stack([model.view(image) for image in images]))


def assert_same(ours: Classifier, theirs: OnnxClassifier, images: list[Any]) -> None:
    mine, other = scores(ours, images), scores(theirs, images)
    np.testing.assert_allclose(other.probabilities, mine.probabilities, **CLOSE)
    np.testing.assert_allclose(other.margins, mine.margins, **CLOSE)


# --- the same as the classifier


SIZES = [(57, 33), (9, 40), (300, 200)]


@pytest.mark.parametrize("kind", [*CLASSES, 1, 2, 7, *SIZES], ids=str)
def test_images_of_every_class_number_and_shape(
    kind: str | int | tuple[int, int], model: Classifier, theirs: OnnxClassifier, labelled: Path
) -> None:
    match kind:
        case str():
            images = images_in(labelled / kind)
        case int():
            images = images_in(labelled)[-kind:]
        case _:
            images = [image.resize(kind) for image in images_in(labelled / "owl")]
    assert scores(theirs, images).probabilities.shape == (len(images), len(CLASSES))
    assert_same(model, theirs, images)


def test_logits_are_those_that_become_probabilities(
    model: Classifier, theirs: OnnxClassifier, labelled: Path
) -> None:
    transform = model.transform()
    pixels = np.stack([model.view(image) for image in images_in(labelled)])
    learner = model.learner()
    with torch.no_grad():
        views = transforms.normalised(torch.from_numpy(pixels), transform)
        features = learner.features(views)
        mine, _ = model.judge()(learner.logits(features), features)
    inputs = pixels.transpose(0, 3, 1, 2).astype(np.float32) / np.float32(255)
    logits, margins = theirs.session.run(None, {"images": inputs})
    np.testing.assert_allclose(logits, mine, **CLOSE)
    np.testing.assert_allclose(margins, scores(model, images_in(labelled)).margins, **CLOSE)


def test_predicts_the_same_labels_and_unknown_flags(
    model: Classifier, theirs: OnnxClassifier, labelled: Path, strange: Path
) -> None:
    flags = set()
    for folder in (labelled, strange):
        mine, other = model.classify(folder), theirs.classify(folder)
        assert other.labels.tolist() == mine.labels.tolist()
        assert other.unknown.tolist() == mine.unknown.tolist()
        np.testing.assert_allclose(other.confidences, mine.confidences, **CLOSE)
        flags |= {*mine.unknown.tolist()}
    assert flags == {True, False}  # else the comparison says little


SIX = [Image.fromarray(image) for image in noisy(["a", "b", "c", "d", "e", "f"], 2, seed=1)[0]]


def taught(folder: Path, method: str, monkeypatch: pytest.MonkeyPatch) -> Classifier:
    """Tasks of two, one and two classes."""
    shrink(monkeypatch)
    backbone = save_backbone(folder / "tiny.safetensors")
    model = Classifier(str(backbone), method, epochs=2, device="cpu")
    return model.learn(*noisy(["a", "b"], 6)).learn(*noisy(["c"], 6)).learn(*noisy(["d", "e"], 6))


# An export takes seconds: always those whose features or logits are unlike any other's.
USUAL = ["dualprompt", "ranpac"]
OTHERS = [name for name in METHODS if name not in (*USUAL, "joint")]
OTHERS += ["oneprompt+vor", "linear+vor"]


@pytest.mark.parametrize(
    "method", [*USUAL, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)]
)
def test_every_method(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = taught(tmp_path, method, monkeypatch)
    export_onnx(model, tmp_path / "m.onnx")
    theirs = OnnxClassifier.load(tmp_path / "m.onnx")
    assert_same(model, theirs, SIX)
    assert theirs.predict(SIX).tolist() == model.predict(SIX).tolist()


@pytest.mark.filterwarnings("error:Initializing zero-element tensors")
def test_a_forgotten_task_from_a_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the only class of a task, bundle, load without the backbone's file, export."""
    model = taught(tmp_path, "oneprompt+vor", monkeypatch)
    model.forget("c")
    model.forget("a")
    model.save(tmp_path / "m.ovor", bundle=True)
    Path(model.backbone).unlink()
    done = ovor("export", tmp_path / "m.ovor", tmp_path / "m.onnx", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    assert said["classes"] == 3
    assert said["difference"] < 1e-4
    assert said["bytes"] == (tmp_path / "m.onnx").stat().st_size
    theirs = OnnxClassifier.load(tmp_path / "m.onnx")
    assert theirs.task_sizes_ == [1, 0, 2]
    assert theirs.classes_.tolist() == ["b", "d", "e"]
    assert_same(Classifier.load(tmp_path / "m.ovor"), theirs, SIX)


# --- what it says


def test_metadata(model: Classifier, exported: Path, theirs: OnnxClassifier) -> None:
    proto = onnx.load(exported)
    onnx.checker.check_model(proto)
    about = json.loads({entry.key: entry.value for entry in proto.metadata_props}["ovor"])
    assert about == theirs.about == describe(model, model.transform())
    assert about["tasks"] == [list(task) for task in TASKS]
    assert about["method"] == "analytic"
    assert about["backbone"]["sha256"] == model.network().sha256
    assert about["preprocessing"]["size"] == 28
    assert about["preprocessing"]["resize"].startswith("shorter side to 28,")
    assert theirs.classes_.tolist() == CLASSES
    assert theirs.task_sizes_ == [3, 2, 1]


def test_no_path_of_this_machine_is_inside(exported: Path) -> None:
    assert str(Path(onnx_export.__file__).parent).encode() not in exported.read_bytes()


def test_shapes(exported: Path) -> None:
    graph = onnx.load(exported).graph

    def shape(value: Any) -> list[Any]:
        return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]

    (images,) = graph.input
    logits, margins = graph.output
    assert (images.name, logits.name, margins.name) == ("images", "logits", "margins")
    batch = shape(images)[0]
    assert isinstance(batch, str)
    assert shape(images) == [batch, 3, 28, 28]
    assert shape(logits) == [batch, 6]
    assert shape(margins) == [batch]


def test_names_in_any_script(small: Path, traced: Traced) -> None:
    theirs = OnnxClassifier.load(small)
    assert theirs.predict(traced.images).tolist() == NAMES
    assert_same(traced.model, theirs, traced.images)


# --- the command line


def test_predicts_without_torch(exported: Path, labelled: Path, model: Classifier) -> None:
    code = "import sys; from ovor.cli import main; main(); assert 'torch' not in sys.modules"
    done = in_new_process("predict", exported, labelled, "--json", code=code)
    assert (done.returncode, done.stderr) == (0, "")
    rows = json.loads(done.stdout)
    mine = model.classify([row["image"] for row in rows])
    assert [row["best"][0]["class"] for row in rows] == mine.labels.tolist()
    assert [row["unknown"] for row in rows] == mine.unknown.tolist()


def test_evaluates_as_the_model(
    exported: Path, model_file: Path, labelled: Path, strange: Path
) -> None:
    mine, other = (
        ovor("evaluate", path, labelled, "--unknown", strange, "--json")
        for path in (model_file, exported)
    )
    assert (other.returncode, other.stderr) == (0, "")
    assert json.loads(other.stdout) == json.loads(mine.stdout)


def test_export_prints_its_own_sentence_only(
    exporting: CompletedProcess[str], exported: Path
) -> None:
    megabytes = f"{exported.stat().st_size / 1e6:.1f}"
    assert exporting.stderr == ""
    assert exporting.stdout.startswith(f"{exported}: 6 classes, {megabytes} MB, equal to the model")
    assert exporting.stdout.count("\n") == 1


class Doubled(Exportable):
    """A graph that is quickly exported."""

    takes, gives = "x", ("y",)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


def test_nothing_is_said_of_packages_that_the_exporter_does_without(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who installs ovor for texts alone has no torchvision, and need not hear of it."""
    there = importlib.util.find_spec
    without = lambda name, *rest: None if name == "torchvision" else there(name, *rest)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", without)
    to_program(Doubled(), torch.zeros(2, 3))
    assert not [record.getMessage() for record in caplog.records if "torchvision" in record.msg]


def test_wrong_usage_of_export(model_file: Path, tmp_path: Path) -> None:
    for arguments in ((tmp_path / "m.ovor",), (tmp_path / "m.onnx", "--bundle")):
        done = ovor("export", model_file, *arguments)
        assert done.returncode == 2
        assert "--bundle" in done.stderr


# --- damage


def assert_refused(path: Path, match: str, content: bytes | None = None) -> None:
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(OvorError, match=match) as refused:
        OnnxClassifier.load(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("damage", "match"),
    [(flip, "damaged"), (truncate, "truncated"), (append, "damaged"), (prepend, "damaged")],
)
@settings(max_examples=75, deadline=None, suppress_health_check=[*HealthCheck])
@given(data=st.data())
def test_any_damage_is_found(
    damage: Damage, match: str, small: Path, tmp_path: Path, data: st.DataObject
) -> None:
    assert_refused(tmp_path / "m.onnx", match, damage(small.read_bytes(), data))


def test_what_is_no_export(small: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.onnx"
    assert_refused(path, "does not exist")
    unsealed = onnx.load(small).SerializeToString().replace(b"ovor-sha256", b"else-sha256")
    for content in (b"", unsealed):
        assert_refused(path, "not an export of ovor's", content)
    assert_refused(path, "onnxruntime .* cannot open", sealed(b"no model"))
    path.unlink()
    path.mkdir()
    assert_refused(path, "is a folder")
    done = ovor("predict", path, "a.png")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1


def test_formats_of_other_versions(small: Path, tmp_path: Path) -> None:
    proto = onnx.load(small)
    notes = {entry.key: json.loads(entry.value) for entry in proto.metadata_props[:1]}
    for about, match in (
        ({**notes["ovor"], "schema": 2}, "has the format 2.*: update ovor"),
        ({"kind": "else"}, "has the format None"),
    ):
        del proto.metadata_props[:]
        proto.metadata_props.add(key="ovor", value=json.dumps(about))
        assert_refused(tmp_path / "m.onnx", match, sealed(proto.SerializeToString()))


@pytest.mark.parametrize("name", ["\x1b[2J", "a\u202eb", "x" * 201, "", 7], ids=ascii)
def test_a_class_name_that_cannot_be_read_is_refused(
    small: Path, tmp_path: Path, name: object
) -> None:
    proto = onnx.load(small)
    about = json.loads(proto.metadata_props[0].value)
    about["tasks"][0][0] = name
    del proto.metadata_props[:]
    proto.metadata_props.add(key="ovor", value=json.dumps(about))
    match = "a class in it is called"
    assert_refused(tmp_path / "m.onnx", match, sealed(proto.SerializeToString()))


@pytest.mark.parametrize("package", ["onnxruntime", "onnxscript"])
def test_missing_packages_are_named(
    package: str, quick: Classifier, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(OvorError, match=rf"needs the package {package}.*ovor\[onnx\]"):
        export_onnx(quick, tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()
    if package == "onnxruntime":
        with pytest.raises(OvorError, match=r"needs the package onnxruntime: .*ovor\[onnx\]"):
            OnnxClassifier.load(small)
    else:
        OnnxClassifier.load(small)


# --- a failing export changes nothing


@pytest.mark.parametrize(
    ("broken", "with_what", "match"),
    [
        ("ovor.classifier.onnx_export.TOLERANCE", -1.0, "differs from the model"),
        ("ovor.classifier.onnx_export.LIMIT", 1000, "an ONNX file holds at most"),
        ("ovor.classifier.onnx_export.to_program", None, "cannot write this model as ONNX"),
        ("os.fsync", None, "not callable"),
    ],
)
def test_a_failing_export(
    broken: str,
    with_what: Any,
    match: str,
    quick: Classifier,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"the old file")
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(broken, with_what)
    with pytest.raises((OvorError, TypeError), match=match):
        export_onnx(quick, path)
    assert path.read_bytes() == b"the old file"
    assert sorted(tmp_path.iterdir()) == before


def test_there_must_be_a_folder(model_file: Path, tmp_path: Path) -> None:
    (tmp_path / "folder.onnx").mkdir()
    for arguments, match in (
        (("nowhere/m.onnx",), "There is no folder"),
        (("nowhere/m.ovor", "--bundle"), "There is no folder"),
        (("folder.onnx",), "is a folder"),
    ):
        done = ovor("export", model_file, tmp_path / arguments[0], *arguments[1:])
        assert done.returncode == 1
        assert match in done.stderr
        assert done.stderr.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["folder.onnx"]
    with pytest.raises(OvorError, match="There is no folder"):
        export_onnx(Classifier.load(model_file), tmp_path / "nowhere" / "m.onnx")
