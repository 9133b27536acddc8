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
    check_place(path)
    beside = path.with_name(path.name + ".tmp")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def check_place(path: Path) -> None:
    """Can there be a file? Worth asking before long work, too."""
    if not path.parent.is_dir():
        raise OvorError(f"There is no folder {path.parent}: make it first.")
    if path.is_dir():
        raise OvorError(f"{path} is a folder: choose another name for the file.")


def save_tensors(path: Path, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
    on_cpu = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    # One metadata key: safetensors writes several in any order, and equal content must be equal
    # bytes.
    header = json.dumps({"meta": meta, "sha256": digest(on_cpu, meta)})
    write_atomically(path, save(on_cpu, {"ovor": header}))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {})["ovor"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        meta, expected = header["meta"], header["sha256"]
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise OvorError(
            f"{path} is truncated or not a file of ovor's: put a whole copy in its place, or "
            "delete it to start from the beginning."
        ) from error
    if digest(tensors, meta) != expected:
        raise OvorError(
            f"{path} is damaged, its content does not match its digest: put a whole copy in its "
            "place, or delete it to start from the beginning."
        )
    return tensors, meta


def digest(tensors: dict[str, Tensor], meta: dict[str, Any]) -> str:
    """SHA-256 of all that the file says."""
    content = hashlib.sha256(save(tensors))
    content.update(json.dumps(meta, sort_keys=True).encode())
    return content.hexdigest()
