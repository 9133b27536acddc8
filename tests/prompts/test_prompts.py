"""The size of each prompt on ViT-B/16, as the cost table counts it, and what prompts share."""

import pytest
import torch

from ovor.encoders.vit import Architecture
from ovor.errors import OvorError
from ovor.prompts import PROMPTS
from ovor.prompts.base import matching
from ovor.prompts.orthogonal import orthogonality

VIT_B16 = Architecture(
    embed_dim=768, depth=12, num_heads=12, mlp_dim=3072, patch_size=16, in_chans=3, grid=(14, 14)
)
HEAD = 200 * 768 + 200


@pytest.mark.parametrize(
    ("name", "alone", "with_head"),
    [
        ("oneprompt", 107_520, 261_320),
        ("oneprompt-deep", 92_160, 245_960),
        ("l2p", 483_840, 637_640),
        ("dualprompt", 960_000, 1_113_800),
        ("coda-p", 3_840_000, 3_993_800),
    ],
)
def test_ten_tasks_on_vit_b16_cost_what_the_paper_says(name, alone, with_head):
    prompt = PROMPTS[name](PROMPTS[name].Options(), VIT_B16)
    generator = torch.Generator().manual_seed(0)
    for _ in range(10):
        prompt.begin_task(generator)
    count = sum(p.numel() for p in prompt.parameters())
    assert count == alone
    assert count + HEAD == with_head


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("oneprompt", {"lengths": (5,) * 13}),
        ("l2p", {"layers": (12,)}),
        ("dualprompt", {"general_lengths": (5,) * 13}),
        ("dualprompt", {"expert_layers": (11, 12)}),
        ("coda-p", {"layers": (0, 12)}),
    ],
)
def test_a_layer_that_the_backbone_does_not_have_is_the_users_error(name, options):
    with pytest.raises(OvorError, match="layers are 0 to 11"):
        PROMPTS[name](PROMPTS[name].Options(**options), VIT_B16)


def test_a_layer_named_twice_is_the_users_error():
    with pytest.raises(OvorError, match="twice"):
        PROMPTS["coda-p"](PROMPTS["coda-p"].Options(layers=(1, 1)), VIT_B16)


def test_matching_is_zero_at_cosine_one_and_the_mean_distance_elsewhere():
    assert matching(torch.ones(3, 2)) == 0
    assert matching(torch.tensor([1.0, 0.0, -1.0])) == 1


def test_orthogonality_is_zero_for_orthonormal_rows_only():
    assert orthogonality(torch.eye(3, 5)) == 0
    # Rows (2, 0) and (1, 1): the Gram matrix less I is (3, 2; 2, 1).
    assert orthogonality(torch.tensor([[2.0, 0.0], [1.0, 1.0]])) == (9 + 4 + 4 + 1) / 4
