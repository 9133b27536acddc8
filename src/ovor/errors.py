"""Errors that a person may cause, and one sentence for every error that a person may see."""

import errno
import re

from pydantic import ValidationError

# What must not go out as it is: control characters and line separators, which break lines or steer
# a terminal; what is not UTF-8; and what turns the direction of the text.
UNPRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


class OvorError(Exception):
    """Something the user can mend; its text is one sentence that names what to do, in one line."""

    def __init__(self, sentence: str) -> None:
        super().__init__(one_line(sentence))


class MissingDataError(OvorError):
    """A data set is not where it is looked for."""


def one_line(text: str) -> str:
    """With what would break the line written out, such as \\n."""
    return UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def explain(error: ValidationError) -> str:
    """Pydantic's findings in one line."""
    parts = []
    for item in error.errors():
        where = ".".join(str(part) for part in item["loc"])
        what = item["msg"].removeprefix("Value error, ")
        if item["type"] not in ("missing", "value_error"):  # there the input is all around it
            got = repr(item["input"])
            what += f" (got {got if len(got) < 60 else got[:60] + '...'})"
        parts.append(f"{where}: {what}" if where else what)
    return "; ".join(parts[:3]) + (" and more" if parts[3:] else "")


def with_article(word: str) -> str:
    """Return a word with a or an before it."""
    return f"{'an' if word[:1].lower() in 'aeiou' else 'a'} {word}"


def ended(sentence: str) -> str:
    """Return a sentence with a full stop, so that another can follow; some end in a command."""
    return sentence if sentence.endswith(".") else f"{sentence}."


def without_leaving_out(sentence: str) -> str:
    """Return what is wrong with an item, without the advice to leave it out, as that is done."""
    return re.sub(r"(:|, or) leave it out\.$", ".", sentence)


REMEDIES = {
    errno.ENOSPC: "free some space, and try again",
    errno.EDQUOT: "free some space, and try again",
    errno.EACCES: "change its permissions, or choose another place",
    errno.EPERM: "change its permissions, or choose another place",
    errno.EROFS: "choose another place",
    errno.ENAMETOOLONG: "choose a shorter name",
}


# What torch says of memory that the system does not give, or of more than can be counted.
TOO_LARGE = re.compile("can't allocate memory|Storage size calculation overflowed")


def in_words(error: Exception) -> str:
    """One sentence for whoever sees it; our own mistakes too."""
    if isinstance(error, OvorError):
        return str(error)
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # torch's
        return "The memory is full: choose a smaller --batch-size, or free some."
    if isinstance(error, RuntimeError) and TOO_LARGE.search(str(error)):
        return (
            "This needs more memory than there is: choose a smaller --batch-size, or a narrower "
            "--method.projection if the method has one."
        )
    if isinstance(error, OSError):
        what = f"{error.strerror or error}: {REMEDIES.get(error.errno or 0, 'check the path')}."
        return f"{error.filename}: {what}" if error.filename else what
    kind = type(error).__name__
    return f"This is a mistake in ovor ({kind}: {error}): --debug shows where; please report it."
