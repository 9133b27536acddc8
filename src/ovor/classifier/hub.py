"""Models shared through the Hugging Face hub, or through a folder that looks like a repository.

What needs huggingface_hub imports it there: most that share or fetch nothing do without.
"""

import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ovor.atomic import write_atomically
from ovor.classifier.file import Description, read_model, write_model
from ovor.data.modality import WORDS
from ovor.errors import OvorError

Save = Callable[[Path], None]  # writes a model file

FILE = "model.ovor"
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
MARKUP = re.compile(r"[\\`*_\[\]<>#|~&$]")  # what Markdown may act on
MARK = "library_name: ovor"
CARD = """---
library_name: ovor
pipeline_tag: {one}-classification
tags: [class-incremental-learning, ovor]
---
# {title}

A classifier of {many} made with ovor. It learned one lesson after another and keeps no {one}.

- Classes: {classes}, in {tasks} lesson(s)
- Method: {method}
- Backbone: {backbone}, SHA-256 {sha256}, {bundled} the file

```python
from ovor import Classifier

model = Classifier.from_pretrained({where})
labels, confidences, unknown = model.classify({example})
```

| lesson | classes | {many} |
|---|---|---|
{rows}
"""


def push(save: Save, about: Description, where: str | Path, *, private: bool = False) -> str:
    """Put a model and its page into a folder, or on the hub by the account that is logged in.

    Returns where it is now.
    """
    if not is_folder(where):
        return publish(save, about, str(where), private)
    folder = Path(where).expanduser()
    if folder.exists() and not folder.is_dir():
        raise OvorError(f"{folder} is a file: give a folder (./name) or a repository (owner/name).")
    folder.mkdir(parents=True, exist_ok=True)
    check_is_ours(folder)
    put(save, about, folder, where)
    return str(folder)


def check_is_ours(folder: Path) -> None:
    """Refuse a folder with files that were not shared from here: those alone are replaced."""
    page = folder / "README.md"
    shared = page.is_file() and MARK in page.read_text(encoding="utf-8", errors="replace")
    if not shared and (page.exists() or (folder / FILE).exists()):
        raise OvorError(
            f"{folder} has a README.md or {FILE} that was not shared from here: choose another "
            "folder."
        )


def publish(save: Save, about: Description, where: str, private: bool) -> str:
    """Upload a model and its page to the hub; returns the repository."""
    from huggingface_hub import HfApi, errors

    api = HfApi()
    with tempfile.TemporaryDirectory() as name:
        put(save, about, Path(name), where)
        forget_paths(Path(name, FILE))
        try:
            api.create_repo(where, private=private, exist_ok=True)
            api.upload_folder(repo_id=where, folder_path=name, commit_message="Model from ovor")
        except errors.HFValidationError as error:
            raise no_place(where) from error
        except Exception as error:  # every layer of the network has errors of its own
            raise OvorError(
                f"{where} cannot be written on the Hugging Face hub ({first_line(error)}): log in "
                "with `hf auth login`, check the name and the network, or give a folder."
            ) from error
    return where


def put(save: Save, about: Description, folder: Path, where: str | Path) -> None:
    """Write the model file and the page that describes it."""
    save(folder / FILE)
    (folder / "README.md").write_text(card(about, where), encoding="utf-8")


def forget_paths(path: Path) -> None:
    """Take out of a model file where its backbone lies on this machine: nobody else's business."""
    model = read_model(path)
    about = model.about
    name = about.backbone.name
    if not about.backbone.source.startswith("hub:"):
        kind, colon, place = name.rpartition(":")
        name = kind + colon + Path(place).name
    run, backbone = replace(about.run, backbone=name), replace(about.backbone, name=name)
    write_model(path, replace(model, about=replace(about, run=run, backbone=backbone)))


def card(about: Description, where: str | Path) -> str:
    """Return the page of a model, as the hub shows it."""
    rows = [
        f"| {number} | {', '.join(escaped(name) for name in task.classes)} | {sum(task.images)} |"
        for number, task in enumerate(about.tasks, 1)
    ]
    words = WORDS[about.backbone.reads]
    return CARD.format(
        one=words.one,
        many=words.many,
        example=json.dumps([words.example]),
        title=escaped(Path(where).expanduser().resolve().name),
        where=json.dumps(str(where), ensure_ascii=False),
        classes=sum(len(task.classes) for task in about.tasks),
        tasks=len(about.tasks),
        method=about.run.name,
        backbone=escaped(about.backbone.source),
        sha256=about.backbone.sha256[:12],
        bundled="inside" if about.backbone.bundled else "not in",
        rows="\n".join(rows),
    )


def escaped(name: str) -> str:
    """Return Markdown, in one line, that shows the name as it is."""
    return MARKUP.sub(r"\\\g<0>", " ".join(name.split()))


def fetch(where: str | Path, revision: str | None = None) -> Path:
    """Return the path of a shared model file, in a folder or in the hub's cache."""
    if is_folder(where):
        path = Path(where).expanduser() / FILE
        if not path.is_file():
            raise OvorError(f"There is no {FILE} in {where}: give a folder that `ovor share` made.")
        return path
    from huggingface_hub import errors, hf_hub_download

    try:
        return Path(hf_hub_download(str(where), FILE, revision=revision))
    except errors.HFValidationError as error:
        raise no_place(where) from error
    except Exception as error:  # every layer of the network has errors of its own
        sentences = {
            errors.RepositoryNotFoundError: f"The Hugging Face hub has no {where} that you may "
            "read: check the name, or log in with `hf auth login`.",
            errors.RevisionNotFoundError: f"{where} has no revision {revision!r}: give a commit, "
            "branch or tag of it, or none.",
            # an EntryNotFoundError as well
            errors.LocalEntryNotFoundError: "The Hugging Face hub cannot be reached, and "
            f"{where} is not in its cache: check the network, or give a folder.",
            errors.EntryNotFoundError: f"{where} has no {FILE}, so it was not shared by ovor: "
            "check the name.",
            Exception: f"{where} cannot be fetched ({first_line(error)}): check the network, or "
            "give a folder.",
        }
        said = next(said for kind, said in sentences.items() if isinstance(error, kind))
        raise OvorError(said) from error


def copy(where: str | Path, revision: str | None, path: Path) -> Description:
    """Write a shared model to `path` after it was checked; returns what it says in words."""
    source = fetch(where, revision)
    about = read_model(source).about
    write_atomically(path, source.read_bytes())
    return about


def is_folder(where: str | Path) -> bool:
    """Tell a path from the name of a repository; whatever exists here is a path."""
    if isinstance(where, Path) or where.startswith((".", "/", "~")):
        return True
    if where and Path(where).exists():  # the empty path would be the current folder
        return True
    if REPOSITORY.fullmatch(where):
        return False
    raise no_place(where)


def no_place(where: str | Path) -> OvorError:
    """Return the error for what is neither a path nor a repository's name."""
    return OvorError(
        f"{str(where)!r} is no place for a model: give a repository (owner/name) or a folder "
        "(./name)."
    )


def first_line(error: Exception) -> str:
    """Return the first line of an error's text, or its kind if it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
