"""Models shared through the Hugging Face hub, or through a folder that looks like a repository."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ovor.config import OvorError

if TYPE_CHECKING:
    from ovor.classifier import Classifier

FILE = "model.ovor"
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
CARD = """---
library_name: ovor
pipeline_tag: image-classification
tags: [class-incremental-learning, ovor]
---
# {title}

An image classifier made with ovor, which learned {classes} classes in {tasks} tasks, one after
another, and keeps no image. Method: {method}. Backbone: {backbone} (SHA-256 {sha256}),
{bundled} the file.

```python
from ovor import Classifier

model = Classifier.from_pretrained("{where}")
labels, confidences, unknown = model.predict(["a.jpg"])
```

| task | classes | images |
|---|---|---|
{rows}
"""


def push(model: "Classifier", where: str, *, private: bool = False) -> str:
    """Into a folder, or to the hub by the account that is logged in; returns where it is now."""
    if is_folder(where):
        folder = Path(where).expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        put(model, folder, where)
        return str(folder)
    import tempfile

    from huggingface_hub import HfApi

    api = HfApi()
    with tempfile.TemporaryDirectory() as folder_name:
        put(model, Path(folder_name), where)
        try:
            api.create_repo(where, private=private, exist_ok=True)
            api.upload_folder(
                repo_id=where, folder_path=folder_name, commit_message="Model from ovor"
            )
        except Exception as error:  # every layer of the network has errors of its own
            raise OvorError(
                f"{where} cannot be written on the Hugging Face hub ({first_line(error)}): log in "
                "with `hf auth login`, check the name, or give a folder."
            ) from error
    return where


def put(model: "Classifier", folder: Path, where: str) -> None:
    model.save(folder / FILE)
    (folder / "README.md").write_text(card(model, where), encoding="utf-8")


def card(model: "Classifier", where: str) -> str:
    about = model.about()
    rows = [
        f"| {number} | {', '.join(escaped(name) for name in task.classes)} | {sum(task.images)} |"
        for number, task in enumerate(about.tasks, 1)
    ]
    return CARD.format(
        title=Path(where).name,
        where=where,
        classes=len(model.classes_),
        tasks=len(about.tasks),
        method=about.run.name,
        backbone=about.backbone.name,
        sha256=about.backbone.sha256[:12],
        bundled="inside" if about.backbone.bundled else "not in",
        rows="\n".join(rows),
    )


def escaped(name: str) -> str:
    return name.replace("|", "\\|").replace("\n", " ")


def fetch(where: str, revision: str | None = None) -> Path:
    """The model file, in a folder or from the hub (then in its cache)."""
    if is_folder(where):
        path = Path(where).expanduser() / FILE
        if not path.is_file():
            raise OvorError(f"There is no {FILE} in {where}: give a folder that `ovor share` made.")
        return path
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, RepositoryNotFoundError

    try:
        return Path(hf_hub_download(where, FILE, revision=revision))
    except RepositoryNotFoundError as error:
        raise OvorError(
            f"The Hugging Face hub has no {where} that you may read: check the name, or log in "
            "with `hf auth login`."
        ) from error
    except EntryNotFoundError as error:
        raise OvorError(f"{where} has no {FILE}: it was not shared by ovor.") from error
    except Exception as error:  # every layer of the network has errors of its own
        raise OvorError(
            f"{where} cannot be fetched ({first_line(error)}): check the network, or give a folder "
            "or a model file."
        ) from error


def is_folder(where: str) -> bool:
    """A path, or the name of a repository; whatever exists here is a path."""
    if where.startswith((".", "/", "~")) or Path(where).exists():
        return True
    if REPOSITORY.fullmatch(where):
        return False
    raise OvorError(
        f"{where!r} is no place for a model: give a repository (owner/name) or a folder (./name)."
    )


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
