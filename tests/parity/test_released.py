"""What benchmarks measure against computes the same: losses, prompt gradients and predictions."""

import pytest
import torch

from benchmarks.models import (
    AS_RELEASED,
    METHODS,
    our_learner,
    random_batch,
    random_vit,
    released_learner,
)
from conftest import TINY

# Random float32 networks of five layers: sums in another order differ in the sixth digit.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.mark.parametrize("method", METHODS)
def test_same_loss_and_prompt_gradients(method: str) -> None:
    ours = our_learner(method, random_vit(TINY), 2, AS_RELEASED.get(method)).train()
    released = released_learner(ours).train()
    images, labels = random_batch(6, 20, TINY)
    learned = [p for p in ours.prompt.parameters() if p.requires_grad]
    loss = ours.loss(images, labels)
    theirs = released.loss(images, labels + released.start)
    torch.testing.assert_close(loss, theirs, **CLOSE)
    for a, b in zip(
        torch.autograd.grad(loss, learned), torch.autograd.grad(theirs, learned), strict=True
    ):
        torch.testing.assert_close(a, b, **CLOSE)


@pytest.mark.parametrize("method", METHODS)
def test_same_predictions(method: str) -> None:
    ours = our_learner(method, random_vit(TINY), tasks=2).eval()
    released = released_learner(ours).eval()
    images, labels = random_batch(6, 40, TINY)
    with torch.no_grad():
        logits = ours.logits(ours.features(images))
        torch.testing.assert_close(logits, released.logits(images)[0], **CLOSE)
    incremental, given = released.accuracies(images, labels, range(20, 40))
    assert incremental == pytest.approx((logits.argmax(1) == labels).float().mean())
    inside = logits[:, 20:].argmax(1) + 20
    assert given == pytest.approx((inside == labels).float().mean())
