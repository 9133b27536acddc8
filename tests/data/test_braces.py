import pytest
from braceexpand import braceexpand
from hypothesis import given
from hypothesis import strategies as st

from ovor.data.braces import expand
from ovor.errors import OvorError

TEXT = st.text("ab-._/*0", max_size=3)
NUMBER = st.text("0123456789", min_size=1, max_size=2)
RANGE = st.builds("{{{}..{}}}".format, NUMBER, NUMBER)
STEPS = st.builds("{{{}..{}..{}}}".format, NUMBER, NUMBER, st.integers(0, 40))


def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    listed = st.lists(inner, min_size=1, max_size=3).map(",".join)
    return listed.map("{{{}}}".format) | st.lists(inner, max_size=2).map("".join)


@given(st.recursive(TEXT | RANGE | STEPS, grow, max_leaves=4))
def test_as_the_library_that_webdataset_uses(pattern: str) -> None:
    assert expand(pattern) == list(braceexpand(pattern))


def test_as_people_write_it() -> None:
    assert expand("/d/train-{008..011}.tar")[1:3] == ["/d/train-009.tar", "/d/train-010.tar"]
    assert expand("{train,val}-{0..1}.tar") == [
        "train-0.tar",
        "train-1.tar",
        "val-0.tar",
        "val-1.tar",
    ]


@pytest.mark.parametrize("pattern", ["a-{0..9.tar", "a-0..9}.tar", "{a,{b}", "}{"])
def test_a_brace_too_many_is_named(pattern: str) -> None:
    with pytest.raises(OvorError, match="brace too many"):
        expand(pattern)


def test_a_slip_of_the_pen_does_not_fill_the_memory() -> None:
    with pytest.raises(OvorError, match="correct the range"):
        expand("a-{0..99999999999}.tar")
