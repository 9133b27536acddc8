"""Joint training is fine-tuning on one task of all classes, whatever the tasks were to be."""

from dataclasses import replace
from pathlib import Path

import pytest

from ovor.config import Run
from ovor.experiments.folder import Folder
from ovor.experiments.runner import execute


def test_joint_is_fine_tuning_on_all_classes_bit_for_bit(tiny_run: Run, tmp_path: Path) -> None:
    run = replace(tiny_run, vor=None, epochs=2)
    joint = execute(replace(run, method="joint"), Folder(tmp_path / "joint"))
    one = replace(run, method="finetune", task_sizes=(), tasks=1)
    same = execute(one, Folder(tmp_path / "finetune"))
    for key in ("accuracy", "metrics", "class_order", "learnable_parameters"):
        assert joint[key] == same[key]
    weights = [tmp_path / name / "weights.safetensors" for name in ("joint", "finetune")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


@pytest.mark.parametrize("cut", [{}, {"task_sizes": (), "tasks": 2}, {"task_sizes": (1, 5)}])
def test_joint_has_one_task_and_nothing_to_forget(
    cut: dict[str, object], tiny_run: Run, tmp_path: Path
) -> None:
    run = replace(tiny_run, method="joint", vor=None, epochs=2, **cut)  # type: ignore[arg-type]
    result = execute(run, Folder(tmp_path / "joint"))
    assert result["tasks"] == [6]
    assert result["metrics"]["A_T"] == result["metrics"]["pooled_accuracy"]
    assert result["metrics"]["F_T"] == 0
    assert len(result["accuracy"]) == 1
