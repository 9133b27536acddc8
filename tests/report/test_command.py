"""`ovor report` as a person meets it."""

import json
from pathlib import Path

import pytest

from command import ovor
from ovor.config import Run
from ovor.experiments.folder import Folder
from ovor.presets import settings
from report import synthetic


def test_page_files_and_json(finished: Path, tmp_path: Path) -> None:
    done = ovor("report", finished, "--json", "--csv", "data", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (group,) = json.loads(done.stdout)["groups"]
    assert [row["method"] for row in group["rows"]] == ["oneprompt", "oneprompt+vor", "simplecil"]
    assert len(group["charts"]["curves"]) == 9
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "data/curves.csv").exists()


def test_the_terminal_shows_every_method_in_one_table(finished: Path, tmp_path: Path) -> None:
    done = ovor("report", finished, "--out", "page.html", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    (group,) = json.loads(ovor("report", finished, "--json", cwd=tmp_path).stdout)["groups"]
    lines = done.stdout.splitlines()
    assert lines[-1] == "Report in page.html"
    for row in group["rows"]:
        (line,) = (line for line in lines if line.startswith(f"│ {row['method']} "))
        assert f" {row['A_T_mean']:.2f}" in line
        assert f" {row['F_T_mean']:.2f}" in line


def damaged(root: Path, kind: str, run: Run) -> None:
    match kind:
        case "empty":
            root.mkdir()
        case "model":
            root.write_bytes(b"")
        case "unfinished":
            Folder(root / "a").start(run)
        case _:
            result = synthetic.write(root / "a", run)
            text = {
                "half": json.dumps(result)[:100],
                "list": "[]",
                "other schema": json.dumps({**result, "schema": 99}),
                "incomplete": json.dumps({**result, "accuracy": [[1.0]]}),
                "no metrics": json.dumps({**result, "metrics": {}}),
            }[kind]
            (root / "a/result.json").write_text(text)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("missing", "There is no folder"),
        ("empty", "There is no run in"),
        ("model", "ovor evaluate MODEL IMAGES --report FILE.html makes one"),
        ("unfinished", "is finished: ovor run --resume"),
        ("half", "is damaged, it is not JSON"),
        ("list", "has schema None"),
        ("other schema", "has schema 99"),
        ("incomplete", "another number of tasks"),
        ("no metrics", "A_T or F_T is missing"),
    ],
)
def test_bad_input_ends_in_a_sentence(kind: str, words: str, tmp_path: Path) -> None:
    if kind != "missing":
        damaged(tmp_path / "runs", kind, settings("quickdraw", "oneprompt"))
    done = ovor("report", tmp_path / "runs", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("ovor: ")
