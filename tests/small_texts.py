"""A small text encoder of random weights in the hub's layout, and texts that it tells apart."""

import json
import string
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

TICKETS = {
    "account": [
        "I cannot log in to my account",
        "please reset my password",
        "my account is locked after a wrong password",
        "how do I change the password of my account",
        "the login page says my account is unknown",
        "I forgot my password and cannot log in",
    ],
    "billing": [
        "I was charged twice on my invoice",
        "the invoice shows a wrong amount",
        "please refund the amount that was charged",
        "my card was charged before the invoice came",
        "the amount on the invoice is too high",
        "refund the second charge on my card please",
    ],
    "delivery": [
        "where is my parcel",
        "the parcel did not arrive yet",
        "the courier left the parcel at a wrong door",
        "my parcel arrived with a broken box",
        "when will the courier arrive with my parcel",
        "tracking says the parcel is lost",
    ],
}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def words() -> list[str]:
    texts = [text for group in TICKETS.values() for text in group]
    known = {word for text in texts for word in text.lower().split()}
    letters = [*string.ascii_lowercase, *string.digits]
    return [*sorted(known - set(letters)), *letters, *(f"##{letter}" for letter in letters)]


def tokenizer(padding: int = 0) -> Tokenizer:
    """Return a tokenizer of BERT's kind; the id that fills up may be another than 0."""
    special = [*SPECIAL[1 : padding + 1], SPECIAL[0], *SPECIAL[padding + 1 :]]
    vocabulary = {word: number for number, word in enumerate([*special, *words()])}
    found = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    found.normalizer = normalizers.BertNormalizer(lowercase=True)
    found.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    around = [(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    found.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=around
    )
    found.add_special_tokens(SPECIAL)
    found.enable_truncation(8)  # as published ones have it: nothing may follow from it
    found.enable_padding(pad_id=padding, length=8)
    return found


def text_folder(folder: Path, padding: int = 0, **config: object) -> Path:
    """Write an encoder of two layers, 32 wide, as it is on the hub."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens = tokenizer(padding)
    said = {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "hidden_act": "gelu",
        "hidden_size": 32,
        "intermediate_size": 64,
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": 64,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "pad_token_id": padding,
        "type_vocab_size": 2,
        "vocab_size": tokens.get_vocab_size(),
        **config,
    }
    (folder / "config.json").write_text(json.dumps(said))
    (folder / "tokenizer.json").write_text(tokens.to_str())
    save_file(weights(tokens.get_vocab_size()), folder / "model.safetensors")
    return folder


def weights(vocabulary: int, width: int = 32, inner: int = 64) -> dict[str, torch.Tensor]:
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (vocabulary, width),
        "embeddings.position_embeddings.weight": (64, width),
        "embeddings.token_type_embeddings.weight": (2, width),
        "embeddings.LayerNorm.weight": (width,),
        "embeddings.LayerNorm.bias": (width,),
        "pooler.dense.weight": (width, width),
        "pooler.dense.bias": (width,),
    }
    linear = {f"attention.self.{part}": (width, width) for part in ("query", "key", "value")}
    linear |= {"attention.output.dense": (width, width)}
    linear |= {"intermediate.dense": (inner, width), "output.dense": (width, inner)}
    for layer in ("encoder.layer.0", "encoder.layer.1"):
        for name, shape in linear.items():
            shapes |= {f"{layer}.{name}.weight": shape, f"{layer}.{name}.bias": shape[:1]}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{layer}.{name}.weight": (width,), f"{layer}.{name}.bias": (width,)}
    draw = torch.Generator().manual_seed(0)
    small = {name: torch.randn(shape, generator=draw) / 6 for name, shape in shapes.items()}
    small["embeddings.word_embeddings.weight"] *= 6
    norms = {name: x + 1 for name, x in small.items() if name.endswith("LayerNorm.weight")}
    return small | norms


def csv_of(path: Path, classes: dict[str, list[str]] | None = None) -> Path:
    """Write texts as a table."""
    lines = [f'"{text}",{name}' for name, own in (classes or TICKETS).items() for text in own]
    path.write_text("\n".join(["text,label", *lines]) + "\n")
    return path
