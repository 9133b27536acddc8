"""The file of a growing classifier: sums, prompts and heads, and in words what they are.

One safetensors file with a digest of all its content. It holds no image and no feature, so its size
hardly depends on how many images were learned.
"""

import math
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import ConfigDict, Field, FiniteFloat, NonNegativeInt, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked
from torch import Tensor

from ovor.classifier.lock import check_no_folder
from ovor.config import STRICT, Count, Fraction, Run
from ovor.data.class_names import check_stored
from ovor.data.formats import check_is_file
from ovor.data.modality import WORDS
from ovor.encoders import Backbone, load_backbone
from ovor.encoders.weights import build
from ovor.errors import OvorError, ended, explain
from ovor.learners import build_learner
from ovor.learners.base import Learner
from ovor.learners.moments import FEATURE_STEPS, MOMENTS, WEIGHT_STEPS, packed, unpacked
from ovor.tensor_file import load_tensors, save_tensors

SCHEMA = 1
KIND = "ovor classifier"
# Names of tensors begin so: of the learner, of what judges its answers, of the network.
LEARNER, JUDGE, BUNDLED = "learner.", "judge.", "backbone."
# Sums that are whole numbers of so small steps, and are packed as such.
PACKED = {"second": FEATURE_STEPS**2 * WEIGHT_STEPS, "sums": FEATURE_STEPS * WEIGHT_STEPS}


@checked(frozen=True, config=STRICT)
class TaskInfo:
    """What is remembered of a learned task besides its weights."""

    classes: tuple[str, ...]
    images: tuple[Count, ...]
    """of each class, those held out included"""
    held_out: NonNegativeInt
    """images that the threshold is from; 0: from those that were learned"""
    threshold: FiniteFloat
    """energy up to which the task claims an image"""
    accuracy: Annotated[float, Field(ge=0, le=100)] | None = None
    """percent of the images held out that were named right when it was learned, among all classes
    then; None if none was held out, or the file is older than this"""

    def __post_init__(self) -> None:
        if len(self.classes) != len(self.images):
            raise ValueError(
                f"there are {len(self.classes)} classes and {len(self.images)} numbers of images"
            )


@checked(frozen=True, config=STRICT)
class Expected:
    """What leave-one-out let expect of a class when its images last came."""

    expected: Annotated[float, Field(ge=0, le=100)] | None
    """percent of new images that are named right; None: a single image says nothing"""
    confused_with: tuple[str, ...] = ()
    """classes that it is taken for, the most frequent first"""


@checked(frozen=True, config=STRICT)
class BackboneInfo:
    """Which backbone the weights belong to."""

    name: str
    source: str
    sha256: str
    bundled: bool = False
    """is it in the file?"""
    num_heads: int = 0
    """of its attention, which its tensors do not tell; 0: one per 64 of its width"""
    reads: str = "images"
    """or texts"""

    def __post_init__(self) -> None:
        if self.reads not in WORDS:
            raise ValueError(f"its backbone reads {self.reads!r}, which this version does not know")


@checked(frozen=True, config=ConfigDict(extra="forbid"))
class Description:
    """All that a model file says in words."""

    run: Run
    backbone: BackboneInfo
    tasks: tuple[TaskInfo, ...]
    false_alarms: Fraction
    hold_out: Annotated[float, Field(ge=0, lt=1)]
    expected: dict[str, Expected] = field(default_factory=dict)
    """by class, in models of exact sums"""
    once: bool = False
    """are digests of learned images kept?"""
    lesson: str = ""
    """identifies the last lesson, so that it is not learned again by mistake"""
    before: str = ""
    """identifies the model that this one was made from, for undoing"""
    sums: bool = True
    """False: for predicting only, without what further learning needs"""

    def __post_init__(self) -> None:
        names = [name for task in self.tasks for name in task.classes]
        told = [n for name, known in self.expected.items() for n in (name, *known.confused_with)]
        for name in (*names, *told):
            check_stored(name)
        if len(set(names)) != len(names):
            raise ValueError("two classes have the same name")


@dataclass(frozen=True)
class Model:
    """The content of a model file."""

    about: Description
    state: dict[str, Tensor]
    """of the learner"""
    backbone: dict[str, Tensor]
    """empty if it is not bundled"""
    judge: dict[str, Tensor] = field(default_factory=dict)
    """distances, histograms and digests of a model of exact sums"""


@dataclass(frozen=True)
class Snapshot:
    """A classifier before it learns its next task."""

    run: Run
    backbone: Backbone
    tasks: tuple[TaskInfo, ...]
    state: dict[str, Tensor]
    """of the learner"""
    digest: str
    """changes with what was learned"""


DESCRIPTION = TypeAdapter(Description)


def write_model(path: Path, model: Model) -> None:
    """Write the file, or leave what was there."""
    about: dict[str, Any] = DESCRIPTION.dump_python(model.about, mode="json")
    exact = model.about.run.method == "analytic"
    tensors = {LEARNER + n: as_packed(n, x) if exact else x for n, x in model.state.items()}
    tensors |= {JUDGE + name: x for name, x in model.judge.items()}
    tensors |= {BUNDLED + name: x for name, x in model.backbone.items()}
    save_tensors(path, tensors, {"kind": KIND, "schema": SCHEMA, "about": about})


def read_model(path: Path) -> Model:
    """Return what the file holds; whatever is wrong with it becomes a sentence that names it."""
    check_no_folder(path)
    if not path.exists():
        raise OvorError(
            f"There is no model {path}: check the name, or make it with `ovor learn {path} FOLDER`."
        )
    check_is_file(path)
    tensors, meta = load_tensors(path)
    check_numbers(tensors, meta, path)
    about = read_description(meta, path)
    prefixes = (LEARNER, JUDGE, BUNDLED) if about.backbone.bundled else (LEARNER, JUDGE)
    strange = [name for name in tensors if not name.startswith(prefixes)]
    if strange:
        raise OvorError(f"{path} holds weights of nothing ({strange[0]!r}): learn it anew.")
    learner, judge, backbone = (
        {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        for prefix in (LEARNER, JUDGE, BUNDLED)
    )
    return Model(about, learner, backbone, judge)


def check_numbers(tensors: dict[str, Tensor], meta: Any, path: Path) -> None:
    """Refuse a file with a number that is none (NaN) or has no end: no answer could come of it."""
    wrong = [name for name, tensor in tensors.items() if not bool(tensor.isfinite().all())]
    if not wrong and not endless(meta):
        return
    where = f" in {wrong[0]!r}" if wrong else ""
    raise OvorError(
        f"{path} holds numbers that are not finite (NaN or infinity){where}, so it can answer "
        "nothing: put a good copy in its place, or learn it anew."
    )


def endless(value: Any) -> bool:
    """Tell whether a JSON value holds a number that is not finite, which Python reads from it."""
    if isinstance(value, dict):
        return any(map(endless, value.values()))
    if isinstance(value, list):
        return any(map(endless, value))
    return isinstance(value, float) and not math.isfinite(value)


def read_description(meta: dict[str, Any], path: Path) -> Description:
    """Return the words of a model file, checked."""
    if meta.get("kind") != KIND:
        raise OvorError(
            f"{path} is a file of ovor's, but not a classifier: give one that `ovor learn` made."
        )
    schema = meta.get("schema")
    if schema != SCHEMA:
        raise OvorError(
            f"{path} has the format {schema!r}, and this version of ovor reads {SCHEMA}: "
            + ("update ovor." if isinstance(schema, int) and schema > SCHEMA else "learn it anew.")
        )
    try:
        about = DESCRIPTION.validate_python(meta.get("about"))
    except ValidationError as error:
        raise OvorError(
            f"{path} does not say what a model must ({explain(error)}): learn it anew with this "
            "version of ovor."
        ) from error
    if not any(task.classes for task in about.tasks):
        raise OvorError(f"{path} knows no class: learn it anew.")
    return about


def backbone_of(model: Model, path: Path, elsewhere: str | None) -> Backbone:
    """Return the backbone that the model was learned with, or say which one is needed.

    `elsewhere` is where its weights are now, if not where they were.
    """
    wanted = model.about.backbone
    if wanted.bundled:
        # Besides weights there may be files, such as a tokenizer, as bytes.
        kinds = {tensor.dtype for tensor in model.backbone.values()}
        if not kinds <= {torch.float32, torch.uint8}:
            raise OvorError(f"The backbone in {path} is not of 32-bit numbers: bundle it anew.")
        encoder = build(model.backbone, wanted.num_heads or None, path.name)
        return Backbone(encoder, wanted.name, wanted.source, wanted.sha256)
    try:
        found = load_backbone(elsewhere or wanted.name, model.about.run.num_heads or None)
    except OvorError as error:
        raise OvorError(
            f"{path} needs the backbone {wanted.name} (SHA-256 {wanted.sha256[:12]}): "
            f"{ended(str(error))} Or say where it is now (backbone=...)."
        ) from error
    if found.sha256 != wanted.sha256:
        raise OvorError(
            f"{path} was learned with other weights than {found.source} has: it needs "
            f"{wanted.source} with the SHA-256 {wanted.sha256[:12]}; say where that is "
            "(backbone=...)."
        )
    return found


def learner_of(model: Model, backbone: Backbone, device: torch.device, path: Path) -> Learner:
    """Return the learner with the model's weights, ready to predict on the device."""
    run = model.about.run
    try:
        backbone.encoder.input_size(run.transform.size)
    except OvorError as error:
        raise OvorError(f"{path} does not fit its backbone, learn it anew: {error}") from error
    learner = build_learner(run.method, run.options, backbone.encoder, nullcontext).to(device)
    for number, task in enumerate(model.about.tasks):
        learner.begin_task(len(task.classes), (run.seed, number))
    own = learner.learned_state()
    expected = outline(own if model.about.sums else {n: own[n] for n in own if n not in MOMENTS})
    try:
        state = {n: as_sums(n, x, expected) for n, x in model.state.items()}
    except ValueError:
        state = {}
    if outline(state) != expected:
        raise OvorError(
            f"The weights in {path} do not fit its method, its classes and its backbone: learn it "
            "anew."
        )
    learner.load_learned_state(own | state)
    return learner.eval()


def as_packed(name: str, tensor: Tensor) -> Tensor:
    """Return a tensor of a learner as files have it; one that is from a file is so already."""
    if name in PACKED and tensor.dtype != torch.uint8:
        return packed(tensor, PACKED[name])
    return tensor


def as_sums(name: str, tensor: Tensor, expected: "Outline") -> Tensor:
    """Return a tensor of a learner as it was before the file packed it."""
    if name in PACKED and name in expected and tensor.dtype == torch.uint8:
        return unpacked(tensor, PACKED[name], expected[name][0])
    return tensor


Outline = dict[str, tuple[torch.Size, torch.dtype]]


def outline(state: dict[str, Tensor]) -> Outline:
    """Return the name, shape and type of every tensor."""
    return {name: (tensor.shape, tensor.dtype) for name, tensor in state.items()}
