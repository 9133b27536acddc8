"""The file of a growing classifier: prompts and heads, and in words what they are.

One safetensors file with a digest of all its content. It holds no image and no feature, so its size
does not depend on how many images were learned.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from filelock import FileLock, Timeout
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked
from torch import Tensor

from ovor.checkpoint import load_tensors, save_tensors
from ovor.config import STRICT, Fraction, OvorError, Run, explain

SCHEMA = 1
KIND = "ovor classifier"
BUNDLED = "backbone."


@checked(frozen=True, config=STRICT)
class Learned:
    """What is remembered of a task besides its weights."""

    classes: tuple[str, ...]
    images: tuple[int, ...]
    """of each class, those held out included"""
    held_out: int
    """images that the threshold is from; 0: from those that were learned"""
    threshold: float
    """energy up to which the task claims an image"""


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
    tensors = {f"learner.{name}": x for name, x in model.state.items()}
    tensors |= {BUNDLED + name: x for name, x in model.backbone.items()}
    save_tensors(path, tensors, {"kind": KIND, "schema": SCHEMA, "about": about})


def read_model(path: Path) -> Model:
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise OvorError(f"The model {path} {what}: make one with `ovor learn {path} FOLDER`.")
    tensors, meta = load_tensors(path)
    if meta.get("kind") != KIND:
        raise OvorError(
            f"{path} is a file of ovor's, but not a classifier: give one that `ovor learn` made."
        )
    schema = meta.get("schema")
    if schema != SCHEMA:
        raise OvorError(
            f"{path} has the format {schema}, and this version of ovor reads {SCHEMA}: "
            + ("update ovor." if isinstance(schema, int) and schema > SCHEMA else "learn it anew.")
        )
    try:
        about = DESCRIPTION.validate_python(meta["about"])
    except (KeyError, ValidationError) as error:
        said = explain(error) if isinstance(error, ValidationError) else str(error)
        raise OvorError(f"{path} is not a model that this version knows: {said}.") from error
    parts = {
        prefix: {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        for prefix in ("learner.", BUNDLED)
    }
    return Model(about, parts["learner."], parts[BUNDLED])


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """While this process changes the model, no other may."""
    lock = path.with_name(f".{path.name}.lock")
    try:
        with FileLock(lock, timeout=0):
            yield
            lock.unlink(missing_ok=True)
    except Timeout:
        raise OvorError(
            f"Another process is changing {path}: wait until it is done, and try again."
        ) from None
    except FileNotFoundError:
        if path.parent.is_dir():
            raise
        raise OvorError(f"There is no folder {path.parent}: make it first.") from None


def unfinished(path: Path) -> Path:
    """Where a lesson for this model is kept while it goes on."""
    return path.with_name(f"{path.name}.learning")
