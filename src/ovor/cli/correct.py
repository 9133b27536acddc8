"""`ovor correct`: images or texts that count as another class from now on."""

from dataclasses import dataclass
from typing import Annotated

import tyro

import ovor
from ovor.cli.arguments import (
    Debug,
    Device,
    Json,
    Model,
    MovedBackbone,
    TextColumn,
    optional,
    parse,
)
from ovor.cli.asking import Yes, confirmed
from ovor.cli.changes import changed, show
from ovor.cli.counting import Counting
from ovor.cli.given_items import given_items
from ovor.data.modality import Item


@dataclass(frozen=True)
class CorrectArguments:
    """Tell MODEL what images, or texts, are that it got wrong. With --from they were taught as that
    class by mistake: they no longer count there. Without, they are taught as one more of --to.
    """

    model: Model
    """a model file; it is changed"""
    images: Annotated[tyro.conf.Positional[tuple[str, ...]], optional("ITEM ...")]
    """image files; folders, with all that is below them; - for paths on standard input; of texts
    as for `ovor predict`"""
    to: Annotated[str, tyro.conf.arg(metavar="CLASS")]
    """the class that they are of; it may be a new one"""
    origin: Annotated[str | None, tyro.conf.arg(name="from"), optional("CLASS")] = None
    """the class that they were taught as, if they were taught"""
    text_column: TextColumn = None
    yes: Yes = False
    backbone: MovedBackbone = None
    device: Device = "auto"
    """where to compute"""
    json: Json = False
    debug: Debug = False


def correct_command(argv: list[str]) -> None:
    """Count images as another class, and print what that changed."""
    arguments = parse(CorrectArguments, argv)
    to, origin, items = arguments.to, arguments.origin, list[Item]()

    def correct(model: "ovor.Classifier") -> None:
        found = given_items(arguments.images, model.reads, (arguments.text_column, None))
        items.extend(dict.fromkeys(found))  # each once
        confirmed(
            lambda yes: model.correct(items, to, from_=origin, yes=yes, listen=listen),
            arguments.yes,
            listen,
        )

    with Counting("correcting") as listen:
        change = changed(
            arguments.model,
            arguments.backbone,
            arguments.device,
            correct,
        )
    many = change.words.count(len(items))
    if origin is None:
        what = f"Taught {many} as {to!r}"
    else:
        what = f"Moved {many} from {origin!r} to {to!r}"
    found = {**change.as_json(), "images": len(items), "from": origin, "to": to}
    show(found, f"{what}: {change.in_words()}.", arguments.json)
