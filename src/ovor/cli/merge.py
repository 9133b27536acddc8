"""`ovor merge`: one model of several that were taught apart."""

import os
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

import ovor
from ovor.classifier.lock import check_finished, locked
from ovor.cli.arguments import Debug, Json, MovedBackbone, optional, parse
from ovor.cli.asking import Yes, confirmed
from ovor.cli.changes import counts_of, show
from ovor.cli.exits import wrong_usage
from ovor.data.class_names import listed
from ovor.data.modality import Words
from ovor.errors import OvorError


@dataclass(frozen=True)
class MergeArguments:
    """Write the model that one would have who had been taught all that these models were taught,
    without any of their images or texts. A class that several know adds up.
    """

    out: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="OUT")]
    """the file to write; it must not exist, unless it is one of the models"""
    models: Annotated[tyro.conf.Positional[tuple[Path, ...]], optional("A B ...")] = ()
    """two model files or more, of the same backbone"""
    yes: Yes = False
    backbone: MovedBackbone = None
    json: Json = False
    debug: Debug = False


def merge_command(argv: list[str]) -> None:
    """Merge model files into one, and say what it knows."""
    arguments = parse(MergeArguments, argv)
    out, paths = arguments.out, arguments.models
    if len(paths) < 2:
        sys.exit(wrong_usage("ovor: Name a file to write and two models or more: OUT A B."))
    with locked(out):
        check_files(out, paths)
        # The one that is written takes the others in, so that it can be undone.
        order = sorted(paths, key=lambda path: real(path) != real(out))
        models = [opened(path, arguments.backbone) for path in order]
        known, twice = [counts_of(model) for model in models], seen_twice(models)
        once = any(model.about().once for model in models)
        if not out.exists():
            models[0].at(out)
        merged = confirmed(lambda yes: models[0].merge(*models[1:], yes=yes), arguments.yes)
        merged.save(out)
    after = counts_of(merged)
    found = {
        "model": str(out),
        "merged": [str(path) for path in paths],
        "images": after,
        "shared": [name for name in after if sum(name in counts for counts in known) > 1],
        "twice": twice,
        "once": merged.about().once,
        "classes": list(after),
        "reads": merged.reads.many,
    }
    show(
        found,
        in_words(found, merged.reads.words, digests_dropped=once and not found["once"]),
        arguments.json,
    )


def opened(path: Path, backbone: str | None) -> "ovor.Classifier":
    """Return the model of a file, or say that its kind cannot be merged."""
    model = ovor.Classifier.load(path, backbone=backbone, device="cpu")
    try:
        model.exact("merge")
    except OvorError as error:
        raise OvorError(f"{path}: {error}") from error
    return model


def seen_twice(models: "list[ovor.Classifier]") -> int:
    """Count the images that more than one model was taught, as far as they keep digests."""
    kept = Counter(key for model in models for key in model.memory().digests or ())
    return sum(count > 1 for count in kept.values())


def check_files(out: Path, paths: tuple[Path, ...]) -> None:
    """Refuse to overwrite what would be lost, to count a model twice, and unfinished lessons."""
    files = [real(path) for path in paths]
    for path in paths:
        if files.count(real(path)) > 1:
            raise OvorError(
                f"{path} is named twice, and what it learned would count twice: name it once."
            )
        check_finished(path)
    if out.exists() and real(out) not in files:
        raise OvorError(
            f"{out} exists already, and is none of the models to merge: remove it, or choose "
            "another name."
        )


def real(path: Path) -> str:
    """Return the one path of a file, by whatever name it is reached."""
    return os.path.realpath(path)


def in_words(found: dict[str, Any], each: Words, digests_dropped: bool) -> str:
    """Return what the merged model knows, in sentences."""
    *some, last = found["merged"]
    counts = found["images"]
    words = (
        f"{found['model']} knows what {', '.join(some)} and {last} know: {len(counts)} classes by "
        f"{each.count(sum(counts.values()))}."
    )
    if found["shared"]:
        words += f"\nIn more than one of them, and added up: {listed(found['shared'])}."
    if found["twice"]:
        words += (
            f"\nTaught to more than one of them, and counted twice: {each.count(found['twice'])}."
        )
    if digests_dropped:
        words += "\nNot all of them keep digests (--once), so it keeps none."
    return words
