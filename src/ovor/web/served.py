"""The model that answers: a file's content at some time, and which one of this server's life."""

import os
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from ovor.classifier.model import Classifier
from ovor.web.settings import Settings

Mark = tuple[int, int, int]  # changes when the file is replaced


@dataclass(frozen=True, eq=False)
class Served:
    model: Classifier
    version: int
    mark: Mark

    @property
    def classes(self) -> list[str]:
        return [name for names in self.tasks for name in names]

    @property
    def tasks(self) -> list[tuple[str, ...]]:
        return [task.classes for task in self.model.tasks_]


def mark_of(path: Path) -> Mark:
    found = os.stat(path)
    return found.st_mtime_ns, found.st_size, found.st_ino


def load(settings: Settings, version: int) -> Served:
    """Ready to answer: what the first forward pass has to set up is set up."""
    mark = mark_of(settings.model) if settings.model.exists() else (0, 0, 0)
    model = Classifier.load(settings.model, backbone=settings.backbone, device=settings.device)
    side = model.transform().size
    model.answer([Image.new("RGB", (side, side))])
    return Served(model, version, mark)
