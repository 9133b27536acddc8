"""What every encoder that has a name promises, whoever made it."""

import copy
from collections import Counter

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ovor.config import Transform
from ovor.encoders import Backbone, Encoder, load_backbone
from ovor.encoders.weights import ENCODERS, build
from ovor.errors import OvorError
from rounding import LAYERS, rounding
from small_networks import TIMM, onnx_file, timm_folder
from small_texts import TICKETS, text_folder

# What begins with the name of its kind, by a small one of each.
EXAMPLES = {
    **{f"timm:{kind}": (timm_folder, kind) for kind in TIMM},
    "onnx:small": (lambda path, _: onnx_file(path), ""),
    "text:small": (lambda path, _: text_folder(path), ""),
    "text:filled-up-by-2": (lambda path, _: text_folder(path, 2), ""),
}
NAMED = [name for name in ENCODERS if not name.endswith(":")]


def test_every_kind_has_an_example() -> None:
    assert {name.partition(":")[0] + ":" for name in EXAMPLES} == set(ENCODERS) - set(NAMED)


@pytest.fixture(scope="module", params=[*NAMED, *EXAMPLES])
def backbone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Backbone:
    name = request.param
    if name in EXAMPLES:
        write, kind = EXAMPLES[name]
        path = write(tmp_path_factory.mktemp("network") / "small", kind)
        name = f"{name.partition(':')[0]}:{path}"
    try:
        return load_backbone(name)
    except OvorError as error:
        if "not installed" not in str(error):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def encoder(backbone: Backbone) -> Encoder:
    return backbone.encoder


# What an encoder reads, three of each kind that there is.
NOISE = np.random.default_rng(0).integers(0, 256, (3, 50, 40, 3), dtype=np.uint8)
ITEMS = {"images": list(NOISE), "texts": [TICKETS["billing"][0], "Hi", "a long story " * 90]}


def inputs(encoder: Encoder, size: int) -> Tensor:
    """Return what goes into an encoder of three items that it reads."""
    transform, reads = Transform(size=size, mean=0.5, std=0.3), encoder.reads
    views = [reads.view(reads.decoded(item), transform) for item in ITEMS[reads.many]]
    return encoder.tensor(torch.from_numpy(np.stack(views)), transform)


@pytest.fixture(scope="module")
def images(encoder: Encoder) -> Tensor:
    return inputs(encoder, encoder.input_size(0))


def everything(encoder: Encoder) -> range:
    return range(len(encoder.widths))


def test_it_says_where_its_weights_are_from_and_is_frozen(backbone: Backbone) -> None:
    kind, colon, _ = backbone.name.partition(":")
    assert kind + colon in ENCODERS
    assert backbone.source
    assert len(bytes.fromhex(backbone.sha256)) == 32
    assert not backbone.encoder.training
    assert not any(parameter.requires_grad for parameter in backbone.encoder.parameters())
    assert backbone.encoder.device == torch.device("cpu")


def test_every_depth_has_the_width_that_is_said_and_is_normalised(
    encoder: Encoder, images: Tensor
) -> None:
    found = encoder.depths(images, everything(encoder))
    assert found.dtype == torch.float32
    assert found.shape == (len(images), sum(encoder.widths))
    for part in found.split(encoder.widths, dim=1):
        assert part.mean(dim=1).abs().max() < 1e-5
        # The variance is 1 but for the small number that keeps a norm from dividing by zero.
        assert (part.square().mean(dim=1) - 1).abs().max() < 1e-2


def test_spreads_are_the_depths_with_more_behind_each_or_the_same(
    encoder: Encoder, images: Tensor
) -> None:
    depths = encoder.depths(images, everything(encoder)).split(encoder.widths, dim=1)
    found = encoder.spreads(images, everything(encoder))
    assert found.dtype == torch.float32
    parts = found.split(encoder.spread_widths, dim=1)
    for depth, part, alone in zip(everything(encoder), parts, depths, strict=True):
        assert torch.equal(part[:, : alone.shape[1]], alone)
        assert torch.equal(encoder.spreads(images, [depth]), part)


def test_depths_do_not_depend_on_what_else_is_read(encoder: Encoder, images: Tensor) -> None:
    together = encoder.depths(images, everything(encoder)).split(encoder.widths, dim=1)
    for depth in everything(encoder):
        assert torch.equal(encoder.depths(images, [depth]), together[depth])


def test_all_depths_are_read_in_one_pass(encoder: Encoder, images: Tensor) -> None:
    calls: Counter[nn.Module] = Counter()
    layers = [module for module in encoder.modules() if isinstance(module, LAYERS)]
    hooks = [
        layer.register_forward_hook(lambda module, *_: calls.update([module])) for layer in layers
    ]
    try:
        encoder.depths(images[:1], everything(encoder))
    finally:
        for hook in hooks:
            hook.remove()
    if not layers:
        pytest.skip("torch does not compute it: test_onnx.py counts its runs")
    assert calls
    assert max(calls.values()) == 1


def test_features_are_the_same_in_any_company_and_near_the_exact_ones(
    encoder: Encoder, images: Tensor
) -> None:
    together = encoder.depths(images, everything(encoder))
    alone = torch.cat([encoder.depths(image[None], everything(encoder)) for image in images])
    exact = copy.deepcopy(encoder).double().depths(images.double(), everything(encoder))
    near = rounding(encoder, exact)
    assert (together - alone).abs().max() <= near
    assert (together - exact).abs().max() <= near


def test_sizes_are_checked_and_batches_shrink_with_them(encoder: Encoder) -> None:
    own = encoder.image_size
    assert encoder.input_size(0) == own
    assert encoder.input_size(2 * own) == 2 * own
    with pytest.raises(OvorError, match=rf"\b{own}, its own"):
        encoder.input_size(1)
    assert 1 <= encoder.batch(2 * own) <= encoder.batch(own)


def test_it_takes_other_sizes_than_its_own(encoder: Encoder) -> None:
    size = encoder.input_size(2 * encoder.image_size)
    found = encoder.depths(inputs(encoder, size), everything(encoder))
    assert found.shape == (3, sum(encoder.widths))


def test_its_state_makes_it_again(backbone: Backbone, images: Tensor) -> None:
    if not backbone.encoder.bundles:
        pytest.skip("it says that it cannot")
    state = {name: tensor.contiguous() for name, tensor in backbone.encoder.bundled().items()}
    again = build(state, backbone.num_heads or None, "the file")
    every = everything(again)
    assert torch.equal(again.depths(images, every), backbone.encoder.depths(images, every))
