"""Texts of Hugging Face data sets, as parquet in the layouts of those on the hub."""

from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet
import pytest

from ovor.data import Dataset, load_dataset
from ovor.errors import OvorError
from shard_files import refusal

INTENTS = ["greet", "oos", "weather"]


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf")


def parquet(folder: Path, **splits: dict[str, list[Any]]) -> str:
    folder.mkdir(exist_ok=True)
    for split, columns in splits.items():
        pyarrow.parquet.write_table(pa.table(columns), folder / f"{split}-0.parquet")
    return f"hf:{folder}"


def rows(dataset: Dataset, part: str = "train") -> list[tuple[str, str]]:
    items = dataset.train if part == "train" else dataset.test
    return [(items.item(i), dataset.class_names[k]) for i, k in enumerate(items.labels)]


def typed(folder: Path, texts: list[str], labels: list[int]) -> str:
    """Save as clinc_oos is: `intent` is a ClassLabel, one of whose names is oos."""
    kinds = datasets.Features(
        {"text": datasets.Value("string"), "intent": datasets.ClassLabel(names=INTENTS)}
    )
    table = datasets.Dataset.from_dict({"text": texts, "intent": labels}, features=kinds)
    datasets.DatasetDict({"train": table, "test": table}).save_to_disk(str(folder))
    return f"hf:{folder}"


def test_the_text_is_found_by_its_name(tmp_path: Path) -> None:
    banking = {"text": ["my card", "a refund"], "label": [1, 0]}
    found = load_dataset(parquet(tmp_path / "banking", train=banking, test=banking))
    assert rows(found) == [("my card", "1"), ("a refund", "0")]
    hwu = {"utterance": ["hi", "rain?"], "label": ["greet", "weather"]}
    found = load_dataset(parquet(tmp_path / "hwu", train=hwu, test=hwu))
    assert rows(found, "test") == [("hi", "greet"), ("rain?", "weather")]


def test_a_title_stands_before_its_text(tmp_path: Path) -> None:
    dbpedia = {"label": [0, 1], "title": ["Acme", "Oda"], "content": [" A firm.", " A village."]}
    name = parquet(tmp_path / "dbpedia", train=dbpedia, test=dbpedia)
    assert [text for text, _ in rows(load_dataset(name))] == ["Acme\nA firm.", "Oda\nA village."]
    alone = load_dataset(f"{name}?text=content")
    assert [text for text, _ in rows(alone)] == ["A firm.", "A village."]


def test_a_class_can_be_what_is_unknown(tmp_path: Path) -> None:
    name = typed(tmp_path / "clinc", ["hi", "sing", "rain?", "hello"], [0, 1, 2, 0])
    assert load_dataset(name).class_names == tuple(INTENTS)
    found = load_dataset(f"{name}?unknown=oos")
    assert found.class_names == ("greet", "weather")
    expected = [("hi", "greet"), ("rain?", "weather"), ("hello", "greet")]
    assert rows(found) == rows(found, "test") == expected
    assert found.unknown is not None
    assert [found.unknown.item(i) for i in range(len(found.unknown))] == ["sing"]


def test_what_cannot_be_is_said(tmp_path: Path) -> None:
    name = typed(tmp_path / "clinc", ["hi", "sing", "rain?", ""], [0, 1, 2, 0])
    assert "no class 'else' to take as unknown" in refusal(f"{name}?unknown=else")
    assert "no texts in a column 'body': choose from text" in refusal(f"{name}?text=body")
    with pytest.raises(OvorError, match=r"Row 3 of .* has no text in its column 'text'"):
        load_dataset(name).train.item(3)
