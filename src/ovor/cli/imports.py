"""Imports that somebody waits for."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collecting() -> Iterator[None]:
    """Import without a search for garbage meanwhile.

    torch is some hundred thousand objects that all stay: to look them through again and again takes
    a seventh of the time, and to look at them when the program ends a little more.
    """
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()
