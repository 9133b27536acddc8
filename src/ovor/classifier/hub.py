"""Models shared through the Hugging Face hub, or through a folder that looks like a repository."""

import json
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ovor.classifier.file import read_model, write_model
from ovor.errors import OvorError

if TYPE_CHECKING:
    from ovor.classifier.model import Classifier

FILE = "model.ovor"
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
MARKUP = re.compile(r"[\\`*_\[\]<>#|~&$]")  # what Markdown may act on
MARK = "library_name: ovor"
CARD = """---
library_name: ovor
pipeline_tag: image-classification
tags: [class-incremental-learning, ovor]
---
# {title}

An image classifier made with ovor. It learned one task after another and keeps no image.

- Classes: {classes}, in {tasks} task(s)
- Method: {method}
- Backbone: {backbone}, SHA-256 {sha256}, {bundled} the file

```python
from ovor import Classifier

model = Classifier.from_pretrained({where})
labels, confidences, unknown = model.predict(["a.jpg"])
```

| task | classes | images |
|---|---|---|
{rows}
"""


def push(model: "Classifier", where: str | Path, *, private: bool = False) -> str:
    """Into a folder, or to the hub by the account that is logged in; returns where it is now."""
    if not is_folder(where):
        return publish(model, str(where), private)
    folder = Path(where).expanduser()
    if folder.exists() and not folder.is_dir():
        raise OvorError(f"{folder} is a file: give a folder (./name) or a repository (owner/name).")
    folder.mkdir(parents=True, exist_ok=True)
    check_is_ours(folder)
    put(model, folder, where)
    return str(folder)


def check_is_ours(folder: Path) -> None:
    """What was shared here before may be replaced, and nothing else."""
    page = folder / "README.md"
    shared = page.is_file() and MARK in page.read_text(encoding="utf-8", errors="replace")
    if not shared and (page.exists() or (folder / FILE).exists()):
        raise OvorError(
            f"{folder} has a README.md or {FILE} that was not shared from here: choose another "
            "folder."
        )


def publish(model: "Classifier", where: str, private: bool) -> str:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError

    api = HfApi()
    with tempfile.TemporaryDirectory() as name:
        put(model, Path(name), where)
        forget_paths(Path(name, FILE))
        try:
            api.create_repo(where, private=private, exist_ok=True)
            api.upload_folder(repo_id=where, folder_path=name, commit_message="Model from ovor")
        except HFValidationError as error:
            raise no_place(where) from error
        except Exception as error:  # every layer of the network has errors of its own
            raise OvorError(
                f"{where} cannot be written on the Hugging Face hub ({first_line(error)}): log in "
                "with `hf auth login`, check the name and the network, or give a folder."
            ) from error
    return where


def put(model: "Classifier", folder: Path, where: str | Path) -> None:
    model.save(folder / FILE)
    (folder / "README.md").write_text(card(model, where), encoding="utf-8")


def forget_paths(path: Path) -> None:
    """Where the backbone lies on this machine is not for everybody."""
    model = read_model(path)
    about = model.about
    name = Path(about.backbone.name).name
    run, backbone = replace(about.run, backbone=name), replace(about.backbone, name=name)
    write_model(path, replace(model, about=replace(about, run=run, backbone=backbone)))


def card(model: "Classifier", where: str | Path) -> str:
    about = model.about()
    rows = [
        f"| {number} | {', '.join(escaped(name) for name in task.classes)} | {sum(task.images)} |"
        for number, task in enumerate(about.tasks, 1)
    ]
    return CARD.format(
        title=escaped(Path(where).expanduser().resolve().name),
        where=json.dumps(str(where), ensure_ascii=False),
        classes=len(model.classes_),
        tasks=len(about.tasks),
        method=about.run.name,
        backbone=escaped(about.backbone.source),
        sha256=about.backbone.sha256[:12],
        bundled="inside" if about.backbone.bundled else "not in",
        rows="\n".join(rows),
    )


def escaped(name: str) -> str:
    """As Markdown in one line that shows it as it is."""
    return MARKUP.sub(r"\\\g<0>", " ".join(name.split()))


def fetch(where: str | Path, revision: str | None = None) -> Path:
    """The model file, in a folder or from the hub (then in its cache)."""
    if is_folder(where):
        path = Path(where).expanduser() / FILE
        if not path.is_file():
            raise OvorError(f"There is no {FILE} in {where}: give a folder that `ovor share` made.")
        return path
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import (
        EntryNotFoundError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        return Path(hf_hub_download(str(where), FILE, revision=revision))
    except HFValidationError as error:
        raise no_place(where) from error
    except RepositoryNotFoundError as error:
        raise OvorError(
            f"The Hugging Face hub has no {where} that you may read: check the name, or log in "
            "with `hf auth login`."
        ) from error
    except RevisionNotFoundError as error:
        raise OvorError(
            f"{where} has no revision {revision!r}: give a commit, branch or tag of it, or none."
        ) from error
    except LocalEntryNotFoundError as error:  # an EntryNotFoundError as well
        raise OvorError(
            f"The Hugging Face hub cannot be reached, and {where} is not in its cache: check the "
            "network, or give a folder."
        ) from error
    except EntryNotFoundError as error:
        raise OvorError(
            f"{where} has no {FILE}, so it was not shared by ovor: check the name."
        ) from error
    except Exception as error:  # every layer of the network has errors of its own
        raise OvorError(
            f"{where} cannot be fetched ({first_line(error)}): check the network, or give a folder."
        ) from error


def is_folder(where: str | Path) -> bool:
    """A path, or the name of a repository; whatever exists here is a path."""
    if isinstance(where, Path) or where.startswith((".", "/", "~")):
        return True
    if where and Path(where).exists():  # the empty path would be the current folder
        return True
    if REPOSITORY.fullmatch(where):
        return False
    raise no_place(where)


def no_place(where: str | Path) -> OvorError:
    return OvorError(
        f"{str(where)!r} is no place for a model: give a repository (owner/name) or a folder "
        "(./name)."
    )


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
