"""What every prompt method promises to the learner; a new entry of PROMPTS is tested by itself."""

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from ovor.encoders.prefixed import Prefix
from ovor.encoders.vit import Architecture, VisionTransformer
from ovor.prompts import PROMPTS
from ovor.prompts.base import Prompt

from .example_prompt import TaskMean

TINY = Architecture(
    embed_dim=32, depth=6, num_heads=2, mlp_dim=64, patch_size=4, in_chans=3, grid=(2, 2)
)
# Switches that change what is allocated or selected are held to the same promises.
VARIANTS = {
    "l2p": [{"match": "batch", "layers": (0, 3)}],
    "dualprompt": [{"search": "all", "pool": 2, "expert_layers": (1, 2)}],
    "coda-p": [{"ortho": 0.1, "per_task": 20}],
}
METHODS = PROMPTS | {"example": TaskMean}
CASES = [
    pytest.param(cls, options, id="-".join([name, *options]))
    for name, cls in METHODS.items()
    for options in [{}, *VARIANTS.get(name, [])]
]

pytestmark = pytest.mark.parametrize(("cls", "options"), CASES)


def build(cls: type[Prompt], options: dict, tasks: int, seed: int = 0) -> Prompt:
    prompt = cls(cls.Options(**options), TINY)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(tasks):
        prompt.begin_task(generator)
    return prompt


def queries(count: int = 4) -> Tensor:
    return torch.randn(count, TINY.embed_dim, generator=torch.Generator().manual_seed(7))


def ask(prompt: Prompt, query: Tensor) -> tuple[dict[int, Prefix], Tensor]:
    return prompt(query if prompt.needs_query else None)


def assert_same(one: dict[int, Prefix], other: dict[int, Prefix], **tolerance: float) -> None:
    assert one.keys() == other.keys()
    for layer in one:
        for a, b in zip(one[layer], other[layer], strict=True):
            torch.testing.assert_close(a, b, **tolerance or {"rtol": 0, "atol": 0})


def train_once(prompt: Prompt) -> None:
    """One step as the learner does it: a new Adam over what the task may learn."""
    optimizer = torch.optim.Adam([p for p in prompt.parameters() if p.requires_grad], lr=1e-2)
    vit = VisionTransformer(TINY).requires_grad_(False)
    for p in vit.parameters():
        torch.nn.init.normal_(p, std=0.2, generator=torch.Generator().manual_seed(3))
    tokens = vit.embed(torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(4)))
    prefixes, loss = ask(prompt.train(), vit.encode(tokens))
    (vit.encode(tokens, prefixes).square().mul(torch.arange(32)).sum() + loss).backward()
    optimizer.step()


@pytest.mark.parametrize("training", [True, False])
def test_gives_prefixes_to_layers_of_the_backbone_and_a_scalar_loss(cls, options, training):
    prefixes, loss = ask(build(cls, options, 2).train(training), queries())
    assert loss.shape == ()
    assert loss.isfinite()
    assert prefixes
    for layer, (keys, values) in prefixes.items():
        assert 0 <= layer < TINY.depth
        assert keys.shape == values.shape
        batch, length, dim = keys.shape
        assert batch in (1, 4)
        assert length > 0
        assert dim == TINY.embed_dim


def test_the_seed_of_the_generator_decides_everything(cls, options):
    one, same, other = (build(cls, options, 2, seed).eval() for seed in (0, 0, 1))
    assert_same(ask(one, queries())[0], ask(same, queries())[0])
    with pytest.raises(AssertionError):
        assert_same(ask(one, queries())[0], ask(other, queries())[0])


def test_leaves_the_global_generator_alone(cls, options):
    state = torch.get_rng_state()
    prompt = build(cls, options, 2)
    ask(prompt.train(), queries())
    ask(prompt.eval(), queries())
    assert torch.equal(torch.get_rng_state(), state)


def test_what_was_saved_is_loaded_after_as_many_tasks(cls, options):
    saved = build(cls, options, 3)
    train_once(saved)
    loaded = build(cls, options, 3, seed=9)
    loaded.load_state_dict(saved.state_dict(), strict=True)
    for training in (True, False):
        one, loss = ask(saved.train(training), queries())
        other, same_loss = ask(loaded.train(training), queries())
        assert_same(one, other)
        assert torch.equal(loss, same_loss)
    learnable = [[p.requires_grad for p in prompt.parameters()] for prompt in (saved, loaded)]
    assert learnable[0] == learnable[1]


@pytest.mark.parametrize("tasks", [1, 3])
def test_a_task_changes_all_that_it_may_learn_and_nothing_else(cls, options, tasks):
    prompt = build(cls, options, tasks)
    before = {name: p.detach().clone() for name, p in prompt.named_parameters()}
    train_once(prompt)
    assert any(p.requires_grad for p in prompt.parameters())
    for name, p in prompt.named_parameters():
        assert torch.equal(p, before[name]) != p.requires_grad, name
        assert p.requires_grad or p.grad is None, name


def test_a_new_task_leaves_the_values_of_the_old_ones(cls, options):
    prompt = build(cls, options, 1)
    generator = torch.Generator().manual_seed(5)
    for _ in range(3):
        train_once(prompt)
        before = {name: p.detach().clone() for name, p in prompt.named_parameters()}
        prompt.begin_task(generator)
        after = dict(prompt.named_parameters())
        assert all(torch.equal(after[name], value) for name, value in before.items())


def test_at_inference_a_sample_alone_gets_what_it_gets_in_a_batch(cls, options):
    prompt = build(cls, options, 3).eval()
    together, _ = ask(prompt, queries())
    for i, query in enumerate(queries()):
        alone, _ = ask(prompt, query[None])
        row = {
            layer: tuple(p.expand(4, -1, -1)[i : i + 1] for p in prefix)
            for layer, prefix in together.items()
        }
        assert_same(alone, row, rtol=1e-5, atol=1e-6)


def test_rejects_an_option_that_it_does_not_have(cls, options):
    with pytest.raises(ValidationError):
        cls.Options(**options, no_such_option=1)


def test_every_option_has_a_default_and_cannot_be_set_later(cls, options):
    defaults = cls.Options()
    for name in cls.Options.__dataclass_fields__:
        with pytest.raises(AttributeError):
            setattr(defaults, name, getattr(defaults, name))
