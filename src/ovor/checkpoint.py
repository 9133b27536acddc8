"""Tensors and a JSON value in one safetensors file, written so that a crash leaves the old one."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ovor.config import OvorError


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside the file, flush to disk, then rename over it."""
    beside = path.with_name(path.name + ".tmp")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def save_tensors(path: Path, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
    on_cpu = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    digest = hashlib.sha256(save(on_cpu)).hexdigest()
    write_atomically(path, save(on_cpu, {"ovor": json.dumps(meta), "sha256": digest}))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        meta = json.loads(header["ovor"])
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise OvorError(f"{path} cannot be read as an ovor file ({error}).") from error
    if hashlib.sha256(save(tensors)).hexdigest() != header.get("sha256"):
        raise OvorError(f"{path} is damaged: its content does not match its own digest.")
    return tensors, meta
