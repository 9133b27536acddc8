"""What runs that differ in VOR's settings alone have in common, kept in files.

The head phase changes the current head and nothing else (Alg. 1, line 4), so prompts, features and
the head before the phase are the same for all of them: an ablation trains the network once.
"""

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import torch
from torch import Tensor

from ovor.data.batches import Pair
from ovor.tensor_file import load_tensors, save_tensors


class Stem:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder

    def pair(self, name: str, device: torch.device, compute: Callable[[], Pair]) -> Pair:
        """Features and labels, computed if no other run did."""
        path = self.folder / f"{name}.safetensors"
        if path.exists():
            tensors, _ = load_tensors(path)
            return tensors["features"].to(device), tensors["labels"].to(device)
        features, labels = compute()
        self.put(path, {"features": features, "labels": labels})
        return features, labels

    def keep(self, task: int, state: dict[str, Tensor]) -> None:
        """The state after the last epoch before the head phase, without the heads of old tasks."""
        old = tuple(f"learner.head.tasks.{number}." for number in range(task))
        own = {name: tensor for name, tensor in state.items() if not name.startswith(old)}
        self.put(self.folder / f"trained-{task}.safetensors", own)

    def trained(self, task: int) -> dict[str, Tensor] | None:
        path = self.folder / f"trained-{task}.safetensors"
        return load_tensors(path)[0] if path.exists() else None

    def put(self, path: Path, tensors: dict[str, Tensor]) -> None:
        """By a name of its own: two runs, on two machines even, may come to this at once."""
        mine = path.with_name(f"{uuid4().hex}-{path.name}")
        save_tensors(mine, tensors, {})
        if path.exists():  # the first one stays: another run may be reading it
            mine.unlink()
        else:
            mine.replace(path)
