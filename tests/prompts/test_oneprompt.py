import torch

from ovor.prompts.oneprompt import OnePrompt, OnePromptDeep

from .small import ARCH, begin


def lengths(prompt):
    return {layer: keys.shape[1] for layer, (keys, _) in prompt(None)[0].items()}


def test_lengths_are_tokens_per_layer_from_the_first_and_zero_leaves_a_layer_out():
    assert lengths(begin(OnePrompt(OnePrompt.Options(lengths=(3, 0, 4)), ARCH))) == {0: 3, 2: 4}


def test_deep_has_the_same_length_in_every_layer():
    prompt = begin(OnePromptDeep(OnePromptDeep.Options(length=2), ARCH))
    assert lengths(prompt) == dict.fromkeys(range(6), 2)


def test_starts_uniform_on_the_unit_interval():
    prompt = begin(OnePrompt(OnePrompt.Options(lengths=(500,)), ARCH))
    values = torch.cat([p.flatten() for p in prompt.parameters()])
    assert values.min() >= 0
    assert values.max() <= 1
    assert abs(values.mean() - 1 / 2) < 0.02
    assert abs(values.var() - 1 / 12) < 0.01


def test_keys_and_values_are_two_halves_of_what_is_stored():
    prompt = begin(OnePrompt(OnePrompt.Options(lengths=(3,)), ARCH))
    keys, values = prompt(None)[0][0]
    assert torch.equal(torch.cat([keys, values]), next(prompt.parameters()))
    assert not torch.equal(keys, values)


def test_all_of_it_stays_learnable_in_later_tasks():
    assert all(p.requires_grad for p in begin(OnePrompt(OnePrompt.Options(), ARCH), 3).parameters())
