"""`ovor unlearn`: images taken back out of a model."""

from dataclasses import dataclass

import ovor
from ovor.cli.arguments import (
    Debug,
    Device,
    Folder,
    Json,
    Model,
    MovedBackbone,
    OnError,
    Rename,
    parse,
    renames,
)
from ovor.cli.changes import changed, images, show
from ovor.cli.counting import Counting
from ovor.data.images import at_home
from ovor.data.task_data import checked, from_folder, labelled, renamed
from ovor.events import ImageChecked


@dataclass(frozen=True)
class UnlearnArguments:
    """Take the images in FOLDER back out of MODEL, as if they had never been taught. It takes the
    very images that were taught, in folders of the same classes. A class that loses its last image
    is gone. This cannot be undone.
    """

    model: Model
    """a model file; it is changed"""
    folder: Folder
    """one sub-folder of images per class, as for `ovor learn`"""
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
        f"Took {images(taken)} back out of {change.path}: {change.in_words()}.\n"
        "Copies and exports that were made before still have them."
    )
    show({**change.as_json(), "taken": taken, "notes": notes}, words, arguments.json)


def take_back(
    model: "ovor.Classifier", arguments: UnlearnArguments, rename: dict[str, str], listen: Counting
) -> tuple[str, ...]:
    """Take the folder's images back; returns what the user should know of it, and prints that."""
    model.exact("unlearn")  # nobody should wait for all images to hear that it cannot
    groups, others = from_folder(at_home(arguments.folder))
    lesson = labelled(renamed(groups, rename), others)
    event = ImageChecked(total=len(lesson.images))
    lesson = checked(lesson, arguments.on_error, lambda _: listen(event))
    for note in lesson.notes:
        listen.bar.console.print(note, highlight=False, soft_wrap=True, markup=False)
    names = [lesson.class_names[label] for label in lesson.images.labels]
    model.unlearn(lesson.images.items, names, listen=listen)
    return lesson.notes
