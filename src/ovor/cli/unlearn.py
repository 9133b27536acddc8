"""`ovor unlearn`: images taken back out of a model."""

from dataclasses import dataclass

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
    rename = renames(arguments.rename)
    with Counting("taking back") as listen:
        change = changed(
            arguments.model,
            arguments.backbone,
            arguments.device,
            lambda model: model.unlearn(
                arguments.folder, rename=rename, on_error=arguments.on_error, listen=listen
            ),
        )
    taken = sum(old - new for old, new in change.differing.values())
    words = (
        f"Took {images(taken)} back out of {change.path}: {change.in_words()}.\n"
        "Copies and exports that were made before still have them."
    )
    show({**change.as_json(), "taken": taken}, words, arguments.json)
