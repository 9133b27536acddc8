"""`ovor drawings`: images to practise on."""

import json
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from ovor.cli.arguments import Debug, Folder, Json, parse
from ovor.config import Count
from ovor.data.embedded import quickdraw, write_drawings


@dataclass(frozen=True)
class DrawingsArguments:
    """Folders of drawings (Quick, Draw! by Google, 28 x 28 pixels) to try ovor with."""

    folder: Folder
    """where the folders of the classes go; made if it does not exist"""
    classes: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="CLASS")] = ()
    """which to write; none prints the names that there are"""
    each: Count = 40
    """drawings of each class"""
    part: Literal["train", "test"] = "train"
    """80 drawings of a class are for training, 20 others for testing"""
    json: Json = False
    debug: Debug = False


def drawings_command(argv: list[str]) -> None:
    """Write embedded drawings as image files, a folder a class."""
    arguments = parse(DrawingsArguments, argv)
    written = write_drawings(
        quickdraw(), arguments.folder, arguments.classes, arguments.each, arguments.part
    )
    if arguments.json:
        print(json.dumps(written))
        return
    print(f"{arguments.folder}: {sum(written.values())} drawings of {', '.join(written)}")
