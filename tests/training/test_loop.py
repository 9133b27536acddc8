"""The loop: schedule, phases, evaluation, and a resumed run that equals an unbroken one."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from ovor.analysis.cost import VIT_B
from ovor.config import Run
from ovor.data.folders import Files
from ovor.errors import OvorError
from ovor.events import (
    EpochEnds,
    Event,
    FeaturesExtracted,
    HeadStep,
    ImagesTested,
    MeansUpdated,
    TaskEnds,
)
from ovor.experiments.folder import Folder
from ovor.experiments.runner import execute, prepare
from ovor.learners import METHODS, takes_vor
from ovor.outliers import feature_buffer as store
from ovor.training import features as feed
from ovor.training import loop
from ovor.training.checkpointing import Checkpoints
from ovor.training.features import Features, training_batches
from ovor.training.loop import features_and_outliers, head_epoch, learn_epochs, lr_factors, train
from tiny import NARROW


# docs/methods.md, schedule: the first step is taken twice, and the end is not the nominal one. The
# head phase continues it, from `start`.
@pytest.mark.parametrize(
    ("epochs", "head", "start", "last"), [(50, 10, 0.327, 0.0474), (20, 4, 0.336, 0.0974)]
)
def test_paper_schedule(epochs: int, head: int, start: float, last: float) -> None:
    factors = lr_factors("paper", epochs)
    assert factors[:2] == [1.0, 1.0]
    assert factors[epochs - head] == pytest.approx(start, abs=5e-4)
    assert factors[-1] == pytest.approx(last, abs=5e-5)
    quarter = np.cos(99 * np.pi * np.arange(epochs) / (200 * (epochs - 1)))
    np.testing.assert_allclose(factors[1:], quarter[:-1])


def test_strict_cosine_and_one_epoch() -> None:
    assert lr_factors("cosine", 4) == pytest.approx([1, 0.5 + 0.5**1.5, 0.5, 0.5 - 0.5**1.5])
    assert lr_factors("paper", 1) == lr_factors("cosine", 1) == [1.0]


def events_of(run: Run, folder: Path) -> list[Event]:
    seen: list[Event] = []
    execute(run, Folder(folder), seen.append)
    return seen


def test_head_phase_leaves_the_prompt_and_changes_the_head(tiny_run: Run, tmp_path: Path) -> None:
    context, learner = prepare(tiny_run, tmp_path / "c")
    learner.begin_task(3, (0, 0))
    optimizer = torch.optim.Adam(learner.learnable(), lr=1e-2)
    states, rates = [], []
    for _ in learn_epochs(context, learner, Features(context), optimizer, 0, 0):
        rates.append(optimizer.param_groups[0]["lr"])
        states.append({k: v.clone() for k, v in learner.learned_state().items()})
    assert rates == pytest.approx([1e-2 * factor for factor in lr_factors("paper", 4)])
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
    seen = [e.images for e in events_of(run, results) if isinstance(e, FeaturesExtracted)]
    assert sum(seen) == passes * 60  # all training images, once a pass


def head_after(run: Run, folder: Path, **changes: Any) -> torch.Tensor:
    """The first task's head with some of VOR's settings changed."""
    assert run.vor is not None
    vor = replace(run.vor, tau_outlier=1.0, weight=1.0, **changes)
    context, learner = prepare(replace(run, vor=vor), folder / "c")
    learner.begin_task(3, (0, 0))
    for _ in learn_epochs(
        context, learner, Features(context), torch.optim.Adam(learner.learnable(), 1e-2), 0, 0
    ):
        pass
    return learner.learned_state()["head.tasks.0.weight"]


def test_each_control_gives_another_head_and_noise_matters_where_outliers_do(
    tiny_run: Run, tmp_path: Path
) -> None:
    assert tiny_run.vor is not None
    louder = replace(tiny_run.vor.npos, sigma=2.0)
    heads: list[torch.Tensor] = []
    for terms in ("none", "current", "outlier", "both"):
        head = head_after(tiny_run, tmp_path, terms=terms)
        assert not any(torch.equal(head, other) for other in heads)
        loud = head_after(tiny_run, tmp_path, terms=terms, npos=louder)
        assert torch.equal(head, loud) == (terms in ("none", "current"))
        heads.append(head)


def test_head_phase_is_cross_entropy_and_both_hinges_on_stored_features(
    tiny_run: Run, tmp_path: Path
) -> None:
    """One step by hand: labels go with their features, outliers with their own term."""
    assert tiny_run.vor is not None
    vor = replace(tiny_run.vor, tau_outlier=1.0)
    run = replace(tiny_run, vor=vor, batch_size=30)
    context, learner = prepare(run, tmp_path / "c")
    learner.begin_task(3, (0, 0))
    stored = features_and_outliers(context, learner, Features(context), vor, 0, 0)
    features, labels, outliers = stored
    part = learner.get_submodule("head.tasks.0")
    own, outside = part(features), part(outliers)
    expected = F.cross_entropy(own, labels) + vor.weight * (
        F.huber_loss((-own.logsumexp(1) + 5).relu(), torch.zeros(30))
        + F.huber_loss((1 + outside.logsumexp(1)).relu(), torch.zeros(24))
    )
    optimizer = torch.optim.SGD(part.parameters(), lr=0.0)
    loss = head_epoch(context, learner, optimizer, vor, stored, 0, 0)
    assert loss == pytest.approx(expected.item(), rel=1e-5)


def test_outliers_are_made_of_inference_features(tiny_run: Run, tmp_path: Path) -> None:
    """DualPrompt chooses its expert by key at inference, also in the pass that feeds VOR."""
    context, learner = prepare(replace(tiny_run, method="dualprompt"), tmp_path / "c")
    for task in (0, 1):
        learner.begin_task(len(context.tasks[task].classes), (0, task))
    keys = [learner.get_parameter(f"prompt.keys.{n}") for n in (0, 1)]
    with torch.no_grad():  # every query is nearer to the first task's key
        keys[1].copy_(-keys[0])
        query = learner.get_submodule("backbone")(torch.rand(8, 3, 14, 14)).mean(0)
        keys[0].copy_(query.expand_as(keys[0]))
        keys[1].copy_(-query.expand_as(keys[1]))
    assert tiny_run.vor is not None
    features, labels, outliers = features_and_outliers(
        context, learner, Features(context), tiny_run.vor, 1, 0
    )
    assert features.shape == (20, 64)
    assert sorted(set(labels.tolist())) == [0, 1]
    assert outliers.shape == (8 * 2, 64)
    assert not features.requires_grad
    images, _ = next(iter(training_batches(context, 1, 0, 8)))
    with torch.no_grad():
        torch.testing.assert_close(features[:8], learner.eval().features(images))
        assert not torch.allclose(features[:8], learner.train().features(images))


def test_outliers_of_apt_are_made_with_the_average_of_its_vectors(
    tiny_run: Run, tmp_path: Path
) -> None:
    """A task trains its own vectors; what VOR tightens is the head of what inference sees."""
    context, learner = prepare(replace(tiny_run, method="apt", options={"keep": 0.7}), tmp_path)
    vectors = []
    for task in (0, 1):
        learner.begin_task(len(context.tasks[task].classes), (0, task))
        with torch.no_grad():
            vectors.append(learner.get_parameter("prompt.prompts.0").add_(2.0 * task).clone())
    assert tiny_run.vor is not None
    features, *_ = features_and_outliers(context, learner, Features(context), tiny_run.vor, 1, 0)
    images, _ = next(iter(training_batches(context, 1, 0, 8)))
    with torch.no_grad():
        assert not torch.allclose(features[:8], learner.train().features(images))
        learner.get_parameter("prompt.prompts.0").copy_(0.7 * vectors[0] + 0.3 * vectors[1])
        torch.testing.assert_close(features[:8], learner.train().features(images))


@pytest.mark.parametrize("refresh", ["epoch", "task"])
def test_features_in_files_give_the_same_weights(
    tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refresh: str
) -> None:
    assert tiny_run.vor is not None
    run = replace(tiny_run, vor=replace(tiny_run.vor, refresh=refresh))
    learned = []
    for name, limit in {"memory": store.IN_MEMORY, "files": 0}.items():
        monkeypatch.setattr(store, "IN_MEMORY", limit)
        execute(run, Folder(tmp_path / name))
        learned.append((tmp_path / name / "weights.safetensors").read_bytes())
    assert learned[0] == learned[1]
    assert {path.name for path in (tmp_path / "memory").iterdir()} == {
        path.name for path in (tmp_path / "files").iterdir()
    }


def test_evaluations(tiny_run: Run, results: Path) -> None:
    """Each test image is seen once, and accuracy with the task given is never lower."""
    seen = [e for e in events_of(tiny_run, results) if isinstance(e, ImagesTested)]
    per_task = [sum(e.images for e in seen if e.task == t) for t in range(3)]
    assert per_task == [12, 12 + 8, 12 + 8 + 4]
    result = Folder(results).result()
    for row, given in zip(result["accuracy"], result["accuracy_task_id_given"], strict=True):
        assert all(g >= a for a, g in zip(row, given, strict=True) if a is not None)
    assert result["accuracy_task_id_given"][2][2] == 100  # one class: nothing to confuse
    assert result["accuracy"][0][1:] == [None, None]


class StopError(Exception):
    pass


@pytest.mark.parametrize(
    ("method", "refresh"),
    [*((method, "epoch") for method in (*METHODS, "anacp tuned")), ("dualprompt", "task")],
)
def test_resumed_equals_unbroken_wherever_it_was_stopped(
    method: str, refresh: Any, tiny_run: Run, tmp_path: Path
) -> None:
    assert tiny_run.vor is not None
    method, _, tuned = method.partition(" ")
    vor = replace(tiny_run.vor, refresh=refresh) if takes_vor(method) else None
    options = NARROW.get(method, {}) | ({"tuning": "adapter"} if tuned else {})
    run = replace(tiny_run, method=method, vor=vor, options=options)
    unbroken = Folder(tmp_path / "unbroken")
    events: list[Event] = []
    expected = execute(run, unbroken, events.append)
    reference = unbroken.weights.read_bytes()
    # In the middle of an epoch, of the feature pass, of the head phase, of a test, between tasks.
    count = 5 if method in ("oneprompt", "dualprompt") else 3
    stops = np.linspace(2, len(events) - 2, count).astype(int).tolist()
    if refresh == "task":  # in the second and last head epoch of the first task
        heads = [n for n, e in enumerate(events, 1) if isinstance(e, HeadStep) and e.epoch == 3]
        stops.append(heads[0])
    if method == "a-prompt":  # while it makes analogies
        looks = [n for n, e in enumerate(events) if isinstance(e, MeansUpdated) and e.task == 1]
        stops.append(looks[len(looks) // 2])
    for stop in stops:
        folder = Folder(tmp_path / f"stopped{stop}")
        before = iter(events[:stop])

        def interrupt(event: Event, before: Iterator[Any] = before) -> None:
            if next(before, None) is None:
                raise StopError

        with pytest.raises(StopError):
            execute(run, folder, interrupt)
        assert not folder.finished
        seen: list[Event] = []
        result = execute(run, folder, seen.append)
        finished = [e for e in events[:stop] if isinstance(e, EpochEnds)]
        redone = [e for e in seen if isinstance(e, EpochEnds)]
        whole = [e for e in events if isinstance(e, EpochEnds)]
        assert len(finished) + len(redone) == len(whole)  # nothing twice, nothing left out
        for key in ("accuracy", "accuracy_task_id_given", "class_right", "metrics"):
            assert result[key] == expected[key]
        assert folder.weights.read_bytes() == reference


def test_other_weights_do_not_continue_a_run(tiny_run: Run, tmp_path: Path) -> None:
    run = replace(tiny_run, backbone=str(tmp_path / "copy.safetensors"))
    content = Path(tiny_run.backbone).read_bytes()
    (tmp_path / "copy.safetensors").write_bytes(content)
    folder = Folder(tmp_path / "run")

    def interrupt(event: Event) -> None:
        if isinstance(event, TaskEnds):
            raise StopError

    with pytest.raises(StopError):
        execute(run, folder, interrupt)
    (tmp_path / "copy.safetensors").write_bytes(content[:-1] + b"\x3f")
    with pytest.raises(OvorError, match="other weights"):
        execute(run, folder)


def test_few_images_are_enough(tiny_run: Run, tmp_path: Path) -> None:
    """Fewer images than K, than alpha * C, and a class with one image."""
    context, learner = prepare(tiny_run, tmp_path / "c")
    part = context.tasks[0].train
    chosen = [0, 1, -1]  # two images of one class and one of another
    few = replace(part, indices=part.indices[chosen], labels=part.labels[chosen])
    assert len(set(few.labels.tolist())) == 2
    context = replace(context, tasks=(replace(context.tasks[0], train=few),))
    position = train(context, learner, Features(context), Checkpoints(context))
    assert all(torch.isfinite(t).all() for t in learner.learned_state().values())
    assert len(position.accuracy) == 1


def test_damaged_checkpoint_is_named(tiny_run: Run, results: Path) -> None:
    results.mkdir()
    folder = Folder(results)
    folder.start(tiny_run)
    folder.checkpoint.write_bytes(b"not a checkpoint")
    with pytest.raises(OvorError, match=r"checkpoint\.safetensors"):
        execute(tiny_run, folder)


@pytest.mark.parametrize("method", METHODS)
def test_what_is_known_of_test_images_is_what_would_be_computed_again(
    tiny_run: Run, tmp_path: Path, method: str
) -> None:
    """Queries of prompts, and features that no later task changes, to the bit."""
    options = NARROW.get(method, {})
    run = replace(tiny_run, method=method, options=options, vor=None, epochs=1)
    context, learner = prepare(run, tmp_path / "c")
    features = Features(context)
    train(context, learner, features, Checkpoints(context))
    last = len(context.tasks) - 1
    report = partial(ImagesTested, last)
    with torch.no_grad():
        for number in range(len(context.tasks)):
            known, _ = features.of_test(learner, last, number)
            later, _ = features.of_test(learner, last + 1, number)
            images = Features(context).test_images(number)
            again, _ = features.extract(learner.features, images, report)
            assert torch.equal(known, again)
            assert torch.equal(later, again)


@pytest.mark.parametrize(("method", "passes"), [("oneprompt", 1), ("l2p", 1), ("linear", 0)])
def test_a_task_tested_again_costs_one_pass_at_most(
    tiny_run: Run, tmp_path: Path, method: str, passes: int
) -> None:
    context, learner = prepare(replace(tiny_run, method=method, vor=None, epochs=1), tmp_path / "c")
    features = Features(context)
    train(context, learner, features, Checkpoints(context))
    counted = []
    learner.backbone.norm.register_forward_hook(lambda *_: counted.append(1))
    with torch.no_grad():
        features.of_test(learner, 2, 0)
        assert not counted  # the evaluation after the last task has computed it
        features.of_test(learner, 3, 0)
    assert len(counted) == passes * 2  # 12 test images in batches of 8


@pytest.mark.parametrize("method", METHODS)
def test_a_step_in_parts_has_the_gradients_of_the_whole(
    tiny_run: Run, tmp_path: Path, method: str
) -> None:
    """Up to rounding: sums of a few float32 numbers in another order."""
    run = replace(tiny_run, method=method, vor=None, options=NARROW.get(method, {}))
    context, learner = prepare(run, tmp_path / "c")
    for task in range(1 + (method == "rsiat")):  # which has pairs of images in the first task
        learner.begin_task(len(context.tasks[task].classes), (0, task))
    assert learner.separable
    images, labels = next(training_batches(context, task, 0, 8))
    labels = labels - context.tasks[task].start
    found = []
    for size in (8, 3):
        optimizer = torch.optim.SGD(learner.learnable() or [torch.zeros(1)], lr=0.0)
        if not learner.epochs(run, 0):
            pytest.skip("it has no steps")
        loss = loop.train_step(
            learner.train(), optimizer, torch.Tensor.backward, images, labels, size
        )
        gradients = [p.grad.clone() for p in learner.learnable() if p.grad is not None]
        found.append([loss, *gradients])
    assert len(found[0]) > 1
    for whole, in_parts in zip(*found, strict=True):
        torch.testing.assert_close(in_parts, whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("match", "largest"), [("sample", 1), ("batch", 8)])
def test_parts_are_small_unless_the_loss_looks_at_the_whole_batch(
    tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, match: str, largest: int
) -> None:
    """L2P's matching as released does."""
    monkeypatch.setattr("ovor.encoders.vit.KEPT_BLOCK", 1)
    run = replace(tiny_run, method="l2p", options={"match": match}, vor=None)
    context, learner = prepare(run, tmp_path / "c")
    learner.begin_task(3, (0, 0))
    sizes = []
    learner.prompt.register_forward_pre_hook(lambda _, queries: sizes.append(len(queries[0])))
    loop.train_epoch(context, learner, learner.optimizer(run), 0, 0)
    assert max(sizes) == largest
    assert sum(sizes) == 30  # every training image of the task, once


def test_vit_b_goes_in_parts_on_a_cpu_and_the_embedded_network_whole() -> None:
    from ovor.encoders import VisionTransformer, load_backbone

    with torch.device("meta"):
        vit_b = VisionTransformer(VIT_B)
    assert vit_b.batch(224) == 13  # 13 x 197 x 3072 floats are 30 MB
    assert load_backbone("embedded").encoder.batch(28) >= 128


@pytest.mark.parametrize(("limit", "read"), [(0, 24), (2**20, 12)])
def test_a_few_test_images_are_read_once(
    tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, read: int
) -> None:
    context, _ = prepare(tiny_run, tmp_path / "c")
    monkeypatch.setattr(feed, "KEPT_VIEWS", limit)
    paths = []
    plain = Files.image

    def noted(files: Files, index: int) -> Image.Image:
        paths.append(files.paths[index])
        return plain(files, index)

    monkeypatch.setattr(Files, "image", noted)
    features = Features(context)
    first, again = (list(features.test_images(0)) for _ in range(2))
    assert len(paths) == read
    for one, other in zip(first, again, strict=True):
        assert all(map(torch.equal, one, other))
