"""Tensors and a JSON value in one safetensors file, written so that a crash leaves the old one."""

import hashlib
import json
from pathlib import Path
from typing import Any

from safetensors.torch import load, save
from torch import Tensor

from ovor.atomic import write_atomically
from ovor.errors import OvorError

OURS = b'{"__metadata__":{"ovor":'  # how the header begins, after eight bytes with its length

LONGEST = 100 * 2**20  # bytes of a header, as safetensors has it


def save_tensors(path: Path, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
    """Write tensors and a JSON value into one file, with a digest of both."""
    on_cpu = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    # One metadata key: safetensors writes several in any order, and equal content must be equal
    # bytes.
    header = json.dumps({"meta": meta, "sha256": digest(on_cpu, meta)})
    write_atomically(path, save(on_cpu, {"ovor": header}))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return what `save_tensors` wrote, or say that the file is damaged or another's."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise OvorError(
            f"{path} cannot be read ({error.strerror}): check the path and its permissions."
        ) from error
    try:
        tensors, meta, expected = parse(content)
        whole = digest(tensors, meta) == expected
    except Exception as error:  # damage shows in safetensors, JSON or torch, each with its errors
        if content[8 : 8 + len(OURS)] != OURS:
            raise OvorError(
                f"{path} is not a file that ovor wrote, or its beginning is lost: give another."
            ) from error
        whole = False
    if not whole:
        raise OvorError(
            f"{path} is truncated or damaged, its content does not match its digest: put a whole "
            "copy in its place, or delete it to start from the beginning."
        )
    return tensors, meta


def identity(path: Path) -> str | None:
    """Return the digest in the head of a file; None where there is no file, "" if it has none."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            return str(digest_in(file.read(min(length, LONGEST))))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return ""


def digest_in(header: bytes) -> Any:
    """Return the digest that the head of a file names."""
    return json.loads(json.loads(header)["__metadata__"]["ovor"])["sha256"]


def parse(content: bytes) -> tuple[dict[str, Tensor], dict[str, Any], str]:
    """Return the tensors, the JSON value and the digest of what `save_tensors` wrote."""
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(json.loads(content[8:start])["__metadata__"]["ovor"])
    meta, expected = header["meta"], header["sha256"]
    if not isinstance(meta, dict):
        raise TypeError("the JSON value must be an object")
    # A copy lies where torch puts it, at multiples of 64 bytes: elsewhere MKL may add up in another
    # order, and the last bits of a product would depend on where the file has its numbers.
    return {name: tensor.clone() for name, tensor in load(content).items()}, meta, expected


def digest(tensors: dict[str, Tensor], meta: dict[str, Any]) -> str:
    """Return the SHA-256 of tensors and a JSON value."""
    content = hashlib.sha256(save(tensors))
    content.update(json.dumps(meta, sort_keys=True).encode())
    return content.hexdigest()
