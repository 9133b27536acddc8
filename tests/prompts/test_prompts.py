"""What prompts share: layers that are refused, matching and orthogonality."""

import pytest
import torch

from ovor.analysis.cost import VIT_B
from ovor.errors import OvorError
from ovor.prompts import PROMPTS
from ovor.prompts.base import matching
from ovor.prompts.orthogonal import orthogonality


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("oneprompt", {"lengths": (5,) * 13}, "layers are 0 to 11"),
        ("l2p", {"layers": (12,)}, "layers are 0 to 11"),
        ("dualprompt", {"general_lengths": (5,) * 13}, "layers are 0 to 11"),
        ("dualprompt", {"expert_layers": (11, 12)}, "layers are 0 to 11"),
        ("coda-p", {"layers": (0, 12)}, "layers are 0 to 11"),
        ("coda-p", {"layers": (1, 1)}, "twice"),
        ("l2p", {"pool": 4}, "top_k=5 is more than pool=4"),
    ],
)
def test_options_that_are_the_users_error(name, options, words):
    with pytest.raises(OvorError, match=words):
        PROMPTS[name](PROMPTS[name].Options(**options), VIT_B)


def test_matching_is_zero_at_cosine_one_and_the_mean_distance_elsewhere():
    assert matching(torch.ones(3, 2)) == 0
    assert matching(torch.tensor([1.0, 0.0, -1.0])) == 1


def test_orthogonality_is_zero_for_orthonormal_rows_only():
    assert orthogonality(torch.eye(3, 5)) == 0
    # Rows (2, 0) and (1, 1): the Gram matrix less I is (3, 2; 2, 1).
    assert orthogonality(torch.tensor([[2.0, 0.0], [1.0, 1.0]])) == (9 + 4 + 4 + 1) / 4
