"""How a checkpoint wants its images: their size, crop and scaling, and the pixels' mean and std.

It belongs to the weights. It is read where they say it, in the config.json of a timm repository, on
the hub or beside a file; else it is known by the family; else the commonest is taken, as a guess.
"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ovor.encoders.vit import Architecture
from ovor.errors import OvorError

Triple = tuple[float, float, float]  # red, green, blue
Interpolation = Literal["bilinear", "bicubic"]

CONFIG = "config.json"
UNNAMED = ("model", "pytorch_model")  # what the hub calls any file: its folder has the name
# DINOv2 was trained with 224 pixels, and with 518 for its last few steps only: five times the
# patches, and more than five times the time, for little.
FINISHED_AT, TRAINED_AT = 518, 224
LARGE = 256  # larger images are cropped less


@dataclass(frozen=True)
class Preprocessing:
    """How images become the input of a network."""

    size: int
    """side of the square input, unless another is asked for"""
    mean: Triple
    std: Triple
    crop_pct: float
    """the shorter side becomes size / crop_pct, then the centre is cropped"""
    interpolation: Interpolation
    said_by: str
    """where it is from, for people"""
    guessed: bool = False


@dataclass(frozen=True)
class Family:
    """Checkpoints that were trained with the same preprocessing."""

    name: str
    words: frozenset[str]
    """any of which, in the name of a file or a timm model, tells it"""
    mean: Triple
    std: Triple
    crop_pct: float = 0.9
    interpolation: Interpolation = "bicubic"

    def preprocessing(self, size: int, told_by: str) -> Preprocessing:
        """Return the family's preprocessing for a network that was made for this size."""
        return Preprocessing(
            size=fitting(size),
            mean=self.mean,
            std=self.std,
            crop_pct=1.0 if size > LARGE else self.crop_pct,
            interpolation=self.interpolation,
            said_by=f"{self.name}, known by its {told_by}",
        )


IMAGENET: tuple[Triple, Triple] = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
HALF: tuple[Triple, Triple] = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)
CLIP_PIXELS: tuple[Triple, Triple] = (
    (0.48145466, 0.4578275, 0.40821073),
    (0.26862954, 0.26130258, 0.27577711),
)
UNCHANGED: tuple[Triple, Triple] = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)

DINOV2 = Family("DINOv2", frozenset({"dinov2"}), *IMAGENET, crop_pct=1.0)
DEIT = Family("DeiT", frozenset({"deit", "deit3"}), *IMAGENET)
AUGREG = Family("AugReg", frozenset({"augreg", "augreg2", "in21k", "i21k", "flexivit"}), *HALF)
# As timm has them. The first whose word is in a name counts: MIIL's has "in21k" too.
FAMILIES = (
    Family("TIPS", frozenset({"tipsv2"}), *UNCHANGED, crop_pct=1.0),
    Family("MIIL", frozenset({"miil"}), *UNCHANGED, crop_pct=0.875, interpolation="bilinear"),
    DINOV2,
    Family("DINO", frozenset({"dino"}), *IMAGENET),
    Family("MAE", frozenset({"mae"}), *IMAGENET),
    Family("CLIP", frozenset({"clip", "openai"}), *CLIP_PIXELS),
    Family("SigLIP", frozenset({"siglip"}), *HALF),
    DEIT,
    AUGREG,
)


def of_efficientnet(size: int) -> Preprocessing:
    """Return what EfficientNet-Lite wants of images: it was trained with bytes less 127, over 128.

    Nothing is cut off the shorter side: what is at the edge of somebody's photograph may be what it
    shows (docs/encoders.md).
    """
    mean, std = 127 / 255, 128 / 255
    told_by = "EfficientNet-Lite, known by its tensors"
    return Preprocessing(size, (mean,) * 3, (std,) * 3, 1.0, "bicubic", told_by)


def find_preprocessing(path: Path, label: str, arch: Architecture) -> Preprocessing:
    """Return how the weights in a file want their images; `label` is what messages call it."""
    found = from_files(path, label, arch.image_size)
    if found:
        return found
    family = by_name(path, label)
    if family:
        return family.preprocessing(arch.image_size, "name")
    family = by_shape(arch)
    if family:
        return family.preprocessing(arch.image_size, "shape")
    return guess(arch.image_size)


def find_for_any(path: Path, label: str, size: int) -> Preprocessing:
    """Return how the weights of any network want their images, whose shape tells nothing."""
    family = by_name(path, label)
    known = family.preprocessing(size, "name") if family else guess(size)
    return from_files(path, label, size) or known


def guess(size: int) -> Preprocessing:
    """Return what most networks have."""
    common = DEIT.preprocessing(size, "")
    return replace(common, said_by="a guess, what most networks have", guessed=True)


def from_files(path: Path, label: str, size: int) -> Preprocessing | None:
    """Return what a file beside the weights says: one of their own name, or the hub's config.json.

    Other things are called config.json too. Such a one is passed over, and so is that of a network
    for images of another size: folders hold several.
    """
    own, shared = path.with_suffix(".json"), path.with_name(CONFIG)
    if said := read_config(own):
        return of_config({"input_size": size, **said}, f"{own.name} beside {label}")
    with suppress(OvorError):
        said = read_config(shared)
        found = said and of_config({"input_size": size, **said}, f"{CONFIG} beside {label}")
        return found if found and found.size == fitting(size) else None
    return None


def read_config(place: Path) -> dict[str, Any] | None:
    """Return what a timm config says of images, or a file by hand; None if it says nothing.

    By hand there need be no `pretrained_cfg` around it, and mean and std are enough.
    """
    if not place.is_file():
        return None
    try:
        content = json.loads(place.read_bytes())
    except ValueError as error:
        raise OvorError(f"{place} is not JSON ({error}); mend it, or remove it.") from error
    said = content.get("pretrained_cfg", content) if isinstance(content, dict) else None
    return said if isinstance(said, dict) and {"mean", "std"} <= said.keys() else None


def of_config(said: Mapping[str, Any], said_by: str) -> Preprocessing:
    """Return what a timm `pretrained_cfg` says; what it leaves out is as timm fills it in."""
    try:
        return Preprocessing(
            size=fitting(input_size(said["input_size"])),
            mean=triple(said["mean"], -100),
            std=triple(said["std"], 0.001),
            crop_pct=min(1.0, max(0.1, float(said.get("crop_pct") or 0.875))),
            interpolation="bilinear" if said.get("interpolation") == "bilinear" else "bicubic",
            said_by=said_by,
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise OvorError(
            f"{said_by} does not say how its images are made into numbers ({error}); write mean "
            "and std, each with three numbers, and input_size, or remove it."
        ) from error


def input_size(said: Any) -> int:
    """Return the side of the square input, which timm writes as 3, side, side."""
    return int(said[-1] if isinstance(said, list | tuple) else said)


def fitting(size: int) -> int:
    """Return the size to use of a network that was made for this one."""
    return TRAINED_AT if size == FINISHED_AT else size


def triple(numbers: Any, least: float) -> Triple:
    """Return three numbers, of which one may stand for all."""
    one_each = [numbers] * 3 if isinstance(numbers, int | float) else list(numbers)
    red, green, blue = map(float, one_each)
    if not all(least <= number <= 100 for number in (red, green, blue)):
        raise ValueError(f"{numbers} is out of bounds")
    return red, green, blue


def by_name(path: Path, label: str) -> Family | None:
    """Return the family whose name is in that of a file or a timm model."""
    if path.suffix == ".npz":  # the format of one family
        return AUGREG
    called = path.parent.name if Path(label).stem in UNNAMED else Path(label).name
    words = set(re.findall(r"[a-z0-9]+", called.lower()))
    return next((family for family in FAMILIES if family.words & words), None)


def by_shape(arch: Architecture) -> Family | None:
    """Return the family of a network that is built as only its are."""
    if arch.patch_size == 14 and (arch.image_size == FINISHED_AT or arch.registers == 4):
        return DINOV2
    if arch.layer_scale and not arch.registers:
        return replace(DEIT, name="DeiT III or DINOv2")
    return None


def doubt(found: Preprocessing, name: str) -> str:
    """Return the sentence for whoever begins a model with a network that says nothing."""
    path = Path(name.rpartition(":")[2])  # a kind of encoder may stand before it
    own = path.with_suffix(".json").name
    return (
        f"Nothing says which pixels {path.name} was trained with, so they are normalised as "
        f"most networks want it (mean {spaced(found.mean)}, std {spaced(found.std)}): if that is "
        f"wrong, write its own into a file {own} beside it, "
        'such as {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}, and learn anew.'
    )


def spaced(numbers: float | Triple) -> str:
    """Return one number or three as people write them."""
    each = numbers if isinstance(numbers, tuple) else (numbers,)
    return " ".join(f"{number:g}" for number in (each[:1] if len(set(each)) == 1 else each))
