"""The prompt learner in low precision: only the ViT is, and what is learned stays float32."""

from functools import partial

import pytest
import torch

from ovor.encoders import load_backbone
from ovor.learners import build_learner
from ovor.prompts import PROMPTS


@pytest.mark.parametrize("method", PROMPTS)
def test_features_head_and_loss_are_float32_under_bfloat16(method: str, tiny_backbone: str) -> None:
    autocast = partial(torch.autocast, "cpu", torch.bfloat16)
    vit = load_backbone(tiny_backbone).vit
    low = build_learner(method, {}, vit, autocast)
    low.begin_task(3, (0, 0))
    images = torch.rand(6, 3, 14, 14, generator=torch.Generator().manual_seed(0))
    # Without oneDNN: on some virtual machines its bfloat16 kernels are illegal instructions.
    with torch.backends.mkldnn.flags(enabled=False):
        features = low.features(images)
        loss = low.loss(images, torch.arange(6) % 3)
        loss.backward()
    assert features.dtype == low.logits(features).dtype == loss.dtype == torch.float32
    for parameter in low.learnable():
        assert parameter.dtype == torch.float32
        assert parameter.grad is None or torch.isfinite(parameter.grad).all()
    exact = build_learner(method, {}, vit, partial(torch.autocast, "cpu", enabled=False))
    exact.begin_task(3, (0, 0))
    difference = (exact.features(images) - features).abs().max()
    assert 0 < difference < 1  # bfloat16 was used, and rounds only
