"""Numbers and texts are read and written as Python does, digit by digit."""

import hashlib
import json
import math
import random
import struct

import numpy as np
import pytest

from ovor.classifier.verdict import interval

from .page import Device, SaidError, as_sent

DRAW = random.Random(0)
ODD = [0.0, -0.0, 1.0, 0.1, 1e15, 1e16, 123456789012345680.0, 1e22, 1e-4, 1e-5, 5e-324, 1.7e308]
FLOATS = ODD + [struct.unpack("<d", DRAW.randbytes(8))[0] for _ in range(300)]
FLOATS = [x for x in FLOATS if math.isfinite(x)]


def rewritten(device: Device, texts: list[str]) -> list[str]:
    """Return what reading and writing JSON makes of texts, with sorted keys."""
    found: list[str] = device.page.evaluate(
        """async (texts) => {
          const { dumps, parse } = await import("/static/device/python_json.js");
          return texts.map((text) => dumps(parse(text), true));
        }""",
        texts,
    )
    return found


def test_json_is_pythons(device: Device) -> None:
    values = [
        {"a": 1, "b": 1.0, "c": [True, None, -1.5e-7], "\uffff": "x", "\U0001f600": "y"},
        {"__proto__": {"x": 1}, "constructor": '\u2028\x7f\n\t"\\/\ud800'},
        [10**30, -(10**30), -0.0, float("nan"), float("inf"), -float("inf")],
        FLOATS,
    ]
    texts = [json.dumps(value) for value in values]
    texts += [' { "b" : 1E5 , "a" : -0 , "a" : 12345678901234567890 } ', '"\\u0041\\/"']
    expected = [json.dumps(json.loads(text), sort_keys=True) for text in texts]
    assert rewritten(device, texts) == expected


@pytest.mark.parametrize(
    "text", ["", "{", "[1,]", "{1: 2}", "01", "1.", "'a'", '"\n"', '"\\x"', '"\\u12"', "[" * 9999]
)
def test_what_is_no_json(device: Device, text: str) -> None:
    with pytest.raises(SaidError) as error:
        device.call("python_json", "parse", text)
    assert error.value.kind == "SyntaxError"


def test_sha256(device: Device) -> None:
    contents = [DRAW.randbytes(n) for n in (0, 1, 55, 56, 63, 64, 65, 119, 120, 1000, 100_003)]
    found = device.ask("callEach", "sha256", "sha256", as_sent([[c] for c in contents]))
    theirs = as_sent([hashlib.sha256(c).digest() for c in contents])
    assert [one["found"] for one in found] == theirs


def test_half_precision(device: Device) -> None:
    every = np.arange(65536, dtype=np.uint16)
    numbers = every.view(np.float16).astype(np.float64)
    whole = [float(x) for x in numbers[np.isfinite(numbers)]]
    between = np.random.default_rng(0).normal(0, 1, 500) * 10.0 ** np.arange(-9, 5).repeat(36)[:500]
    asked = [*whole[::7], *between.tolist(), 65519.9, 65520.0, 2.0**-25, 3 * 2.0**-25, 1 + 2.0**-11]
    found = device.call_each("half", "toHalf", [[x] for x in asked])
    with np.errstate(over="ignore"):
        theirs = np.array(asked).astype(np.float32).astype(np.float16).view(np.uint16)
    assert found == theirs.tolist()
    finite = every[np.isfinite(numbers)][::13]
    back = device.call_each("half", "fromHalf", [[int(i)] for i in finite])
    assert back == finite.view(np.float16).astype(float).tolist()


def test_rounding(device: Device) -> None:
    asked = [(x / 16, 1) for x in range(-40, 40)] + [(2.675, 2), (0.5, 0), (1.5, 0), (1e300, 3)]
    asked += [(DRAW.uniform(-100, 100), digits) for digits in (0, 1, 4, 6) for _ in range(50)]
    assert device.call_each("rounding", "rounded", asked) == [round(x, n) for x, n in asked]
    halves = [x / 2 for x in range(-9, 10)] + [1e9 + 0.5, -0.49999999999999994]
    assert (
        device.call_each("rounding", "nearest", [[x] for x in halves]) == np.round(halves).tolist()
    )
    shown = [91.1, 100.0, 8.0, 0.1, 1234567.0, 0.00001, 0.0, 12.345678]
    assert device.call_each("rounding", "short", [[x] for x in shown]) == [f"{x:g}" for x in shown]


def test_intervals(device: Device) -> None:
    asked = [(right, images) for images in range(40) for right in range(images + 1)]
    found = device.call_each("report", "interval", asked)
    assert found == [interval(right, images) for right, images in asked]
