"""What goes out to a terminal or a pipe: text that steers neither, whatever names it holds.

A file may have any name, and a terminal obeys some: the sequence that clears its screen, marks that
turn the direction of the text. While a command runs, everything that is printed goes through here.
"""

import codecs
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

from ovor.errors import UNPRINTABLE

LINES = "\n\t"  # what a text consists of besides what can be seen
BARS = "\n\t\r"  # and what moves the bars of other libraries, on stderr


class Guarded(io.TextIOWrapper):
    """A stream that writes out what would steer a terminal; `drawn` lets pass what rich draws."""

    def __init__(self, stream: io.TextIOWrapper, allowed: str) -> None:
        """Take over a stream, with the characters that pass though they cannot be seen."""
        super().__init__(
            stream.buffer,
            encoding=stream.encoding,
            errors=ERRORS,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        self.allowed = allowed
        self.drawn = Drawn(self)

    def write(self, text: str) -> int:
        super().write(visible(text, self.allowed))
        return len(text)

    def draw(self, text: str) -> int:
        """Write what holds sequences on purpose, around text that is visible already."""
        return super().write(text)


class Drawn:
    """A guarded stream as rich gets it."""

    def __init__(self, stream: Guarded) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        return self.stream.draw(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def visible(text: str, allowed: str = LINES) -> str:
    """Return a text with what cannot be seen written out, but for some of it.

    In the manner of JSON, so that JSON stays JSON. What is no text at all is left to `encoded`.
    """
    return UNPRINTABLE.sub(
        lambda found: (
            found[0]
            if found[0] in allowed or "\ud800" <= found[0] <= "\udfff"
            else f"\\u{ord(found[0]):04x}"
        ),
        text,
    )


def encoded(error: UnicodeError) -> tuple[str | bytes, int]:
    """Encode what an encoding lacks: bytes of a file's name as they came, the rest written out."""
    assert isinstance(error, UnicodeEncodeError)
    part = error.object[error.start : error.end]
    try:
        return part.encode("ascii", "surrogateescape"), error.end
    except UnicodeEncodeError:
        return part.encode("ascii", "backslashreplace"), error.end


ERRORS = "ovor"
codecs.register_error(ERRORS, encoded)


@contextmanager
def guarded() -> Iterator[None]:
    """Let nothing that is printed steer the terminal, as long as this lasts."""
    usual = sys.stdout, sys.stderr
    ours = [
        Guarded(stream, allowed) if isinstance(stream, io.TextIOWrapper) else stream
        for stream, allowed in zip(usual, (LINES, BARS), strict=True)
    ]
    for stream in usual:
        if stream is not None:
            stream.flush()
    sys.stdout, sys.stderr = cast("Any", ours[0]), cast("Any", ours[1])
    try:
        yield
    finally:
        sys.stdout, sys.stderr = usual
        for stream in ours:
            if isinstance(stream, Guarded) and not stream.closed:
                with suppress(BrokenPipeError):  # nobody reads on
                    stream.detach()  # which flushes: the buffer belongs to the usual one


@contextmanager
def drawing() -> Iterator[None]:
    """Let a library print its own sequences, as long as this lasts."""
    usual = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (getattr(stream, "drawn", stream) for stream in usual)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = usual
