"""Result folders, checkpoints and model files that ovor 0.1.0 wrote load and continue.

write.py made them, of every method, and noted in expected.json what 0.1.0 does with them.
"""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from command import ovor
from ovor import Classifier

FILES = Path(__file__).with_name("files-0.1.0.tar.xz")
# A float32 is rounded by 6e-8 of its value. The sums of 16 to 64 terms in the thirty layers of a
# pass add up to about 1e-6 of a value, and the 36 steps of a run to less than 4e-5. Between
# AVX-512, AVX2, neither, and one or two threads, the largest difference found is 1e-5; a resumed
# run that loses the state of its optimiser differs by more than the tolerance, in every method
# that has one.
TOLERANCE = 1e-4
Rows = list[dict[str, Any]]


def read_expected() -> dict[str, Any]:
    with tarfile.open(FILES) as archive:
        found = archive.extractfile("expected.json")
        assert found
        return json.load(found)  # type: ignore[no-any-return]


EXPECTED = read_expected()


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the files into a folder; each test changes those of its own method alone."""
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(FILES) as archive:
        archive.extractall(folder, filter="data")
    return folder


def call(old: Path, *arguments: str | Path) -> str:
    """Run a command beside the files, as they name each other by relative paths."""
    done = ovor(*arguments, cwd=old)
    assert done.returncode == 0, done.stderr
    return done.stdout


def close(values: Any) -> Any:
    return pytest.approx(values, rel=TOLERANCE, abs=TOLERANCE)


def events(folder: Path) -> Rows:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def check_predictions(old: Path, model: str, expected: Rows) -> None:
    """Compare what a model says about the images in `asked`: classes exactly, numbers nearly."""
    said = call(old, "predict", model, "asked", "--json", "--device", "cpu")
    found = {row["image"]: row for row in json.loads(said)}
    for wanted in expected:
        row = found[wanted["image"]]
        assert (row["label"], row["unknown"]) == (wanted["label"], wanted["unknown"])
        assert row["best"][0]["class"] == wanted["best"][0]["class"]
        assert row["margin"] == close(wanted["margin"])
        assert row["best"][0]["confidence"] == close(wanted["best"][0]["confidence"])


@pytest.mark.parametrize("method", EXPECTED["methods"])
def test_finished_run_is_not_done_again(old: Path, method: str) -> None:
    folder = old / "finished" / method
    before = content(folder)
    said = call(old, "run", "--resume", "--out", folder, "--no-report", "--json")
    assert json.loads(said) == json.loads(before["result.json"])
    assert content(folder) == before


@pytest.mark.parametrize("method", EXPECTED["methods"])
def test_stopped_run_continues_to_the_same_result(old: Path, method: str) -> None:
    folder, whole = old / "stopped" / method, old / "finished" / method
    before = events(folder)
    said = call(old, "run", "--resume", "--out", folder, "--no-report", "--json")
    found, wanted = json.loads(said), json.loads((whole / "result.json").read_text())
    for key in ("method", "tasks", "class_order", "accuracy", "accuracy_task_id_given", "metrics"):
        assert found[key] == wanted[key]
    weights, expected = (load_file(f / "weights.safetensors") for f in (folder, whole))
    assert weights.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(weights[name], tensor, rtol=TOLERANCE, atol=TOLERANCE, msg=name)
    begun = [e for e in events(folder)[len(before) :] if e["event"] == "begin"]
    assert [(e["task"], e["epoch"]) > (0, 0) for e in begun] == [True]  # and not from the start


@pytest.mark.parametrize("method", EXPECTED["models"])
def test_model_predicts_and_learns_on(old: Path, method: str) -> None:
    path, expected = f"models/{method}.ovor", EXPECTED["models"][method]
    check_predictions(old, path, expected["first"])
    call(old, "learn", path, "lesson2", "--device", "cpu")
    check_predictions(old, path, expected["second"])
    moved = Classifier.load(old / path, backbone=str(old / "tiny.safetensors"), device="cpu")
    labels, confidences, unknown = moved.classify(
        [old / row["image"] for row in expected["second"]]
    )
    assert labels.tolist() == [row["best"][0]["class"] for row in expected["second"]]
    assert confidences == close([row["best"][0]["confidence"] for row in expected["second"]])
    assert unknown.tolist() == [row["unknown"] for row in expected["second"]]


@pytest.mark.parametrize("method", EXPECTED["unfinished"])
def test_unfinished_lesson_continues(old: Path, method: str) -> None:
    path, expected = f"unfinished/{method}.ovor", EXPECTED["unfinished"][method]
    learn = ("learn", path, *expected["arguments"])
    assert "--resume" in ovor(*learn, cwd=old).stderr  # it is found: none is begun beside it
    call(old, *learn, "--resume")
    check_predictions(old, path, expected["after"])
    assert not (old / f"{path}.learning").exists()


def test_exports_predict_as_their_model(old: Path, tmp_path: Path) -> None:
    expected = EXPECTED["models"]["oneprompt+vor"]["first"]
    check_predictions(old, "exported.onnx", expected)
    (old / "bundle.ovor").rename(tmp_path / "bundle.ovor")  # far from its backbone
    check_predictions(old, str(tmp_path / "bundle.ovor"), expected)


def test_grid_finds_its_runs(old: Path) -> None:
    """The settings lead to the names of the folders, so that nothing is run again."""
    before = {folder: content(folder) for folder in (old / "grid").iterdir()}
    assert json.loads(call(old, *EXPECTED["grid"]["arguments"])) == EXPECTED["grid"]["table"]
    assert {folder: content(folder) for folder in before} == before
    assert set((old / "grid").iterdir()) == set(before)


def test_report_reads_all_folders(old: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    report = json.loads(call(old, "report", "finished", "grid", "--out", page, "--json"))
    assert report["notes"] == []  # nothing is left out, weights and images fit
    rows = {group["title"]: group["rows"] for group in report["groups"]}
    assert len(rows) == 2
    for row in next(rows[title] for title in rows if "tiny.safetensors" in title):
        result = json.loads((old / "finished" / row["method"] / "result.json").read_text())
        assert row["A_T"] == close([result["metrics"]["A_T"]])
    methods = {row["method"] for group in rows.values() for row in group}
    assert methods == set(EXPECTED["methods"])
    assert page.stat().st_size
