"""The linear probe: features of the frozen network, and softmax regression on them."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from ovor.config import Run
from ovor.encoders import load_backbone
from ovor.experiments.runner import prepare
from ovor.learners.base import NoOptions
from ovor.learners.linear import LinearProbe
from ovor.learners.prompt import PromptLearner
from ovor.prompts.oneprompt import OnePrompt, OnePromptOptions
from ovor.training.features import Features, training_batches
from ovor.training.loop import learn_epochs


def images() -> torch.Tensor:
    return torch.rand(8, 3, 14, 14, generator=torch.Generator().manual_seed(0))


def test_it_is_a_prompt_learner_whose_prompt_is_empty(tiny_backbone: str) -> None:
    vit = load_backbone(tiny_backbone).vit
    empty = OnePrompt(OnePromptOptions(lengths=(0,)), vit.arch)
    prompted = PromptLearner(empty, vit, nullcontext)
    probe = LinearProbe(NoOptions(), vit, nullcontext)
    for learner in (prompted, probe):
        learner.begin_task(3, (0, 0))
    labels = torch.arange(8) % 3
    assert torch.equal(probe.features(images()), prompted.features(images()))
    assert torch.equal(probe.loss(images(), labels), prompted.loss(images(), labels))


def test_only_the_head_has_a_gradient(tiny_backbone: str) -> None:
    probe = LinearProbe(NoOptions(), load_backbone(tiny_backbone).vit, nullcontext)
    probe.requires_grad_(True)  # even if someone thawed the network
    probe.begin_task(3, (0, 0))
    probe.loss(images(), torch.arange(8) % 3).backward()  # type: ignore[no-untyped-call]
    with_gradient = {name for name, p in probe.named_parameters() if p.grad is not None}
    assert with_gradient == {"head.tasks.0.weight", "head.tasks.0.bias"}


@pytest.mark.parametrize("with_vor", [False, True])
def test_the_loop_trains_it_as_regression_on_fixed_features(
    with_vor: bool, tiny_run: Run, tmp_path: Path
) -> None:
    """Its epochs of cross-entropy by hand; VOR's come after, and change the head alone."""
    vor = tiny_run.vor if with_vor else None
    context, probe = prepare(replace(tiny_run, method="linear", vor=vor), tmp_path / "c")
    probe.begin_task(3, (0, 0))
    by_hand = torch.nn.Linear(64, 3)
    by_hand.load_state_dict(probe.get_submodule("head.tasks.0").state_dict())
    optimizer = probe.optimizer(context.run)
    plain = torch.optim.Adam(by_hand.parameters())
    phase = 2 if vor else 4
    for epoch, _ in learn_epochs(context, probe, Features(context), optimizer, 0, 0):
        weight = probe.get_parameter("head.tasks.0.weight")
        if epoch >= phase:
            assert not torch.allclose(weight, by_hand.weight)
            continue
        plain.param_groups[0]["lr"] = optimizer.param_groups[0]["lr"]
        for views, labels in training_batches(context, 0, epoch, context.run.batch_size):
            with torch.no_grad():
                features = context.backbone.vit(views)
            plain.zero_grad()
            F.cross_entropy(by_hand(features), labels).backward()  # type: ignore[no-untyped-call]
            plain.step()
        assert torch.equal(weight, by_hand.weight)
