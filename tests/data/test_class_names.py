"""Names of classes: how they are written, which are refused, and which are asked about."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ovor.data.class_names import AlikeNamesError, alike, as_name, check_name, check_new_names
from ovor.errors import UNPRINTABLE, OvorError

ESCAPE, RIGHT_TO_LEFT, ZERO_WIDTH = "\x1b", "\u202e", "\u200b"
CYRILLIC_I, GREEK_O, FULLWIDTH_F = "\u0456", "\u03bf", "\uff46"


def refused(name: str) -> str:
    with pytest.raises(OvorError) as caught:
        check_name(as_name(name), "choose another", "choose another")
    return str(caught.value)


def test_a_name_is_trimmed_and_its_letters_are_whole() -> None:
    assert as_name("  cafe\u0301\t") == "caf\u00e9"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (f"{ESCAPE}[2Jcat", r"'\x1b[2Jcat', which cannot be read on one line, as it has"),
        ("two\nlines", "U+000A (a control character)"),
        ("\x9b2J", "U+009B (a control character)"),  # one character that begins a sequence
        (f"cat{RIGHT_TO_LEFT}gpj", "U+202E (it changes the direction of the text)"),
        ("cat\u2067", "U+2067 (it changes the direction of the text)"),
        ("cat\u200e", "U+200E (it changes the direction of the text)"),
        (f"c{ZERO_WIDTH}at", "U+200B (it cannot be seen)"),
        ("c\u00adat", "U+00AD (it cannot be seen)"),
        ("c\u2060at", "U+2060 (it cannot be seen)"),
        ("\u3164", "U+3164 (it cannot be seen)"),
        ("cat\U000e0041", "U+E0041 (it cannot be seen)"),
        ("cat\udcff", "U+DCFF (not UTF-8)"),
        (" \t ", "cannot be read on one line"),
        ("", "cannot be read on one line"),
        ("x" * 201, "which has 201 characters, and at most 200 are allowed: choose another."),
        (" Unknown ", "the answer for what is of no class"),
        (f"unkn{GREEK_O}wn", "the answer for what is of no class"),
    ],
)
def test_a_name_that_cannot_be_read_is_refused_and_shown_escaped(name: str, says: str) -> None:
    sentence = refused(name)
    assert says in sentence
    assert not UNPRINTABLE.search(sentence)
    assert len(sentence) < 400


@pytest.mark.parametrize("name", ["x" * 200, "Straße", "金魚", "دولفين", "❤\ufe0f", "a b", "0"])
def test_a_name_in_any_script_is_taken(name: str) -> None:
    check_name(as_name(name), "", "")


@given(st.text())
def test_a_name_that_is_taken_is_one_line_without_anything_unseen(text: str) -> None:
    name = as_name(text)
    try:
        check_name(name, "", "")
    except OvorError:
        return
    assert name == name.strip() == as_name(name)
    assert len(name.splitlines()) == 1
    assert not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in name)
    assert not any(
        unicodedata.bidirectional(c) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI")
        for c in name
    )


@pytest.mark.parametrize(
    "name",
    [
        "Fish",
        "FISH",
        f"f{CYRILLIC_I}sh",
        f"F{CYRILLIC_I}sh",
        f"{FULLWIDTH_F}ish",
        "\U0001d41fish",  # a bold f of mathematics
        "\ufb01sh",  # a ligature
        "fish\ufe0f",
        "f1sh".replace("1", "\u0131"),  # an i without its dot
    ],
)
def test_a_name_that_differs_by_case_or_look_is_asked_about(name: str) -> None:
    assert alike([name], ["dog", "fish"]) == [(name, "fish")]
    with pytest.raises(AlikeNamesError, match=r"Are .* and 'fish' two classes\?") as caught:
        check_new_names([name], ["dog", "fish"], yes=False)
    assert caught.value.pairs == [(name, "fish")]
    check_new_names([name], ["dog", "fish"], yes=True)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ball", "bail"),
        ("Bär", "Bar"),  # a bear and a bar
        ("cat", "cats"),
        ("sea lion", "sealion"),
        ("1", "11"),
        ("рот", "pot"),  # the last letter tells them apart
    ],
)
def test_names_that_people_tell_apart_are_not_asked_about(one: str, other: str) -> None:
    assert alike([one], [other]) == alike([other], [one]) == alike([one, other], []) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Il", "ll"),
        ("model 10", "model lO"),
        ("ВОРОНА", "ворона"),  # noqa: RUF001 - of other letters than Latin
        ("Straße", "STRASSE"),
        ("sea  lion", "sea\u00a0lion"),
        ("İstanbul", "istanbul"),
        ("x-ray", "x\u2010ray"),
    ],
)
def test_two_names_of_one_lesson_are_asked_about(one: str, other: str) -> None:
    assert alike([one, other], []) == [(other, one)]
    assert alike([other, one], []) == [(one, other)]


def test_more_of_a_class_is_no_question() -> None:
    assert alike(["fish", "Fish"], ["fish", "Fish"]) == []  # said before that they are two


def test_the_question_writes_out_the_letters_that_look_like_others() -> None:
    sentence = str(AlikeNamesError([(f"f{CYRILLIC_I}sh", "fish")], "--yes"))
    assert r"f\u0456sh" in sentence
    assert "--yes" in sentence
