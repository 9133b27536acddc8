"""The file of a growing classifier: prompts and heads, and in words what they are.

One safetensors file with a digest of all its content. It holds no image and no feature, so its size
does not depend on how many images were learned.
"""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import ConfigDict, Field, FiniteFloat, NonNegativeInt, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked
from torch import Tensor

from ovor.classifier.lock import check_no_folder
from ovor.config import STRICT, Count, Fraction, Run
from ovor.encoders import Backbone, load_backbone
from ovor.encoders.weights import build
from ovor.errors import OvorError, explain
from ovor.learners import build_learner
from ovor.learners.base import Learner
from ovor.tensor_file import load_tensors, save_tensors

SCHEMA = 1
KIND = "ovor classifier"
LEARNER, BUNDLED = "learner.", "backbone."  # names of tensors begin so


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
class BackboneInfo:
    """Which backbone the weights belong to."""

    name: str
    source: str
    sha256: str
    bundled: bool = False
    """is it in the file?"""
    num_heads: int = 0
    """of its attention, which its tensors do not tell; 0: one per 64 of its width"""


@checked(frozen=True, config=ConfigDict(extra="forbid"))
class Description:
    """All that a model file says in words."""

    run: Run
    backbone: BackboneInfo
    tasks: tuple[TaskInfo, ...]
    false_alarms: Fraction
    hold_out: Annotated[float, Field(ge=0, lt=1)]

    def __post_init__(self) -> None:
        names = [name for task in self.tasks for name in task.classes]
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
    tensors = {LEARNER + name: x for name, x in model.state.items()}
    tensors |= {BUNDLED + name: x for name, x in model.backbone.items()}
    save_tensors(path, tensors, {"kind": KIND, "schema": SCHEMA, "about": about})


def read_model(path: Path) -> Model:
    """Return what the file holds; whatever is wrong with it becomes a sentence that names it."""
    check_no_folder(path)
    if not path.exists():
        raise OvorError(
            f"There is no model {path}: check the name, or make it with `ovor learn {path} FOLDER`."
        )
    tensors, meta = load_tensors(path)
    about = read_description(meta, path)
    prefixes = (LEARNER, BUNDLED) if about.backbone.bundled else (LEARNER,)
    strange = [name for name in tensors if not name.startswith(prefixes)]
    if strange:
        raise OvorError(f"{path} holds weights of nothing ({strange[0]!r}): learn it anew.")
    learner, backbone = (
        {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        for prefix in (LEARNER, BUNDLED)
    )
    return Model(about, learner, backbone)


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
        if any(tensor.dtype != torch.float32 for tensor in model.backbone.values()):
            raise OvorError(f"The backbone in {path} is not of 32-bit numbers: bundle it anew.")
        vit = build(model.backbone, wanted.num_heads or None, path.name)
        return Backbone(vit, wanted.name, wanted.source, wanted.sha256)
    try:
        found = load_backbone(elsewhere or wanted.name, model.about.run.num_heads or None)
    except OvorError as error:
        raise OvorError(
            f"{path} needs the backbone {wanted.name} (SHA-256 {wanted.sha256[:12]}): {error} "
            "Or say where it is now (--backbone)."
        ) from error
    if found.sha256 != wanted.sha256:
        raise OvorError(
            f"{path} was learned with other weights than {found.source} has: it needs "
            f"{wanted.source} with the SHA-256 {wanted.sha256[:12]}; say where that is "
            "(--backbone)."
        )
    return found


def learner_of(model: Model, backbone: Backbone, device: torch.device, path: Path) -> Learner:
    """Return the learner with the model's weights, ready to predict on the device."""
    run, arch = model.about.run, backbone.vit.arch
    if run.transform.size % arch.patch_size:
        raise OvorError(
            f"{path} wants images of {run.transform.size} pixels, which its backbone cannot part "
            f"into patches of {arch.patch_size}: learn it anew."
        )
    learner = build_learner(run.method, run.options, backbone.vit, nullcontext).to(device)
    for number, task in enumerate(model.about.tasks):
        learner.begin_task(len(task.classes), (run.seed, number))
    if outline(model.state) != outline(learner.learned_state()):
        raise OvorError(
            f"The weights in {path} do not fit its method, its classes and its backbone: learn it "
            "anew."
        )
    learner.load_learned_state(model.state)
    return learner.eval()


def outline(state: dict[str, Tensor]) -> dict[str, tuple[torch.Size, torch.dtype]]:
    """Return the name, shape and type of every tensor."""
    return {name: (tensor.shape, tensor.dtype) for name, tensor in state.items()}
