"""What may happen to a file, as functions of its content and of what hypothesis draws."""

from collections.abc import Callable

from hypothesis import strategies as st

HEADER = 1500  # bytes, about: a third of the damage goes there, and one to the last hundred
Damage = Callable[[bytes, st.DataObject], bytes]


def place(content: bytes, data: st.DataObject) -> int:
    last = len(content) - 1
    return data.draw(
        st.one_of(
            st.integers(0, min(HEADER, last)),
            st.integers(max(0, last - 99), last),
            st.integers(0, last),
        )
    )


def flip(content: bytes, data: st.DataObject) -> bytes:
    damaged = bytearray(content)
    damaged[place(content, data)] ^= 1 << data.draw(st.integers(0, 7))
    return bytes(damaged)


def truncate(content: bytes, data: st.DataObject) -> bytes:
    return content[: place(content, data)]


def append(content: bytes, data: st.DataObject) -> bytes:
    return content + data.draw(st.binary(min_size=1, max_size=2000))


def prepend(content: bytes, data: st.DataObject) -> bytes:
    return data.draw(st.binary(min_size=1, max_size=200)) + content


def overwrite(content: bytes, data: st.DataObject) -> bytes:
    start, run = place(content, data), data.draw(st.binary(min_size=1, max_size=64))
    return content[:start] + run + content[start + len(run) :]


def move(content: bytes, data: st.DataObject) -> bytes:
    """Put a part of the file over another: lengths, names and digits that were right elsewhere."""
    source, target = place(content, data), place(content, data)
    part = content[source : source + data.draw(st.integers(1, 200))]
    return (content[:target] + part + content[target + len(part) :])[: len(content)]
