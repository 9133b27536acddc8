import pytest
import torch

from ovor.prompts.orthogonal import gram_schmidt, orthogonality

LAYERS, DIM = 3, 16


def draw(n, seed):
    return torch.randn(LAYERS, n, DIM, generator=torch.Generator().manual_seed(seed))


def less(v, basis):
    return v - sum(((v @ u) / (u @ u) * u for u in basis), torch.zeros(()))


def two_stages(past, new):
    """First the past is taken out of every vector, then the new before it, one after the other."""
    found = []
    for v in [less(v, past) for v in new]:
        left = less(v, found)
        found.append(left / left.norm())
    return torch.stack(found)


def released(past, new):
    """The released code: out of each draw, at once, all that came before it."""
    basis = list(past)
    for v in new:
        left = less(v, basis)
        basis.append(left / left.norm())
    return torch.stack(basis[len(past) :])


@pytest.mark.parametrize("sizes", [(), (2,), (4, 3)])
@pytest.mark.parametrize("by_loop", [two_stages, released])
def test_it_is_gram_schmidt_on_an_orthonormal_past(sizes, by_loop):
    past = []
    for seed, n in enumerate(sizes):
        past.append(gram_schmidt(past, draw(n, seed)))
    new = draw(5, 9)
    before = torch.cat([new[:, :0], *past], dim=1)
    expected = torch.stack([by_loop(p, v) for p, v in zip(before, new, strict=True)])
    torch.testing.assert_close(gram_schmidt(past, new), expected, atol=1e-5, rtol=0)


def test_a_past_that_training_moved_is_taken_out_first_and_as_it_is():
    past, new = draw(4, 0), draw(5, 1)
    expected = torch.stack([two_stages(p, v) for p, v in zip(past, new, strict=True)])
    found = gram_schmidt([past[:, :3], past[:, 3:]], new)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(orthogonality(found), torch.zeros(()), atol=1e-10, rtol=0)


@pytest.mark.parametrize("known", [14, 16, 19])
def test_beyond_the_last_direction_a_draw_keeps_its_own(known):
    past, new = draw(known, 0), draw(4, 1)
    room = max(0, DIM - known)
    found = gram_schmidt([past], new)
    own = new / new.norm(dim=-1, keepdim=True)
    torch.testing.assert_close(found[:, room:], own[:, room:])
    if room:
        expected = torch.stack([two_stages(p, v) for p, v in zip(past, new[:, :room], strict=True)])
        torch.testing.assert_close(found[:, :room], expected, atol=1e-5, rtol=0)
