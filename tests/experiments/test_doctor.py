"""The doctor names what is there and what to get."""

import json
from pathlib import Path

import pytest

from ovor.cli.doctor import doctor_command
from ovor.data import SOURCES


def test_every_missing_data_set_says_what_to_get(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OVOR_DATA", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    doctor_command(["--json"])
    found = json.loads(capsys.readouterr().out)
    assert {item["name"] for item in found["data"]} == set(SOURCES)
    assert all(item["found"] is None and "get " in item["advice"] for item in found["data"])
    assert found["embedded"].startswith("whole")
    assert "cpu" in found["devices"]
    doctor_command([])
    text = capsys.readouterr().out
    assert all(name in text for name in SOURCES)
    assert text.count("not found: get ") == len(SOURCES)
