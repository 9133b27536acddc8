import pytest
import torch

from ovor.prompts.coda import CodaP
from ovor.prompts.orthogonal import orthogonality

from .small import ARCH, begin


def make(tasks, **options):
    prompt = CodaP(CodaP.Options(**{"per_task": 3, "length": 2, "layers": (0, 2), **options}), ARCH)
    return begin(prompt, tasks)


def pools(prompt):
    return (prompt.keys, prompt.attention, prompt.components)


@pytest.mark.parametrize("training", [True, False])
def test_the_prompt_is_the_sum_of_all_components_by_attended_cosine(query, training):
    prompt = make(2).train(training)
    with torch.no_grad():  # nothing may depend on the unit norm of the start
        for p in prompt.parameters():
            p.mul_(torch.rand(p.shape[:2], generator=torch.Generator().manual_seed(2))[..., None])
    prefixes, _ = prompt(query)
    for place, layer in enumerate((0, 2)):
        for b, q in enumerate(query):
            expected = torch.zeros(2, 2, 16)
            for task in range(2):
                for n in range(3):
                    key, attention = prompt.keys[task][place, n], prompt.attention[task][place, n]
                    seen = q * attention
                    weight = seen @ key / (seen.norm() * key.norm())
                    expected += weight * prompt.components[task][place, n].view(2, 2, 16)
            torch.testing.assert_close(prefixes[layer][0][b], expected[0])
            torch.testing.assert_close(prefixes[layer][1][b], expected[1])


@pytest.mark.parametrize("tasks", [1, 3])
def test_tasks_start_orthonormal_to_each_other(tasks):
    for pool in pools(make(tasks)):
        whole = torch.cat(list(pool), dim=1)
        expected = torch.eye(3 * tasks).expand(2, -1, -1)
        torch.testing.assert_close(whole @ whole.mT, expected, atol=1e-5, rtol=0)


def test_a_new_task_has_unit_norm_and_subtracts_the_past_as_training_left_it():
    """v - sum_u (v.u / u.u) u over a past that is not orthogonal any more."""
    prompt, generator = make(1), torch.Generator().manual_seed(3)
    with torch.no_grad():
        for p in prompt.parameters():
            p.add_(0.3 * torch.rand(p.shape, generator=generator))
    drawn = torch.randn(2, 3, 16, generator=generator.clone_state())  # the keys come first
    prompt.begin_task(generator)
    for place in (0, 1):
        v = drawn[place, 0]
        left = v - sum((v @ u) / (u @ u) * u for u in prompt.keys[0][place])
        torch.testing.assert_close(prompt.keys[1][place, 0], left / left.norm())
    for pool in pools(prompt):
        torch.testing.assert_close(pool[1].norm(dim=-1), torch.ones(2, 3))


def test_more_components_than_dimensions_still_start_at_unit_norm_and_spread():
    prompt = make(8)  # 24 components in 16 dimensions
    keys = torch.cat(list(prompt.keys), dim=1)
    torch.testing.assert_close(keys.norm(dim=-1), torch.ones(2, 24))
    overlap = (keys @ keys.mT - torch.eye(24)).abs()
    assert overlap.max() < 0.99
    assert overlap[:, :16, :16].max() < 1e-3


def test_only_the_components_of_the_current_task_learn():
    learning = {name for name, p in make(3).named_parameters() if p.requires_grad}
    assert learning == {"keys.2", "attention.2", "components.2"}


def test_the_penalty_is_the_mean_over_layers_of_that_of_each_tensor(query):
    prompt = make(2, ortho=0.5)
    with torch.no_grad():
        for p in prompt.parameters():
            p.mul_(1.5)
    expected = sum(
        orthogonality(torch.cat(list(pool), dim=1)[place])
        for pool in pools(prompt)
        for place in (0, 1)
    )
    torch.testing.assert_close(prompt(query)[1], 0.5 * expected / 2)
    assert make(2, ortho=0.0)(query)[1] == 0
