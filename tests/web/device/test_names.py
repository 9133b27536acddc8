"""Names of classes in the page are those of Python: as they are written, refused and compared."""

import unicodedata

import pytest

from ovor.data.class_names import alike, as_name, check_name, listed
from ovor.data.look_alikes import forms
from ovor.errors import OvorError

from .page import Device, SaidError
from .table import classifier, clouds

NAMES = [
    "fish",
    " fish ",
    "FISH",
    "f\u0456sh",
    "\ufb01sh",
    "stra\u00dfe",
    "STRASSE",
    "cafe\u0301",
    "caf\u00e9",
    "\u03a3\u03b1\u03c2",
    "\u0130stanbul",
    "\u0131stanbul",
    "l0ve",
    "lOve",
    "\uff21\uff22",
    "it's",
    'a "quote"',
    'it\'s "both"',
    "back\\slash",
    "a  b",
    "a\u00a0b",
    "\u13a0\u13a1",
    "\uab70",
    "\U0001d400",
    "1\ufe0f",
    "two\nlines",
    "\x85trimmed\x1f",
    "",
    "  ",
    "Unknown",
    "unkn\u043ewn",
    "a\u200bb",
    "a\u202eb",
    "\ufeffb",
    "x" * 200,
    "x" * 201,
    "\U0001f600" * 200,
    "\U000e0041",
    "__proto__",
    "constructor",
]


def told(name: str) -> str | None:
    try:
        check_name(name, "choose another name", "choose another name")
    except OvorError as error:
        return str(error)
    return None


def said(device: Device, name: str) -> str | None:
    try:
        device.call("names", "checkName", name)
    except SaidError as error:
        return str(error) if error.kind == "Refused" else error.kind
    return None


def test_how_names_are_written(device: Device) -> None:
    found = device.call_each("names", "asName", [[name] for name in NAMES])
    assert found == [as_name(name) for name in NAMES]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_which_names_are_refused(device: Device, name: str) -> None:
    assert said(device, as_name(name)) == told(as_name(name))


def test_what_a_letter_looks_like(device: Device) -> None:
    """All letters that Python knows; Unicode grows, and the browser may know more."""
    letters = [
        chr(code)
        for code in [*range(0x20, 0x3000), *range(0xA640, 0xABF0), *range(0xF900, 0x10FFF)]
        if unicodedata.category(chr(code)) not in ("Cn", "Cs", "Co")
    ]
    found = device.call_each("look_alikes", "forms", [["a" + letter] for letter in letters])
    theirs = [sorted(forms("a" + letter)) for letter in letters]
    differ = [
        n for n, one, other in zip(letters, found, theirs, strict=True) if sorted(one) != other
    ]
    assert not differ


def test_which_names_are_alike(device: Device) -> None:
    given = [name for name in map(as_name, NAMES) if told(name) is None]
    known = ["fish", "Stra\u00dfe", "\u0391\u0392", "\u03c3\u03b1\u03c3", "ISTANBUL", "O1"]
    pairs = device.call("names", "alike", given, known)
    assert [(pair["given"], pair["known"]) for pair in pairs] == alike(given, known)
    assert pairs


def test_names_in_a_list(device: Device) -> None:
    for names in (NAMES[:3], NAMES[15:20], [name for name in NAMES if told(name) is None]):
        assert device.call("names", "listed", names) == listed(names)


def test_alike_names_are_asked_about(device: Device) -> None:
    features, _ = clouds([4, 4, 4], 20)
    memory = device.memory(like=classifier(features))
    memory.learn(features, {"fish": [0, 1, 2], "owl": [4, 5, 6]})
    before = memory.file()
    for act in (
        lambda **yes: memory.learn(features, {"Fish": [8, 9]}, **yes),
        lambda **yes: memory.do("correct", features[8], None, "F\u0456sh", yes),
        lambda **yes: memory.do("rename", "owl", "FISH", yes),
    ):
        with pytest.raises(SaidError, match="two classes") as error:
            act()
        assert error.value.status == 409
        assert [pair["known"] for pair in error.value.alike] == ["fish"]
        assert memory.file() == before
        act(yes=True)
        memory.do("undo")
        assert memory.file() == before


def test_a_class_may_be_given_twice_and_untidily(device: Device) -> None:
    features, _ = clouds([4, 4], 20)
    memory = device.memory(like=classifier(features))
    groups = [{"fish": [0, 1]}, {" fish": [2]}, {"ant ": [4, 5]}]
    given = [
        {"name": n, "features": [features[i] for i in r]} for g in groups for n, r in g.items()
    ]
    memory.do("learn", given)
    (lesson,) = memory.do("model")["lessons"]
    assert [(one["name"], one["images"]) for one in lesson["classes"]] == [("ant", 2), ("fish", 3)]
