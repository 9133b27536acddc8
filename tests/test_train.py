"""The loop: schedule, phases, evaluation, and a resumed run that equals an unbroken one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ovor.checkpoint import load_tensors
from ovor.config import OvorError, Run
from ovor.experiments.folder import Folder
from ovor.experiments.single import execute, prepare
from ovor.train import features_and_outliers, learn_task, lr_factors, train


# Values of methods.md, E: the first step is taken twice, and the end is not the nominal one.
@pytest.mark.parametrize(("epochs", "last"), [(50, 0.0474), (20, 0.0974)])
def test_paper_schedule(epochs: int, last: float) -> None:
    factors = lr_factors("paper", epochs)
    assert factors[:2] == [1.0, 1.0]
    assert factors[-1] == pytest.approx(last, abs=5e-5)
    quarter = np.cos(99 * np.pi * np.arange(epochs) / (200 * (epochs - 1)))
    np.testing.assert_allclose(factors[1:], quarter[:-1])


# The head phase of the paper starts and ends at these (methods.md, E).
@pytest.mark.parametrize(
    ("epochs", "head", "start", "end"), [(50, 10, 0.327, 0.047), (20, 4, 0.336, 0.097)]
)
def test_head_phase_continues_the_schedule(
    epochs: int, head: int, start: float, end: float
) -> None:
    factors = lr_factors("paper", epochs)
    assert factors[epochs - head] == pytest.approx(start, abs=5e-4)
    assert factors[-1] == pytest.approx(end, abs=5e-4)


def test_strict_cosine() -> None:
    assert lr_factors("cosine", 4) == pytest.approx([1, 0.5 + 0.5**1.5, 0.5, 0.5 - 0.5**1.5])


@pytest.mark.parametrize("schedule", ["paper", "cosine"])
def test_one_epoch_is_allowed(schedule: str) -> None:
    assert lr_factors(schedule, 1) == [1.0]


def events_of(run: Run, folder: Path) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []
    execute(run, Folder(folder), seen.append)
    return seen


def test_head_phase_leaves_the_prompt_and_changes_the_head(tiny_run: Run, tmp_path: Path) -> None:
    session, learner = prepare(tiny_run, tmp_path / "c")
    learner.begin_task(3, (0, 0))
    optimizer = torch.optim.Adam(learner.learnable(), lr=1e-2)
    states = []
    for _ in learn_task(session, learner, optimizer, 0, 0):
        states.append({k: v.clone() for k, v in learner.learned_state().items()})
    plain, head = states[1], states[3]  # after the last full epoch, and after the head phase
    prompts = [name for name in plain if name.startswith("prompt.")]
    assert prompts
    assert all(torch.equal(plain[name], head[name]) for name in prompts)
    assert not torch.equal(plain["head.tasks.0.weight"], head["head.tasks.0.weight"])
    assert not torch.equal(states[0][prompts[0]], plain[prompts[0]])


@pytest.mark.parametrize(("refresh", "passes"), [("epoch", 2), ("task", 1)])
def test_refresh_per_epoch_or_per_task(
    refresh: Any, passes: int, tiny_run: Run, results: Path
) -> None:
    assert tiny_run.vor is not None
    run = replace(tiny_run, vor=replace(tiny_run.vor, refresh=refresh))
    seen = [e["images"] for e in events_of(run, results) if e["event"] == "features"]
    assert sum(seen) == passes * 60  # all training images, once a pass


@pytest.mark.parametrize("terms", ["none", "current", "outlier", "both"])
def test_controls_differ(terms: Any, tiny_run: Run, tmp_path: Path) -> None:
    """Each control gives another head; without terms the noise has no say."""
    assert tiny_run.vor is not None
    heads = []
    for sigma in (1.0, 2.0):
        npos = replace(tiny_run.vor.npos, sigma=sigma)
        vor = replace(tiny_run.vor, terms=terms, npos=npos, tau_outlier=1.0)
        session, learner = prepare(replace(tiny_run, vor=vor), tmp_path / "c")
        learner.begin_task(3, (0, 0))
        for _ in learn_task(session, learner, torch.optim.Adam(learner.learnable(), 1e-2), 0, 0):
            pass
        heads.append(learner.learned_state()["head.tasks.0.weight"])
    assert torch.equal(*heads) == (terms in ("none", "current"))


def test_outliers_are_made_of_inference_features(tiny_run: Run, tmp_path: Path) -> None:
    session, learner = prepare(tiny_run, tmp_path / "c")
    learner.begin_task(3, (0, 0))
    assert tiny_run.vor is not None
    features, labels, outliers = features_and_outliers(session, learner, tiny_run.vor, 0, 0)
    assert features.shape == (30, 64)
    assert sorted(set(labels.tolist())) == [0, 1, 2]
    assert outliers.shape == (8 * 3, 64)
    assert not features.requires_grad


def test_each_test_image_is_seen_once_per_evaluation(tiny_run: Run, results: Path) -> None:
    seen = [e for e in events_of(tiny_run, results) if e["event"] == "test"]
    per_task = [sum(e["images"] for e in seen if e["task"] == t) for t in range(3)]
    assert per_task == [12, 12 + 8, 12 + 8 + 4]


def test_accuracy_with_the_task_given_is_never_lower(tiny_run: Run, results: Path) -> None:
    result = execute(tiny_run, Folder(results))
    for row, given in zip(result["accuracy"], result["accuracy_task_id_given"], strict=True):
        assert all(g >= a for a, g in zip(row, given, strict=True) if a is not None)
    assert result["accuracy_task_id_given"][2][2] == 100  # one class: nothing to confuse
    assert result["accuracy"][0][1:] == [None, None]


class StopError(Exception):
    pass


@pytest.mark.parametrize("method", ["oneprompt", "l2p", "dualprompt", "coda-p"])
def test_resumed_equals_unbroken_wherever_it_was_stopped(
    method: str, tiny_run: Run, tmp_path: Path
) -> None:
    run = replace(tiny_run, method=method)
    unbroken = Folder(tmp_path / "unbroken")
    events: list[dict[str, Any]] = []
    expected = execute(run, unbroken, events.append)
    reference, _ = load_tensors(unbroken.weights)
    # In the middle of an epoch, of the feature pass, of the head phase, of a test, between tasks.
    stops = np.linspace(2, len(events) - 2, 9).astype(int)
    for stop in stops.tolist():
        folder = Folder(tmp_path / f"stopped{stop}")
        count = 0

        def interrupt(event: dict[str, Any], stop: int = stop) -> None:
            nonlocal count
            count += 1
            if count == stop:
                raise StopError

        with pytest.raises(StopError):
            execute(run, folder, interrupt)
        assert not folder.finished
        result = execute(run, folder)
        for key in ("accuracy", "accuracy_task_id_given", "metrics"):
            assert result[key] == expected[key]
        weights, _ = load_tensors(folder.weights)
        assert weights.keys() == reference.keys()
        assert all(torch.equal(weights[name], reference[name]) for name in weights)


def test_few_images_are_enough(tiny_run: Run, tmp_path: Path) -> None:
    """Fewer images than K, than alpha * C, and a class with one image."""
    session, learner = prepare(tiny_run, tmp_path / "c")
    part = session.tasks[0].train
    few = replace(part, indices=part.indices[-2:], labels=part.labels[-2:])
    tasks = (replace(session.tasks[0], train=few),)
    position = train(replace(session, tasks=tasks), learner)
    assert all(torch.isfinite(t).all() for t in learner.learned_state().values())
    assert len(position.accuracy) == 1


def test_damaged_checkpoint_is_named(tiny_run: Run, results: Path) -> None:
    results.mkdir()
    folder = Folder(results)
    folder.start(tiny_run)
    folder.checkpoint.write_bytes(b"not a checkpoint")
    with pytest.raises(OvorError, match=r"checkpoint\.safetensors"):
        execute(tiny_run, folder)
