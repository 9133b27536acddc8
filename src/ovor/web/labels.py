"""Names of classes that clients give: written and checked as everywhere, and asked about."""

from collections.abc import Sequence

from ovor.data.class_names import alike, as_name, ask, check_name, listed
from ovor.errors import OvorError
from ovor.web.bodies import MAX_LABEL
from ovor.web.errors import Refused
from ovor.web.predictor import ServedModel


def checked_labels(given: Sequence[str], served: ServedModel, yes: bool) -> list[str]:
    """Return the classes that images are to be taught as, or say which cannot be."""
    labels = [checked_name(label, "A label") for label in given]
    check_alike(labels, served.classes, yes)
    known = sorted(set(labels) & set(served.classes))
    if known and not served.exact:
        raise Refused(
            422,
            f"{listed(known)} {'is' if len(known) == 1 else 'are'} learned already, and a class "
            "cannot be learned twice: leave it out, or choose another name.",
        )
    return labels


def checked_name(given: str, what: str) -> str:
    """Return a name as it is written everywhere, or say why it is none."""
    if len(given) > MAX_LABEL:
        raise Refused(422, f"{what} is longer than {MAX_LABEL} characters: choose a shorter name.")
    name = as_name(given)
    try:
        check_name(name, "choose another name", "choose another name")
    except OvorError as error:
        raise Refused(422, str(error)) from error
    return name


def known_name(given: str, served: ServedModel) -> str:
    """Return the name of a class that there is."""
    name = as_name(given)
    if name not in served.classes:
        known = f"the model knows {listed(served.classes)}" if served.classes else "it knows none"
        raise Refused(404, f"There is no class {name[:MAX_LABEL]!r}: {known}.")
    return name


def check_alike(names: Sequence[str], known: Sequence[str], yes: bool) -> None:
    """Ask about new names that differ from others only by case or look."""
    pairs = [] if yes else alike(names, known)
    if pairs:
        remedy = "If they are one, use the same name; if they are two, say so (yes=true)."
        raise Refused(409, f"{ask(pairs)} {remedy}", alike=pairs)
