"""Splits that come as folders, train/CLASS and test/CLASS, with classes sorted by name.

ImageNet-A has no other; PILOT's and RevisitingCIL's of ImageNet-R and CUB are not the paper's.
"""

from dataclasses import replace
from pathlib import Path

from ovor.data.base import Dataset
from ovor.data.folders import folder
from ovor.data.sources import Expected, Source, checked, held, split_in_folders, warn
from ovor.errors import OvorError

IMAGENET_A = Source(
    name="imagenet-a",
    places=("imagenet-a",),
    get="ImageNet-A as split by the authors of RevisitingCIL and LAMDA-PILOT, whose pages on "
    "GitHub link to it (the original, imagenet-a.tar of hendrycks/natural-adv-examples, has no "
    "split)",
    layout="imagenet-a/train/CLASS/*.jpg and imagenet-a/test/CLASS/*.jpg",
    expected=Expected(classes=200, train=5981, test=1519),
)
IMAGENET_R_PILOT = Source(
    name="imagenet-r:pilot",
    places=("imagenet-r",),
    get="ImageNet-R as split by the authors of LAMDA-PILOT, whose page on GitHub links to it",
    layout="imagenet-r/train/CLASS/*.jpg and imagenet-r/test/CLASS/*.jpg",
    expected=Expected(classes=200, train=24_000, test=6_000),
    holds_it=split_in_folders,
)
CUB_200_PILOT = Source(
    name="cub-200:pilot",
    places=("cub-200", "cub"),
    get="CUB-200 as split by the authors of RevisitingCIL and LAMDA-PILOT, whose pages on GitHub "
    "link to it",
    layout="cub-200/train/CLASS/*.jpg and cub-200/test/CLASS/*.jpg (or the same in cub)",
    expected=Expected(classes=200, train=9_430, test=2_358),
    holds_it=split_in_folders,
)


def imagenet_a(expected: Expected = IMAGENET_A.expected) -> Dataset:
    return train_and_test(IMAGENET_A, IMAGENET_A.find(), expected)


def imagenet_r_pilot(expected: Expected = IMAGENET_R_PILOT.expected) -> Dataset:
    return _not_the_papers(IMAGENET_R_PILOT, expected)


def cub_200_pilot(expected: Expected = CUB_200_PILOT.expected) -> Dataset:
    return _not_the_papers(CUB_200_PILOT, expected)


def _not_the_papers(source: Source, expected: Expected) -> Dataset:
    dataset = train_and_test(source, source.find(), expected)
    usual = source.name.removesuffix(":pilot")
    warn(
        f"{source.name} is another split, in another class order, than the paper's {usual}: "
        "its numbers are not comparable with the paper's."
    )
    return dataset


def train_and_test(source: Source, root: Path, expected: Expected) -> Dataset:
    if not ((root / "train").is_dir() and (root / "test").is_dir()):
        raise OvorError(
            f"{root} {held(root)} where the folders train and test of {source.name} were "
            f"expected: {source.advice()}."
        )
    try:
        dataset = folder(str(root))
    except OvorError as error:  # it advises on folders of one's own, where a class may go
        raise OvorError(f"{error} A whole {source.name} is not so: unpack it anew.") from error
    return checked(replace(dataset, name=source.name), expected, root)
