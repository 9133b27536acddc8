"""`ovor undo`: a model as it was before its last change."""

from dataclasses import dataclass

from ovor.cli.arguments import Debug, Json, Model, MovedBackbone, parse
from ovor.cli.changes import changed, show


@dataclass(frozen=True)
class UndoArguments:
    """Bring MODEL back to what it was before its last change (learn, correct, rename, merge). One
    step back is kept, beside the model as MODEL.before. What was taken out on purpose (unlearn,
    forget) does not come back.
    """

    model: Model
    """a model file; it is changed"""
    backbone: MovedBackbone = None
    json: Json = False
    debug: Debug = False


def undo_command(argv: list[str]) -> None:
    """Undo the last change of a model file, and print what that brought back."""
    arguments = parse(UndoArguments, argv)
    change = changed(arguments.model, arguments.backbone, "cpu", lambda model: model.undo())
    what = f": {change.in_words()}" if change.differing else ""
    words = f"{change.path} is as it was before its last change{what}."
    show(change.as_json(), words, arguments.json)
