"""`ovor unlearn`: images taken back out of a model."""

from dataclasses import dataclass

import ovor
from ovor.cli.arguments import (
    Debug,
    Device,
    Json,
    Label,
    LabelColumn,
    Model,
    MovedBackbone,
    OnError,
    Rename,
    Source,
    TextColumn,
    parse,
    renames,
)
from ovor.cli.changes import changed, show
from ovor.cli.counting import Counting
from ovor.data.task_data import check_kind, checked, labelled, renamed
from ovor.events import ImageChecked


@dataclass(frozen=True)
class UnlearnArguments:
    """Take the images or texts of SOURCE back out of MODEL, as if they had never been taught. It
    takes the very ones that were taught, with the same labels. A class that loses its last is gone.
    This cannot be undone.
    """

    model: Model
    """a model file; it is changed"""
    source: Source
    """as for `ovor learn`: a folder of class folders, a table, a zip, or with --label any images"""
    label: Label = None
    text_column: TextColumn = None
    label_column: LabelColumn = None
    rename: Rename = ()
    """classes that have other names in the model than their folders"""
    on_error: OnError = "stop"
    """at an image that cannot be read: stop, or list it and go on without it"""
    backbone: MovedBackbone = None
    device: Device = "auto"
    """where to compute"""
    json: Json = False
    debug: Debug = False


def unlearn_command(argv: list[str]) -> None:
    """Take images back, and print how many of each class are left."""
    arguments = parse(UnlearnArguments, argv)
    rename, notes = renames(arguments.rename), list[str]()
    with Counting("taking back") as listen:
        change = changed(
            arguments.model,
            arguments.backbone,
            arguments.device,
            lambda model: notes.extend(take_back(model, arguments, rename, listen)),
        )
    taken = sum(old - new for old, new in change.differing.values())
    words = (
        f"Took {change.words.count(taken)} back out of {change.path}: {change.in_words()}.\n"
        "Copies and exports that were made before still have them."
    )
    show({**change.as_json(), "taken": taken, "notes": notes}, words, arguments.json)


def take_back(
    model: "ovor.Classifier", arguments: UnlearnArguments, rename: dict[str, str], listen: Counting
) -> tuple[str, ...]:
    """Take the images back; returns what the user should know of it, and prints that."""
    model.exact("unlearn")  # nobody should wait for all images to hear that it cannot
    columns = (arguments.text_column, arguments.label_column)
    check_kind(arguments.source, model.reads, columns)
    groups, notes = model.reads.labelled(arguments.source, arguments.label, "train", columns)
    lesson = labelled(renamed(groups, rename), notes, model.reads)
    event = ImageChecked(total=len(lesson.images))
    lesson = checked(lesson, arguments.on_error, lambda _: listen(event))
    for note in lesson.notes:
        listen.bar.console.print(note, highlight=False, soft_wrap=True, markup=False)
    names = [lesson.class_names[label] for label in lesson.images.labels]
    model.unlearn(lesson.images.items, names, listen=listen)
    return lesson.notes
