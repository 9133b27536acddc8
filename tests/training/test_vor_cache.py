"""Runs that differ in VOR alone share the rest, and end exactly where they would have alone."""

from dataclasses import replace
from pathlib import Path

import pytest

from ovor.config import Run
from ovor.events import Event, FeaturesExtracted, HeadStep, ImagesTested, TaskEnds, TrainStep
from ovor.experiments.folder import Folder
from ovor.experiments.grid import family
from ovor.experiments.runner import execute
from ovor.learners import METHODS, takes_vor

METHODS_WITH_VOR = [name for name in METHODS if takes_vor(name)]


@pytest.mark.parametrize("method", METHODS_WITH_VOR)
def test_what_comes_from_the_cache_is_what_the_run_would_have_computed(
    method: str, tiny_run: Run, tmp_path: Path
) -> None:
    run = replace(tiny_run, method=method)
    assert run.vor is not None
    other = replace(run, vor=replace(run.vor, weight=5.0, hinge="mse", terms="current"))
    assert family(run) == family(other)
    cache = tmp_path / "cache"
    events: list[type] = []
    first = execute(run, Folder(tmp_path / "first"), vor_cache=cache)
    shared = execute(
        other, Folder(tmp_path / "shared"), lambda e: events.append(type(e)), vor_cache=cache
    )
    alone = execute(other, Folder(tmp_path / "alone"))
    assert shared["accuracy"] == alone["accuracy"]
    assert Folder(tmp_path / "shared").weights.read_bytes() == (
        Folder(tmp_path / "alone").weights.read_bytes()
    )
    assert Folder(tmp_path / "first").weights.read_bytes() != (
        Folder(tmp_path / "alone").weights.read_bytes()
    )
    assert first["learnable_parameters"] == alone["learnable_parameters"]
    # No image went through the network again, but for what SLCA does after a task.
    assert not {TrainStep, FeaturesExtracted, ImagesTested} & set(events)
    assert HeadStep in events


def test_a_run_stopped_between_two_tasks_continues_from_the_cache(
    tiny_run: Run, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    whole = execute(tiny_run, Folder(tmp_path / "whole"), vor_cache=cache)

    def stop(event: Event) -> None:
        if isinstance(event, TaskEnds) and event.task == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(tiny_run, Folder(tmp_path / "stopped"), stop, vor_cache=cache)
    again = execute(tiny_run, Folder(tmp_path / "stopped"), vor_cache=cache)
    assert again["accuracy"] == whole["accuracy"]
    assert Folder(tmp_path / "stopped").weights.read_bytes() == (
        Folder(tmp_path / "whole").weights.read_bytes()
    )


def test_other_epochs_or_seeds_are_another_family(tiny_run: Run) -> None:
    assert tiny_run.vor is not None
    others = [
        replace(tiny_run, seed=1),
        replace(tiny_run, lr=0.5),
        replace(tiny_run, vor=replace(tiny_run.vor, epochs=1)),
        replace(tiny_run, vor=replace(tiny_run.vor, refresh="task")),
    ]
    assert family(tiny_run) not in {family(run) for run in others}
    assert family(replace(tiny_run, vor=None)) is None
