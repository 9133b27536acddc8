"""One run: what is checked before it starts, and what its result says."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ovor.config import Run
from ovor.errors import OvorError
from ovor.experiments.folder import Folder, new_folder, unfinished_folder
from ovor.experiments.runner import execute, prepare


def test_a_task_without_test_images_is_named(tiny_run: Run, tmp_path: Path) -> None:
    for folder in ("train/left", "train/right", "test/left"):
        (tmp_path / folder).mkdir(parents=True)
        Image.fromarray(np.zeros((9, 9), np.uint8)).save(tmp_path / folder / "1.png")
    run = replace(tiny_run, data=f"folder:{tmp_path}", task_sizes=(1, 1))
    with pytest.raises(OvorError, match=r"Task 2 \(right\) has no test image"):
        prepare(run, tmp_path / "c")


def test_a_finished_run_is_not_repeated(tiny_run: Run, results: Path) -> None:
    first = execute(tiny_run, Folder(results))
    assert first["tasks"] == [3, 2, 1]
    prompts, heads = 2 * (5 + 5 + 20 + 20 + 20) * 64, 6 * 64 + 6
    assert first["learnable_parameters"] == prompts + heads
    events: list[object] = []
    assert execute(tiny_run, Folder(results), events.append) == first
    assert events == []


def test_a_folder_is_not_continued_with_other_settings(tiny_run: Run, results: Path) -> None:
    Folder(results).start(tiny_run)
    with pytest.raises(OvorError, match="other settings"):
        execute(replace(tiny_run, seed=5), Folder(results))


def test_new_folders_are_numbered_and_the_newest_unfinished_is_found(
    tiny_run: Run, tmp_path: Path
) -> None:
    first = new_folder(tmp_path, "name")
    first.start(tiny_run)
    first.finish({})
    second = new_folder(tmp_path, "name")
    assert second.path.name == "name-2"
    with pytest.raises(OvorError, match="no unfinished run"):
        unfinished_folder(tmp_path, "name")
    second.start(tiny_run)
    assert unfinished_folder(tmp_path, "name").path == second.path


def test_workers_do_not_change_the_result(tiny_run: Run, tmp_path: Path) -> None:
    alone = execute(tiny_run, Folder(tmp_path / "alone"))
    run = replace(tiny_run, workers=2)
    assert execute(run, Folder(tmp_path / "workers"))["accuracy"] == alone["accuracy"]
    one, two = (tmp_path / f"{n}/weights.safetensors" for n in ("alone", "workers"))
    assert one.read_bytes() == two.read_bytes()


def test_two_processes_do_not_work_in_one_folder(tiny_run: Run, results: Path) -> None:
    folder = Folder(results)
    with folder.locked(), pytest.raises(OvorError, match="Another process is at work"):
        execute(tiny_run, folder)
    assert execute(tiny_run, folder)["seed"] == tiny_run.seed
