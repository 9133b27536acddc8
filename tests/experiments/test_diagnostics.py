"""The look from near is at the very run: its counts are the run's own accuracies."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ovor.config import Run
from ovor.data import load_dataset
from ovor.data.batches import Batches
from ovor.errors import OvorError
from ovor.experiments.diagnostics import BINS, read_diagnostics
from ovor.experiments.folder import Folder
from ovor.experiments.mistakes import EXAMPLES, digest
from ovor.experiments.runner import diagnose, execute
from ovor.learners import METHODS
from ovor.learners.base import Learner
from ovor.training.checkpointing import Checkpoints, Position
from ovor.training.features import Features
from tiny import NARROW


def measured(folder: Folder) -> dict[str, Any]:
    """Return what is measured on the weights that a run left."""
    diagnose(folder)
    found = read_diagnostics(folder)
    assert found is not None
    return found


@pytest.mark.parametrize("method", METHODS)
def test_right_answers_are_the_accuracy_of_every_method(
    method: str, tiny_run: Run, results: Path
) -> None:
    run = replace(tiny_run, method=method, vor=None, epochs=1, options=NARROW.get(method, {}))
    folder = Folder(results)
    result = execute(run, folder, diagnostics=True)
    found = read_diagnostics(folder)
    assert found == measured(folder)  # as on the features of the last evaluation
    counts = [sum(row) for row in found["confusion"]]
    accuracy = [100 * right / count for right, count in zip(found["right"], counts, strict=True)]
    assert accuracy == pytest.approx(result["accuracy"][-1], abs=1e-6)
    assert counts == [4 * classes for classes in result["tasks"]]  # four test images a class
    assert result["class_images"] == found["class_images"] == [4] * 6
    wrong = [sum(m[2] for m in found["mistakes"] if m[0] == label) for label in range(6)]
    assert result["class_right"][-1] == [4 - count for count in wrong]
    assert found["macs"] > 0
    assert len(json.dumps(found)) < 60_000


def test_what_is_seen_of_the_middle_task(tiny_run: Run, results: Path) -> None:
    folder = Folder(results)
    execute(tiny_run, folder)
    found = measured(folder)
    assert found["middle_task"] == 1
    sums = {kind: sum(counts) for kind, counts in found["energies"]["counts"].items()}
    assert sums == {"own": 8, "outliers": 16, "earlier": 12, "later": 4}  # beta is 8 a class
    assert {len(counts) for counts in found["energies"]["counts"].values()} == {BINS}
    plane = found["plane"]
    assert len(plane["features"]) == len(plane["labels"]) == 20
    assert len(plane["boundary"]) == 8  # alpha is 4 a class
    assert 0 < plane["shares"][1] <= plane["shares"][0] <= 1
    boundary = {tuple(point) for point in plane["boundary"]}
    assert boundary <= {tuple(point) for point in plane["features"]}


def test_examples_are_the_test_images_that_were_mistaken(tiny_run: Run, results: Path) -> None:
    folder = Folder(results)
    result = execute(replace(tiny_run, method="finetune", vor=None, lr=1.0), folder)
    found = measured(folder)
    data = load_dataset(tiny_run.data)
    assert result["class_names"] == found["class_names"]
    assert sorted(found["class_names"]) == sorted(data.class_names)
    assert found["mistakes"]
    assert [m[2] for m in found["mistakes"]] == sorted(m[2] for m in found["mistakes"])[::-1]
    seen = set()
    for true, said, images, examples in found["mistakes"]:
        assert true != said
        assert len(examples) <= min(images, EXAMPLES)
        for index, pixels in examples:
            name = data.class_names[data.test.labels[index]]
            assert name == found["class_names"][true]
            assert digest(data.test.image(index)) == pixels
            seen.add(index)
    assert seen


def test_classes_are_counted_after_every_task(tiny_run: Run, results: Path) -> None:
    result = execute(tiny_run, Folder(results))
    assert [len(row) for row in result["class_right"]] == [3, 5, 6]
    for row, accuracy in zip(result["class_right"], result["accuracy"], strict=True):
        parts = [row[:3], row[3:5], row[5:]]
        shares = [100 * sum(part) / (4 * len(part)) for part in parts if part]
        assert shares == pytest.approx([x for x in accuracy if x is not None], abs=1e-6)


def test_a_run_that_an_older_version_began_has_no_counts(
    tiny_run: Run, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checkpoint has none of the tasks before."""
    folder, saved = Folder(results), Checkpoints.save

    def older(self: Checkpoints, learner: Learner, position: Position, *more: Any) -> None:
        saved(self, learner, replace(position, class_right=()), *more)
        if position.task == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoints, "save", older)
    with pytest.raises(KeyboardInterrupt):
        execute(tiny_run, folder)
    monkeypatch.undo()
    result = execute(tiny_run, folder)
    assert "class_right" not in result
    assert result["class_names"]


def test_the_evaluation_s_features_are_not_computed_again(
    tiny_run: Run, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tested: list[int] = []
    plain = Features.test_images

    def counted(features: Features, task: int) -> Batches:
        tested.append(task)
        return plain(features, task)

    monkeypatch.setattr(Features, "test_images", counted)
    execute(tiny_run, Folder(results), diagnostics=True)
    assert tested == [0, 0, 1, 0, 1, 2]  # by the evaluations after each task
    assert read_diagnostics(Folder(results)) is not None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": 0}'])
def test_what_cannot_be_used_is_not_read(content: str, results: Path) -> None:
    results.mkdir()
    Folder(results).closeup_file.write_text(content)
    assert read_diagnostics(Folder(results)) is None


def test_one_task_has_no_earlier_and_no_later(tiny_run: Run, results: Path) -> None:
    execute(replace(tiny_run, method="joint", vor=None), Folder(results))
    found = measured(Folder(results))
    assert found["energies"]["counts"].keys() == {"own", "outliers"}


def test_without_weights_there_is_a_sentence(tiny_run: Run, results: Path) -> None:
    folder = Folder(results)
    execute(tiny_run, folder)
    folder.weights.unlink()
    with pytest.raises(OvorError, match="cannot be read"):
        diagnose(folder)
