"""Reading a file of weights in any accepted format, as tensors with timm's names.

Nothing here runs code from a file: pickles are read with `weights_only`, arrays without pickle.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from ovor.encoders import npz
from ovor.errors import OvorError

WRAPPERS = ("state_dict", "model", "teacher")  # teacher: self-distillation (DINO, iBOT)
UNUSED = ("head.", "head_dist.", "head/", "pre_logits.", "pre_logits/", "mask_token")
RENAMED = {"register_tokens": "reg_token"}  # DINOv2's own name: timm's


@dataclass(frozen=True)
class Weights:
    """What a file of weights holds."""

    tensors: dict[str, Tensor]  # timm's names, without the classification head
    num_heads: int | None = None  # where the file tells


def read_weights(path: Path, label: str) -> Weights:
    """Return what a file holds; `label` is what messages call it."""
    if path.suffix not in READERS:
        raise OvorError(
            f"{label} ends in {path.suffix or 'no suffix'}, but backbones are read from "
            f"{', '.join(READERS)}; convert the weights to one of these."
        )
    if not path.is_file():
        raise OvorError(
            f"there is no file {path}; check the path, or name a backbone: "
            '"embedded" or a timm name with its tag.'
        )
    found = READERS[path.suffix](path, label)
    tensors = {
        RENAMED.get(name, name): tensor.detach()
        for name, tensor in found.tensors.items()
        if not name.startswith(UNUSED)
    }
    return Weights(tensors, found.num_heads)


def damaged(label: str, kind: str) -> OvorError:
    return OvorError(f"{label} is truncated or not a {kind} file; download or copy it again.")


def read_safetensors(path: Path, label: str) -> Weights:
    try:
        return Weights(load_file(path))
    except SafetensorError as error:
        raise damaged(label, "safetensors") from error


def read_torch(path: Path, label: str) -> Weights:
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        with path.open("rb") as file:
            start = file.read(2)
        if start != b"PK" and start[:1] != b"\x80":  # neither torch's archive nor a pickle
            raise damaged(label, "PyTorch") from error
        raise OvorError(
            f"{label} holds Python objects besides tensors, and loading those could run any code; "
            "save the model's state_dict() alone with torch.save, or as safetensors."
        ) from error
    except Exception as error:  # a broken pickle raises almost anything, KeyError included
        raise damaged(label, "PyTorch") from error
    return Weights(strip_prefixes(unwrap(content, label)))


def unwrap(content: object, label: str) -> dict[str, Tensor]:
    """Find the state dict inside the dicts that training scripts put around it."""
    while isinstance(content, dict):
        inner = [content[key] for key in WRAPPERS if isinstance(content.get(key), dict)]
        if not inner:
            break
        content = inner[0]
    if not isinstance(content, dict):
        raise OvorError(
            f"{label} holds a {type(content).__name__}, not a state dict; "
            "save the model's state_dict() with torch.save."
        )
    strange = [str(key) for key, value in content.items() if not isinstance(value, Tensor)]
    if strange:
        raise OvorError(
            f"{label} holds more than tensors ({abridge(strange)}), and no state dict under "
            f"{' or '.join(WRAPPERS)}; save the model's state_dict() alone."
        )
    return {str(key): value for key, value in content.items()}


def strip_prefixes(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Undo DataParallel's `module.`, and drop what is not of the `backbone.`, such as heads."""
    for prefix in ("module.", "backbone."):
        if any(name.startswith(prefix) for name in tensors):
            tensors = {
                name.removeprefix(prefix): tensor
                for name, tensor in tensors.items()
                if name.startswith(prefix)
            }
    return tensors


def read_npz(path: Path, label: str) -> Weights:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except Exception as error:  # zip, zlib and numpy each have errors of their own
        raise damaged(label, "NumPy .npz") from error
    try:
        named = npz.to_timm(arrays)
        tensors = {
            name: torch.from_numpy(np.asarray(array, np.float32)) for name, array in named.items()
        }
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise OvorError(
            f"{label} is not in the AugReg layout ({error}); convert the weights to timm's names "
            "and save them as safetensors."
        ) from error
    return Weights(tensors, npz.count_heads(arrays))


def abridge(names: list[str]) -> str:
    """Return the first three names, and how many more there are."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


READERS: dict[str, Callable[[Path, str], Weights]] = {
    ".safetensors": read_safetensors,
    ".pth": read_torch,
    ".pt": read_torch,
    ".bin": read_torch,
    ".npz": read_npz,
}
