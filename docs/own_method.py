"""What was tried for a method of our own, on development data alone: docs/results/own-method.json.

python -m docs.own_method                 every part
python -m docs.own_method ideas few       only these; the others' figures stay, and so do those of
                                          ideas that were measured (remove them from the file)
python -m docs.own_method photographs --package FILE

Parts: ideas (each against `analytic`, on the drawings of `quickdraw-dev`, all 100 of a class in
five folds, each a test once), few (images of a class), photographs (CIFAR-10's training images, 100
of a class learned and 100 others asked, five draws; docs/photos.py), held (photographs that none of
these draws has), claims (what the network for photographs says by its own classes, read too),
unequal (the drawings, 5 to 80 of a class learned; ten minutes), tuning (the first task tunes the
network; ten minutes), halves (more readings and kernels, chosen on 22 of the development classes
and confirmed on the other 23), carried (adapters tuned on every task; ten minutes). No figure is of
a benchmark class.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import fmean, pstdev
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from PIL import Image

from docs import photo_settings
from docs.cifar_10 import CLASSES, Photographs, fetched, load
from docs.features import accuracy
from docs.own_carried import measured as carried
from docs.own_ideas import (
    FOLDS,
    TOKENS,
    Fold,
    Idea,
    Pools,
    analytic,
    closed_form,
    clusters,
    folds,
    kernel,
    shapes,
    together,
    voted,
    with_more,
    without,
)
from docs.own_kernels import Readings, by_kernel, gaussian, linear, readings
from docs.own_unequal import (
    claims,
    half_as_long,
    spanned,
    split,
    uncertain,
    uncorrected,
    unequal,
    with_claims,
)
from ovor import Classifier
from ovor.data.images import Pictures
from ovor.data.loader import test_batches
from ovor.data.transforms import normalised
from ovor.encoders import load_backbone
from ovor.experiments.folder import Folder
from ovor.experiments.runner import execute
from ovor.learners import build_learner
from ovor.learners.shapes import Shapes
from ovor.presets import settings

FILE = Path(__file__).parent / "results/own-method.json"
SIZES = (5, 10, 20, 40)
SPREAD = ("class", "mean", "deviation")  # as shapes reads each depth


def measured(idea: Idea, parts: list[Fold]) -> list[float]:
    return [round(accuracy(idea(fold), fold.truth), 3) for fold in parts]


def ideas() -> dict[str, list[float]]:
    """Return the accuracy of every idea in each fold; those that have figures already keep them."""
    pools, embedded = Pools(), load_backbone("embedded").vit
    usual, spread = pools.read(), pools.read(SPREAD)
    kept_one = shapes(pools.read(SPREAD, fading=1.0), embedded)

    def shaped(**options: Any) -> Idea:
        return shapes(pools.read(SPREAD, fading=1.0), embedded, **options)

    def views(*changes: Callable[[Any], Any]) -> Idea:
        seen: list[Any] = []  # made when first asked for, and for all folds

        def ask(fold: Fold) -> Any:
            seen.extend([] if seen else [Pools(one).read() for one in changes])
            return with_more(usual, *seen)(fold)

        return ask

    def flip(image: Image.Image) -> Image.Image:
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)

    unfaded = pools.read(fading=1.0)  # as these methods read four depths in the field
    fourier = closed_form("klda", unfaded, embedded, projection=4000)
    shrunk = closed_form("randumb", unfaded, embedded)
    tried: dict[str, Idea] = {
        "analytic": analytic(usual),
        "shapes": kept_one,
        "deviations of the patches alone": analytic(spread),
        "shapes without deviations": without(kept_one, analytic(spread), analytic(usual)),
        "shapes, one for all": shaped(trust=1e9),
        "shapes, a class's own by four fifths": shaped(trust=20.0),
        "distances by shape alone": shaped(weight=1e6),
        "a third of the ridge": analytic(usual, 1 / 3),
        "three times the ridge": analytic(usual, 3.0),
        "three ridges together": together(*(analytic(usual, r) for r in (0.1, 1.0, 10.0))),
        "flipped drawings too": views(flip),
        "six depths": analytic(pools.read(blocks=(0, 1, 2, 3, 4, 5))),
        "KLDA of the same depths": fourier,
        "analytic and KLDA together": voted(analytic(usual), fourier),
        "shapes and KLDA together": voted(kept_one, fourier),
        "RanDumb of the same depths": shrunk,
        "shapes and RanDumb together": voted(kept_one, shrunk),
        "drawings turned by 10 degrees too": views(turned(-10), turned(10)),
        "two clusters a class": clusters(usual, 2),
        "a Gaussian kernel": kernel(usual, 0.1, 0.01),
        "maximum and deviation of the patches too": analytic(pools.read(TOKENS[:4])),
    }
    parts, found = folds(pools.labels), kept().get("ideas", {})
    for name, idea in tried.items():
        if name not in found:
            found[name] = measured(idea, parts)
            keep("ideas", found)
            print(f"{name}: {fmean(found[name]):.2f}", flush=True)
    return {name: found[name] for name in tried}


def turned(degrees: float) -> Callable[[Any], Any]:
    return lambda image: image.rotate(degrees, Image.Resampling.BILINEAR)


def kept() -> dict[str, dict[str, list[float]]]:
    """Return what was measured before."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}  # type: ignore[no-any-return]


def keep(part: str, values: dict[str, list[float]]) -> None:
    """Write down a part; the others stay."""
    FILE.write_text(json.dumps({**kept(), part: values}, indent=1) + "\n")


def few() -> dict[str, list[float]]:
    """Return how analytic and shapes do with few images of a class."""
    pools, embedded = Pools(), load_backbone("embedded").vit
    usual, unfaded = pools.read(), pools.read(SPREAD, fading=1.0)
    found = {}
    for each in SIZES:
        parts = folds(pools.labels, each)
        found[f"analytic, {each}"] = measured(analytic(usual), parts)
        found[f"shapes, {each}"] = measured(shapes(unfaded, embedded), parts)
    return found


def photographs(package: Path | None) -> dict[str, list[float]]:
    """Return how both do on photographs that a test has never seen: CIFAR-10's training images."""
    train, _ = load(fetched(package))
    learner, transform = reader()
    encoder = learner.backbone
    found: dict[str, list[float]] = {}
    for seed in range(FOLDS):
        chosen = train.chosen(list(range(len(CLASSES))), 200, seed)
        labels = np.repeat(np.arange(10), 200)
        features, truth = encoded(learner, transform, chosen.images(), labels)
        within = torch.arange(200).repeat(10)
        fold = Fold(truth, torch.nonzero(within < 100)[:, 0], torch.nonzero(within >= 100)[:, 0])
        means, deviations = apart(learner, features * learner.lengths)
        plain = analytic(means.double())
        unfaded = apart(learner, features)[0].double()
        options = {**photo_settings.run_of("klda").options, "projection": 4000}
        fourier = closed_form("klda", unfaded, encoder, **options)
        tried = {
            "analytic": plain,
            "shapes": shapes(features.double(), encoder),
            "deviations in place of means": analytic(deviations.double()),
            "a Gaussian kernel": by_kernel(gaussian(linear(means), 0.3)),
            "KLDA of the same depths": fourier,
            "analytic and KLDA together": voted(plain, fourier),
        }
        for name, idea in tried.items():
            found.setdefault(name, []).extend(measured(idea, [fold]))
            print(f"{name}, draw {seed}: {found[name][-1]:.2f}", flush=True)
    return found


def held(package: Path | None) -> dict[str, list[float]]:
    """Return how both do on the training photographs that none of the draws above has.

    In three parts of each class, of which one is learned and the others are asked.
    """
    train, _ = load(fetched(package))
    learner, transform = reader()
    everything = list(range(len(CLASSES)))
    drawn = [train.chosen_numbers(everything, 200, seed) for seed in range(FOLDS)]
    rest = np.setdiff1d(np.arange(len(train.labels)), np.concatenate(drawn))
    rest = np.concatenate([rest[train.labels[rest] == c][:300] for c in everything])
    left = Photographs(train.pixels[rest], train.labels[rest])
    features, truth = encoded(learner, transform, left.images(), left.labels)
    within = torch.cat([torch.arange(int((truth == c).sum())) for c in everything])
    parts = [
        Fold(truth, torch.nonzero(own)[:, 0], torch.nonzero(within % 3 != part)[:, 0])
        for part in range(3)
        for own in [(within % 3 == part) & (within < 270)]
    ]
    means, _ = apart(learner, features * learner.lengths)
    tried = {
        "analytic": analytic(means.double()),
        "shapes": shapes(features.double(), learner.backbone),
    }
    return {name: measured(idea, parts) for name, idea in tried.items()}


def with_own_classes(package: Path | None) -> dict[str, list[float]]:
    """Return what it brings to read the classifier that the network was trained with.

    On the draws of `photographs`, with all images learned and with 5 to 80 of a class.
    """
    train, _ = load(fetched(package))
    learner, transform = reader()
    found: dict[str, list[float]] = {}
    for seed in range(FOLDS):
        chosen = train.chosen(list(range(len(CLASSES))), 200, seed)
        features, truth = encoded(learner, transform, chosen.images(), chosen.labels)
        features = (features * learner.lengths).double()
        said = claims(learner.backbone, transform, chosen.images())
        tried = {
            "analytic": spanned(apart(learner, features)[0]),
            "shapes": spanned(features),
            "shapes and own logits": spanned(with_claims(features, said.clamp(min=1e-30).log())),
            "shapes and own probabilities": spanned(with_claims(features, said)),
            "shapes and their square roots": spanned(with_claims(features, said.sqrt())),
        }
        fold = split(truth)
        for size, parts in {"100": [fold], "5 to 80": unequal([fold])}.items():
            for name, idea in tried.items():
                found.setdefault(f"{name}, {size}", []).extend(measured(idea, parts))
        print({name: values[-1] for name, values in found.items()}, flush=True)
    return dict(sorted(found.items(), key=lambda row: row[0].rpartition(", ")[2] != "100"))


def of_unequal() -> dict[str, list[float]]:
    """Return what was tried where classes are unequal, on the drawings."""
    pools, embedded = Pools(), load_backbone("embedded").vit
    usual, spread = pools.read(), pools.read(SPREAD)
    unfaded = pools.read(fading=1.0)
    kept_one = shapes(pools.read(SPREAD, fading=1.0), embedded)
    fourier = closed_form("klda", unfaded, embedded, projection=4000)
    shrunk = closed_form("randumb", unfaded, embedded)
    tried: dict[str, Idea] = {
        "analytic": analytic(usual),
        "shapes": kept_one,
        "shapes, small classes as far as they seem": uncorrected(kept_one, embedded),
        "shapes without deviations": without(kept_one, analytic(spread), analytic(usual)),
        "deviations of the patches alone": spanned(spread),
        "deviations, half as long": spanned(half_as_long(spread, embedded)),
        "deviations, half the ridge": spanned(spread, 0.5),
        "deviations, twice the ridge": spanned(spread, 2.0),
        "uncertain means": uncertain(usual),
        "KLDA of the same depths": fourier,
        "shapes and KLDA together": voted(kept_one, fourier),
        "RanDumb of the same depths": shrunk,
        "shapes and RanDumb together": voted(kept_one, shrunk),
    }
    parts, found = unequal(folds(pools.labels)), {}
    for name, idea in tried.items():
        found[name] = measured(idea, parts)
        print(f"{name}: {fmean(found[name]):.2f}", flush=True)
    return found


def reader() -> tuple[Shapes, Any]:
    """Return `shapes` on the encoder for photographs, and how that is fed."""
    model = Classifier("photos")
    learner = build_learner("shapes", {}, model.network().encoder, nullcontext).eval()
    assert isinstance(learner, Shapes)
    return learner, model.transform()


def apart(learner: Shapes, features: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the means of all depths, and the deviations."""
    widths = [learner.backbone.spread_widths[depth] for depth in learner.read]
    halves = [depth.chunk(2, dim=1) for depth in features.split(widths, dim=1)]
    return tuple(torch.cat(part, dim=1) for part in zip(*halves, strict=True))


@torch.no_grad()
def encoded(learner: Shapes, transform: Any, images: list[Any], labels: Any) -> tuple[Any, Any]:
    """Return the features of photographs, and their labels."""
    pictures = Pictures(images, labels)
    batches = test_batches(
        pictures, np.arange(len(images)), labels, transform, batch_size=8, workers=0
    )
    found = [learner.features(normalised(pixels, transform)) for pixels, _ in batches]
    return torch.cat(found), torch.from_numpy(labels)


def tuning() -> dict[str, list[float]]:
    """Return analytic with a network that the first of five tasks tuned, by seed, and without."""
    found = {}
    for way in ("none", "adapter", "ssf"):
        usual = settings("quickdraw-dev", "analytic")
        run = replace(usual, options={**usual.options, "tuning": way}, threads=1)
        found[f"first task tunes: {way}"] = []
        for seed in range(FOLDS):
            with TemporaryDirectory() as folder:
                result = execute(replace(run, seed=seed), Folder(Path(folder)))
            found[f"first task tunes: {way}"].append(round(result["metrics"]["A_T"], 3))
    return found


def halves() -> dict[str, list[float]]:
    """Return more readings of the one pass, and kernels, on both halves of the classes."""
    found = {}
    for half, drawings in readings().halves().items():
        parts = folds(drawings.labels)
        for name, gram in more_readings(drawings):
            found[f"{name}, {half}"] = measured(by_kernel(gram), parts)
            keep("halves", found)
            print(f"{name}, {half}: {fmean(found[f'{name}, {half}']):.2f}", flush=True)
    return found


def more_readings(read: Readings) -> Iterator[tuple[str, torch.Tensor]]:
    """Return kernels by name, each made when it is its turn; gamma was chosen on the first half."""
    usual = read.usual
    yield "analytic", linear(usual)
    yield "a Gaussian kernel", gaussian(linear(usual), 0.3)
    yield "patches by attention too", linear(usual, read.attended)
    yield "a Gaussian kernel of these", gaussian(linear(usual, read.attended), 0.3)
    yield "random units of patches too", linear(usual, read.units)
    yield "products of patches too", linear(usual, read.products)
    everything = linear(usual, read.attended, read.units)
    yield "a Gaussian kernel of attention and units too", gaussian(everything, 0.1)


def as_markdown(part: dict[str, list[float]]) -> str:
    """Return a table of means and deviations, and of the differences to `analytic`.

    Or, where the rows are of several sizes, to `analytic` with as many images.
    """
    lines = ["|  | accuracy % | beside analytic |", "|---|---|---|"]
    for name, values in part.items():
        _, _, size = name.partition(", ")
        other = f"analytic, {size}" if f"analytic, {size}" in part else next(iter(part))
        apart = [a - b for a, b in zip(values, part[other], strict=True)]
        gain = "" if name == other else f"{fmean(apart):+.1f} ± {pstdev(apart):.1f}"
        lines.append(f"| {name} | {fmean(values):.1f} ± {pstdev(values):.1f} | {gain} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = (*OF_PHOTOGRAPHS, *PARTS)
    parser.add_argument("parts", nargs="*", help="some of " + ", ".join(names))
    parser.add_argument("--package", type=Path, help="a copy of the npm package's .tgz")
    arguments = parser.parse_args()
    for name in arguments.parts or names:
        of_them = OF_PHOTOGRAPHS.get(name)
        part = of_them(arguments.package) if of_them else PARTS[name]()
        keep(name, part)
        print(as_markdown(part))


OF_PHOTOGRAPHS = {"photographs": photographs, "held": held, "claims": with_own_classes}
PARTS: dict[str, Callable[[], dict[str, list[float]]]] = {
    "ideas": ideas,
    "few": few,
    "unequal": of_unequal,
    "tuning": tuning,
    "halves": halves,
    "carried": carried,
}

if __name__ == "__main__":
    main()
