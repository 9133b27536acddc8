"""The file of a growing classifier: prompts and heads, and in words what they are.

One safetensors file with a digest of all its content. It holds no image and no feature, so its size
does not depend on how many images were learned.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from filelock import FileLock, Timeout
from pydantic import ConfigDict, Field, FiniteFloat, NonNegativeInt, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked
from torch import Tensor

from ovor.config import STRICT, Count, Fraction, Run
from ovor.errors import OvorError, explain
from ovor.tensor_file import load_tensors, save_tensors

SCHEMA = 1
KIND = "ovor classifier"
LEARNER, BUNDLED = "learner.", "backbone."  # names of tensors begin so


@checked(frozen=True, config=STRICT)
class Learned:
    """What is remembered of a task besides its weights."""

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
class Network:
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
    backbone: Network
    tasks: tuple[Learned, ...]
    false_alarms: Fraction
    hold_out: Annotated[float, Field(ge=0, lt=1)]

    def __post_init__(self) -> None:
        names = [name for task in self.tasks for name in task.classes]
        if len(set(names)) != len(names):
            raise ValueError("two classes have the same name")


@dataclass(frozen=True)
class Model:
    about: Description
    state: dict[str, Tensor]
    """of the learner"""
    backbone: dict[str, Tensor]
    """empty if it is not bundled"""


DESCRIPTION = TypeAdapter(Description)


def write_model(path: Path, model: Model) -> None:
    about: dict[str, Any] = DESCRIPTION.dump_python(model.about, mode="json")
    tensors = {LEARNER + name: x for name, x in model.state.items()}
    tensors |= {BUNDLED + name: x for name, x in model.backbone.items()}
    save_tensors(path, tensors, {"kind": KIND, "schema": SCHEMA, "about": about})


def read_model(path: Path) -> Model:
    check_no_folder(path)
    if not path.exists():
        raise OvorError(
            f"There is no model {path}: check the name, or make it with `ovor learn {path} FOLDER`."
        )
    tensors, meta = load_tensors(path)
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
    prefixes = (LEARNER, BUNDLED) if about.backbone.bundled else (LEARNER,)
    strange = [name for name in tensors if not name.startswith(prefixes)]
    if strange:
        raise OvorError(f"{path} holds weights of nothing ({strange[0]!r}): learn it anew.")
    learner, backbone = (
        {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        for prefix in (LEARNER, BUNDLED)
    )
    return Model(about, learner, backbone)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """While this process changes the model, no other may."""
    check_place(path)
    real = real_path(path)
    lock = FileLock(real.parent / f".{real.name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise OvorError(
            f"Another process is changing {path}: wait until it is done, and try again."
        ) from None
    except OSError as error:
        raise OvorError(
            f"The folder of {path} cannot be written to ({error.strerror}): change its "
            "permissions, or put the model elsewhere."
        ) from error
    try:
        yield
    finally:
        Path(lock.lock_file).unlink(missing_ok=True)  # while it is held, so that nobody else has it
        lock.release()


def unfinished(path: Path) -> Path:
    """Where a lesson for this model is kept while it goes on."""
    real = real_path(path)
    return real.parent / f"{real.name}.learning"


def check_finished(path: Path) -> None:
    if unfinished(path).exists():
        raise OvorError(
            f"A lesson of {path.name} was begun on the command line and is unfinished: finish it "
            "first (ovor learn --resume), or throw it away (--restart)."
        )


def real_path(path: Path) -> Path:
    """Of a link the file that it leads to: a model is one, by whatever name it is reached."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def check_place(path: Path) -> None:
    """Can a model be there?"""
    check_no_folder(path)
    parent = real_path(path).parent
    if not parent.is_dir():  # the lock would make it
        raise OvorError(f"There is no folder {parent}: make it first.")


def check_no_folder(path: Path) -> None:
    if path.is_dir():
        raise OvorError(
            f"{path} is a folder: give the name of a model file, such as {path / 'model.ovor'}."
        )
