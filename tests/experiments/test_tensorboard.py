"""What TensorBoard reads back is what the run told, also after a stop."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ovor.config import Run
from ovor.errors import OvorError
from ovor.events import Event, TrainStep
from ovor.experiments.folder import Folder
from ovor.experiments.runner import execute
from ovor.experiments.tensorboard import Board


def scalars(folder: Path) -> dict[str, dict[int, float]]:
    events = EventAccumulator(str(folder / "tensorboard"), {"scalars": 0})
    events.Reload()
    found = {}
    for tag in events.Tags()["scalars"]:
        values = events.Scalars(tag)
        found[tag] = {event.step: event.value for event in values}
        assert len(found[tag]) == len(values), f"{tag} has a step twice"
    return found


def test_losses_and_accuracies_are_the_runs(tiny_run: Run, results: Path) -> None:
    result = execute(replace(tiny_run, tensorboard=True), Folder(results))
    found = scalars(results)
    assert found["A_t"][3] == pytest.approx(result["metrics"]["A_T"], rel=1e-5)
    for task in (1, 2, 3):
        column = [row[task - 1] for row in result["accuracy"][task - 1 :]]
        assert list(found[f"accuracy/task {task:02}"]) == list(range(task, 4))
        assert list(found[f"accuracy/task {task:02}"].values()) == pytest.approx(column, rel=1e-5)
    assert list(found["loss/epoch"]) == list(range(12))
    assert list(found["loss/step"]) == list(range(4 * (4 + 3 + 2)))  # of 30, 20 and 10 images


def test_a_stopped_run_goes_on_where_it_was(tiny_run: Run, tmp_path: Path) -> None:
    whole = Folder(tmp_path / "whole")
    execute(tiny_run, whole, Board(whole, tiny_run))
    folder = Folder(tmp_path / "stopped")
    board = Board(folder, tiny_run)

    def until(event: Event) -> None:
        board(event)
        if isinstance(event, TrainStep) and (event.task, event.epoch) == (1, 1):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(tiny_run, folder, until)
    execute(tiny_run, folder, Board(folder, tiny_run))
    assert scalars(folder.path) == scalars(whole.path)


def test_without_the_package_there_is_a_sentence(
    tiny_run: Run, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(OvorError, match=r"pip install 'ovor\[tensorboard\]'"):
        Board(Folder(results), tiny_run)
