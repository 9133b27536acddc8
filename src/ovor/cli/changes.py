"""What the commands that change a model have in common: one process at a time, the file whole or
as it was, and what changed in plain words.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ovor
from ovor.classifier.lock import check_finished, locked
from ovor.data.modality import Words

Counts = dict[str, int]  # images by class


@dataclass(frozen=True)
class Change:
    """A model file before and after."""

    path: Path
    method: str
    before: Counts
    after: Counts
    words: Words

    @property
    def differing(self) -> dict[str, tuple[int, int]]:
        """The classes whose number of images changed: what it was, and what it is."""
        names = (*self.before, *(name for name in self.after if name not in self.before))
        both = {name: (self.before.get(name, 0), self.after.get(name, 0)) for name in names}
        return {name: counts for name, counts in both.items() if counts[0] != counts[1]}

    def as_json(self) -> dict[str, Any]:
        """Return what changed as values: images by class before and after, and all classes."""
        return {
            "model": str(self.path),
            "changed": {
                name: {"before": old, "after": new} for name, (old, new) in self.differing.items()
            },
            "classes": list(self.after),
        }

    def in_words(self) -> str:
        """Return what changed as the end of a sentence."""
        return "; ".join(told(name, *counts, self.words) for name, counts in self.differing.items())


def changed(
    path: Path, backbone: str | None, device: str, act: Callable[["ovor.Classifier"], object]
) -> Change:
    """Change the model in a file, while no other process may; whatever fails, it stays as it is."""
    with locked(path):
        check_finished(path)
        model = ovor.Classifier.load(path, backbone=backbone, device=device)
        before = counts_of(model)
        act(model)
        model.save(path)
    return Change(path, model.run().method, before, counts_of(model), model.reads.words)


def counts_of(model: "ovor.Classifier") -> Counts:
    """Return how many images of each class a model has learned."""
    pairs = (zip(task.classes, task.images, strict=True) for task in model.tasks_)
    return {name: count for task in pairs for name, count in task}


def told(name: str, old: int, new: int, words: Words) -> str:
    """Return what became of one class."""
    if not old:
        return f"{name!r} is there with {words.count(new)}"
    if not new:
        return f"{name!r} is gone"
    return f"{name!r} has {words.count(new)} instead of {old}"


def show(found: dict[str, Any], words: str, as_json: bool) -> None:
    """Print what a command did: one JSON value, or sentences."""
    print(json.dumps(found) if as_json else words)
