"""The growing head against the released code's one Linear with masked logits (docs/methods.md)."""

from contextlib import nullcontext

import torch
import torch.nn.functional as F

from ovor.encoders import load_backbone
from ovor.learners import build_learner
from ovor.learners.head import GrowingHead


def grown() -> GrowingHead:
    head = GrowingHead(8)
    generator = torch.Generator().manual_seed(0)
    for classes in (3, 2, 4):
        head.begin_task(classes, generator)
    return head


def test_current_cross_entropy_equals_masking_the_rest_with_minus_infinity() -> None:
    head = grown().double()
    features = torch.randn(16, 8, dtype=torch.double, generator=torch.Generator().manual_seed(1))
    labels = torch.arange(16) % 4
    logits = head(features)
    masked = logits.clone()
    masked[:, :5] = -torch.inf
    released = F.cross_entropy(masked, labels + 5)
    ours = F.cross_entropy(head.current(features), labels)
    torch.testing.assert_close(ours, released, rtol=0, atol=1e-14)
    weight = head.tasks[-1].weight
    (expected,) = torch.autograd.grad(released, weight, retain_graph=True)
    (actual,) = torch.autograd.grad(ours, weight)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-14)


def test_only_the_newest_part_is_learnable() -> None:
    learnable = [name for name, p in grown().named_parameters() if p.requires_grad]
    assert learnable == ["tasks.2.weight", "tasks.2.bias"]


def test_initial_values_are_those_of_a_linear_layer() -> None:
    head = GrowingHead(400)
    head.begin_task(500, torch.Generator().manual_seed(0))
    weight = head.tasks[0].weight
    bound = 400**-0.5
    assert weight.abs().max() <= bound
    assert abs(weight.std().item() - bound / 3**0.5) < 0.01 * bound


def test_a_task_of_oneprompt_leaves_its_head_and_nothing_else(tiny_backbone: str) -> None:
    learner = build_learner("oneprompt", {}, load_backbone(tiny_backbone).vit, nullcontext)
    learner.begin_task(3, (0, 0))
    before, learned_before = learner.learned_state(), len(learner.learnable())
    for task in range(1, 5):
        learner.begin_task(3, (0, task))
    left = {name: t.shape for name, t in learner.learned_state().items() if name not in before}
    expected = {f"head.tasks.{n}.weight": (3, 64) for n in range(1, 5)}
    expected |= {f"head.tasks.{n}.bias": (3,) for n in range(1, 5)}
    assert left == expected
    assert len(learner.learnable()) == learned_before
