"""The server keeps to its own description, whatever Schemathesis makes of it."""

import re
import shutil
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import negative_data_rejection
from schemathesis.transport.serialization import Binary

from ovor import Classifier
from ovor.data.class_names import unreadable
from ovor.web.bodies import on_one_line
from small_texts import csv_of, text_folder

from .live import Live, drawn, serving

# A description cannot say what a picture is, so examples of valid data are made of some.
PICTURES = [drawn("banana", 1)[0], drawn("candle", 1)[0]]
schemathesis.openapi.format("binary", st.sampled_from(PICTURES))
MODEL: list[bytes] = []
TEXT_MODEL: list[bytes] = []
QUICK = settings(
    max_examples=25,
    derandomize=True,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


def complete(body: Any) -> None:
    """Nor can it say that there are as many labels as images: what is missing is added."""
    if not isinstance(body, dict):
        return
    if getattr(body.get("model"), "data", None) in PICTURES:  # nor what a model is
        body["model"] = Binary(MODEL[0])
    images, labels = body.get("images"), body.get("labels")
    if isinstance(images, list) and isinstance(labels, list) and images and labels:
        images += [PICTURES[0]] * (len(labels) - len(images))
        labels += ["x"] * (len(images) - len(labels))


def complete_texts(body: Any) -> None:
    """The same for texts, their labels and tables."""
    if not isinstance(body, dict):
        return
    for name, content in (("model", TEXT_MODEL), ("table", [b"text,label\na b,x\n"])):
        if getattr(body.get(name), "data", None) in PICTURES:
            body[name] = Binary(content[0])
    given, labels = body.get("texts"), body.get("labels")
    if isinstance(given, list) and isinstance(labels, list) and given and labels:
        given += ["a text"] * (len(labels) - len(given))
        labels += ["x"] * (len(given) - len(labels))
    elif isinstance(body.get("table"), Binary):
        body.pop("labels", None)


def texts(body: Any) -> bool:
    """A form has texts alone: where the number 5 would be a wrong label, it is the name "5"."""
    labels = body.get("labels", []) if isinstance(body, dict) else []
    return isinstance(labels, list) and all(isinstance(label, str) for label in labels)


@pytest.fixture(scope="module")
def described(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("described")
    shutil.copy(made, folder)
    MODEL.append(made.read_bytes())
    with serving(folder, "--max-seconds", "5") as found:
        yield found
        assert "Traceback" not in found.said()
        assert "mistake in ovor" not in found.said()


@pytest.fixture(scope="module")
def api(described: Live) -> Any:
    return schemathesis.openapi.from_url(f"{described.url}/openapi.json")


schema = schemathesis.pytest.from_fixture("api")


@pytest.fixture(scope="module")
def described_texts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("described-texts")
    text_folder(folder / "small")
    with chdir(folder):
        Classifier("text:small", device="cpu").learn(csv_of(Path("t.csv"))).save("m.ovor")
    TEXT_MODEL.append((folder / "m.ovor").read_bytes())
    with serving(folder, "--max-seconds", "5") as found:
        yield found
        assert "Traceback" not in found.said()
        assert "mistake in ovor" not in found.said()


@pytest.fixture(scope="module")
def api_of_texts(described_texts: Live) -> Any:
    return schemathesis.openapi.from_url(f"{described_texts.url}/openapi.json")


schema_of_texts = schemathesis.pytest.from_fixture("api_of_texts")


@schema.parametrize()
@QUICK
def test_the_description_is_kept(case: Any) -> None:
    complete(case.body)
    case.call_and_validate(
        timeout=30, excluded_checks=[] if texts(case.body) else [negative_data_rejection]
    )


@schema_of_texts.parametrize()
@QUICK
def test_the_description_is_kept_with_texts(case: Any) -> None:
    complete_texts(case.body)
    form = "multipart" in str(case.media_type)  # in which everything is a text
    case.call_and_validate(timeout=30, excluded_checks=[negative_data_rejection] if form else [])


def test_the_pattern_of_names_is_what_names_must_be() -> None:
    pattern = re.compile(on_one_line())
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]
    names = [f"a{character}b" for character in characters]
    assert [name for name in names if bool(pattern.search(name)) == bool(unreadable(name))] == []
