import torch
import torch.nn.functional as F

from ovor.prompts.l2p import L2P

from .small import ARCH, begin


def make(**options):
    return begin(L2P(L2P.Options(pool=7, top_k=3, length=2, layers=(0, 2), **options), ARCH))


def ranking(prompt, query, layer):
    """Cosines (B, pool) and the three nearest of each query, one pair at a time."""
    keys = prompt.keys[0][layer]
    cosines = torch.stack(
        [torch.stack([q @ k / (q.norm() * k.norm()) for k in keys]) for q in query]
    )
    return cosines, [sorted(range(7), key=lambda j: -row[j].item())[:3] for row in cosines]


def test_a_query_takes_the_prompts_of_its_nearest_keys_in_order(query):
    prompt = make()
    prefixes, _ = prompt(query)
    for place, layer in enumerate((0, 2)):
        _, top = ranking(prompt, query, place)
        for b in range(4):
            stored = [prompt.prompts[0][place, j] for j in top[b]]
            for part in (0, 1):
                expected = torch.cat([s[part] for s in stored])  # k * P, D
                assert torch.equal(prefixes[layer][part][b], expected)


def test_sample_loss_pulls_a_key_to_the_queries_that_took_it(query):
    prompt = make(match="sample")
    losses = []
    for place in (0, 1):
        cosines, top = ranking(prompt, query, place)
        losses.append(sum(1 - cosines[b, j] for b in range(4) for j in top[b]) / 12)
    torch.testing.assert_close(prompt(query)[1], sum(losses) / 2)


def test_batch_loss_is_the_mean_over_all_pairs_of_a_query_and_a_key_taken_by_anyone(query):
    prompt = make(match="batch")
    losses = []
    for place in (0, 1):
        cosines, top = ranking(prompt, query, place)
        pairs = (1 - cosines)[:, torch.tensor(top)]
        assert pairs.shape == (4, 4, 3)
        losses.append(pairs.mean())
    torch.testing.assert_close(prompt(query)[1], sum(losses) / 2)


def test_batch_gradient_of_a_key_is_its_count_times_the_mean_gradient(query):
    """docs/methods.md: d loss / d k_j = -n_j / (B k) * mean_b d cos(q_b, k_j), per layer."""
    prompt = make(match="batch")
    prompt(query)[1].backward()
    for place in (0, 1):
        _, top = ranking(prompt, query, place)
        counts = torch.bincount(torch.tensor(top).flatten(), minlength=7)
        keys = prompt.keys[0][place].detach().clone().requires_grad_()
        F.cosine_similarity(query[:, None], keys, dim=-1).mean(0).sum().backward()
        expected = -counts[:, None] / 12 * keys.grad / 2  # two layers
        torch.testing.assert_close(prompt.keys[0].grad[place], expected)
        assert counts.min() < counts.max()


def test_the_loss_reaches_keys_only_and_the_prefix_reaches_prompts_only(query):
    prompt = make()
    prefixes, loss = prompt(query)
    loss.backward()
    assert prompt.prompts[0].grad is None
    assert prompt.keys[0].grad.abs().sum() > 0
    prompt.zero_grad()
    sum(p.sum() for prefix in prefixes.values() for p in prefix).backward()
    assert prompt.keys[0].grad is None
