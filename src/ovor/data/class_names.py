"""The one rule for class names: how they are written, which are refused, how they are listed."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

from ovor.data.look_alikes import forms
from ovor.errors import UNPRINTABLE, OvorError

UNKNOWN = "unknown"  # what an image is called that is like no class that was learned
LONGEST = 200  # characters of a name
# What takes no space, or looks like one. A file's name may have it: emoji are made with some.
UNSEEN = re.compile(
    r"[\xad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200d\u2060-\u2065\u206a-\u206f\u2800\u3164"
    r"\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f]"
)
Pairs = Sequence[tuple[str, str]]  # a name that was given, and one that is much like it


class AlikeNamesError(OvorError):
    """A name differs from a known one only by case or look: whoever gave it has to say what it is.

    `pairs` are the names, `question` asks whether they are two classes.
    """

    def __init__(self, pairs: Pairs, remedy: str = "yes=True") -> None:
        self.pairs, self.question = pairs, ask(pairs)
        super().__init__(
            f"{self.question} If they are one, use the same name; if they are two, say so "
            f"({remedy})."
        )


def as_name(text: str) -> str:
    """Return a text as class names are written: trimmed, and each accented letter one character.

    Some systems and keyboards make two of it (NFC makes it one).
    """
    whole = unicodedata.normalize("NFC", text)
    return whole.strip() or whole  # of blanks alone, for the sentence that refuses them


def folder_name(folder: Path) -> str:
    """Return the class name that a folder's name gives; refuse one that is not UTF-8."""
    try:
        folder.name.encode()
    except UnicodeEncodeError:
        shown = folder.name.encode("utf-8", "surrogateescape")
        raise OvorError(f"The folder {shown!r} has a name that is not UTF-8: rename it.") from None
    return as_name(folder.name)


def check_name(name: str, if_reserved: str, if_unreadable: str) -> None:
    """Refuse a name that means "no class", or that people cannot read or tell from another.

    The last two arguments are the advice that ends either sentence.
    """
    if wrong := unreadable(name):
        raise OvorError(f"A class cannot be called {shortened(name)}, {wrong}: {if_unreadable}.")
    if forms(name) & forms(UNKNOWN):
        raise OvorError(
            f"A class cannot be called {name!r}, which is the answer for what is of no class: "
            f"{if_reserved}."
        )


def check_stored(name: object) -> None:
    """Refuse a name in a file, which anybody may have made, that no class can have."""
    wrong = unreadable(name) if isinstance(name, str) else "which is no text"
    if wrong:
        raise ValueError(f"a class in it is called {shortened(str(name))}, {wrong}")


def unreadable(name: str) -> str | None:
    """Return why people could not read a name, as the end of a sentence, if they could not."""
    if not name.strip():
        return "which cannot be read on one line"
    if found := UNPRINTABLE.search(name) or UNSEEN.search(name):
        return (
            "which cannot be read on one line, as it has the character "
            f"U+{ord(found[0]):04X} ({kind(found[0])})"
        )
    if len(name) > LONGEST:
        return f"which has {len(name):,} characters, and at most {LONGEST} are allowed"
    return None


def kind(character: str) -> str:
    """Return in words what is wrong with a character of a name."""
    turning = ("L", "R", "AL", "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    if unicodedata.category(character) == "Cs":
        return "not UTF-8"
    if unicodedata.category(character) in ("Cc", "Zl", "Zp"):
        return "a control character"
    if unicodedata.category(character) == "Cf" and unicodedata.bidirectional(character) in turning:
        return "it changes the direction of the text"
    return "it cannot be seen"


def shortened(name: str) -> str:
    """Return a name in quotes with what cannot be seen written out; the beginning of a long one."""
    return repr(name) if len(name) <= LONGEST else f"{name[:40]!r}..."


def alike(given: Iterable[str], known: Iterable[str]) -> list[tuple[str, str]]:
    """Return pairs of a new name and a known one, or one given before it, that are much alike."""
    known = list(known)
    owners = {form: name for name in reversed(known) for form in forms(name)}
    found: dict[str, str] = {}
    for name in dict.fromkeys(given):
        own = forms(name)
        other = next((owners[form] for form in sorted(own) if form in owners), name)
        if name not in known and other != name:
            found[name] = other
        owners = dict.fromkeys(own, name) | owners
    return list(found.items())


def check_new_names(given: Iterable[str], known: Iterable[str], yes: bool) -> None:
    """Refuse new names that differ from others only by case or look, unless they may."""
    if not yes and (pairs := alike(given, known)):
        raise AlikeNamesError(pairs)


def ask(pairs: Pairs) -> str:
    """Return a question about names that are much alike, which shows the letters that are not."""
    shown = [f"{written(new)} and {written(known)}" for new, known in pairs[:3]]
    more = f" (and {len(pairs) - 3} more pairs)" if len(pairs) > 3 else ""
    return f"Are {'; '.join(shown)}{more} two classes? They differ only by case or look."


def written(name: str) -> str:
    """Quote a name, with its signs beyond ASCII written out, which may look like others."""
    return repr(name) if name.isascii() else f"{name!r} ({ascii(name)[1:-1]})"


def listed(names: Sequence[str]) -> str:
    """Quote the first five names for a sentence, and say if there are others."""
    return ", ".join(repr(name) for name in names[:5]) + (" and others" if len(names) > 5 else "")
