import pytest
import torch
import torch.nn.functional as F

from ovor.prompts.dualprompt import DualPrompt

from .small import ARCH, begin


def make(tasks, **options):
    options = {"general_lengths": (2,), "expert_length": 3, "expert_layers": (1, 2), **options}
    prompt = DualPrompt(DualPrompt.Options(**options), ARCH)
    return begin(prompt, tasks)


def test_training_uses_the_current_task_whatever_the_query(query):
    prompt = make(3)
    prefixes, loss = prompt.train()(query)
    for place, layer in enumerate((1, 2)):
        for part in (0, 1):
            assert torch.equal(prefixes[layer][part][0], prompt.experts[2][place, part])
    cosines = [
        F.cosine_similarity(q, prompt.keys[2][place], dim=0) for q in query for place in (0, 1)
    ]
    torch.testing.assert_close(loss, 1 - sum(cosines) / 8)


def test_inference_takes_the_nearest_key_of_each_layer(query):
    prompt = make(3).eval()
    with torch.no_grad():  # layer 1 knows query b as task b's; layer 2 the other way round
        for task in range(3):
            prompt.keys[task].copy_(torch.stack([5 * query[task], 0.1 * query[2 - task]]))
    prefixes, loss = prompt(query[:3])
    for b in range(3):
        for part in (0, 1):
            assert torch.equal(prefixes[1][part][b], prompt.experts[b][0, part])
            assert torch.equal(prefixes[2][part][b], prompt.experts[2 - b][1, part])
    torch.testing.assert_close(loss, torch.tensor(0.0), atol=1e-6, rtol=0)


def test_search_all_may_take_an_expert_that_no_task_has_trained_and_seen_may_not(query):
    prompt = make(2, search="all", pool=5).eval()
    with torch.no_grad():
        prompt.keys[4].copy_(query[:1].expand(2, -1))
    assert torch.equal(prompt(query[:1])[0][1][0][0], prompt.experts[4][0, 0])
    assert len(make(2, search="seen", pool=5).keys) == 2


def test_the_pool_of_search_all_grows_when_more_tasks_come(query):
    prompt = make(4, search="all", pool=3)
    assert torch.equal(prompt.train()(query)[0][1][0][0], prompt.experts[3][0, 0])


@pytest.mark.parametrize("search", ["seen", "all"])
def test_only_the_current_expert_and_the_general_prompt_learn(search):
    prompt = make(2, search=search, pool=4)
    learning = {name for name, p in prompt.named_parameters() if p.requires_grad}
    assert learning == {"general.prompts.0", "keys.1", "experts.1"}


@pytest.mark.parametrize("training", [True, False])
def test_a_layer_with_both_kinds_has_the_expert_first(query, training):
    prompt = make(1, general_lengths=(2, 2)).train(training)
    keys, values = prompt(query)[0][1]
    for part, tokens in enumerate((keys, values)):
        for row in tokens:
            expected = torch.cat([prompt.experts[0][0, part], prompt.general.prompts[1][part]])
            assert torch.equal(row, expected)
