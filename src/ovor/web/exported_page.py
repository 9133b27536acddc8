"""A model as a folder of static files: the page, its encoder, and what computes with it.

The page is the one of `ovor serve`. Only its backend is another, which asks no server: it is in
static/device, and everything happens in the browser.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from ovor.classifier.encoder_export import export_encoder
from ovor.classifier.file import DESCRIPTION
from ovor.classifier.model import Classifier
from ovor.errors import OvorError
from ovor.web.described import shown
from ovor.web.runtime_files import licence, pinned, runtime_files
from ovor.web.settings import Limits

STATIC = files("ovor.web") / "static"
KIND, SCHEMA = "ovor page", 1
MANIFEST, WORKER = "manifest.json", "sw.js"
SHOWN = (".js", ".css", ".svg", ".png", ".wasm")
SERVED_ONLY = (
    "backend.js",
    "api.js",
    "transport.js",
    "device/service_worker.js",
    "backend_device.js",
)
# A worker made of a blob has the page's policy; one of a plain file server's file would have none.
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; "
    "img-src 'self' blob:; connect-src 'self'; worker-src 'self' blob:; base-uri 'none'; "
    "form-action 'none'"
)
# Of a lesson all files lie on the device already: they are read one by one, and never sent.
LIMITS = Limits(request_bytes=20_000_000_000)
README = """\
This folder is a page that tells images apart, and that can be taught. Everything in it happens in
the browser: no image is sent anywhere, and what is taught stays in the tab until you save it.

Put the whole folder on any web server, and open its address. To try it on this machine:

    python -m http.server --directory FOLDER

and open http://localhost:8000. Opening index.html as a file does not work: browsers let no page
load its parts that way. Over https, or on localhost, the page also works without a network once it
was open, and may use the camera; browsers allow neither on other http addresses.

"Save the model" in the page writes a .ovor file, which the page and the Python package ovor read.
manifest.json lists the files with their SHA-256; runtime/LICENSE.txt is the licence of onnxruntime.
"""


def export_page(
    model: Classifier, file: Path | None, folder: Path, runtime: Path | None = None
) -> dict[str, Any]:
    """Write the folder of a model, of which the file is given unless it knows nothing yet.

    It is written beside its place and moved there whole. Returns what is said of it.
    """
    check_folder(folder)
    content, features = export_encoder(model)
    parts = {**page_files(), "encoder.onnx": content, "encoder.check": features.tobytes()}
    parts |= {f"runtime/{name}": part for name, part in runtime_files(runtime).items()}
    parts["runtime/LICENSE.txt"] = licence()
    parts["README.txt"] = README.encode()
    if file is not None:
        parts["model.ovor"] = file.read_bytes()
    name = file.name if file is not None else f"{folder.resolve().name}.ovor"
    said = {**about(model, name, file is None, len(features)), "files": listed(parts)}
    manifest = json.dumps(said, indent=1, ensure_ascii=False).encode()
    parts[MANIFEST], parts[WORKER] = manifest, service_worker(manifest)
    with placed(folder) as place:
        for name, part in parts.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(part)
    return {
        "folder": str(folder),
        "classes": len(model.classes_),
        "files": len(parts),
        "bytes": sum(map(len, parts.values())),
    }


def about(model: Classifier, name: str, empty: bool, width: int) -> dict[str, Any]:
    """Return what the page must know before it has opened the model."""
    transform, network = model.transform(), model.network()
    return {
        "kind": KIND,
        "schema": SCHEMA,
        "ovor": version("ovor"),
        "name": name,
        "model": None if empty else "model.ovor",
        "about": DESCRIPTION.dump_python(model.about(), mode="json") if empty else None,
        "encoder": {
            "name": network.name,
            "sha256": network.sha256,
            "reads": shown(network.encoder.reads),
            "drawing": network.name == "embedded",
            "width": width,
            "size": transform.size,
            "crop_pct": transform.crop_pct,
            "interpolation": transform.interpolation,
        },
        "limits": asdict(LIMITS),
        "runtime": pinned().name,
    }


def page_files() -> dict[str, bytes]:
    """Return the files of the page, with the backend that needs no server."""
    found = {f"static/{name}": part.read_bytes() for name, part in walked(STATIC)}
    found = {name: part for name, part in found.items() if name[7:] not in SERVED_ONLY}
    found["static/backend.js"] = (STATIC / "backend_device.js").read_bytes()
    meta = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    page = (STATIC / "page.html").read_text()
    script = '<script defer src="static/device/as_file.js"></script>'
    page = page.replace("<head>", f"<head>\n{meta}\n{script}", 1).replace(
        "<body>", '<body class="on-device">', 1
    )
    return {"index.html": page.encode(), **found}


def walked(folder: Traversable, under: str = "") -> Iterator[tuple[str, Traversable]]:
    """Yield the files of the page, however deep, with their paths."""
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.is_dir():
            yield from walked(entry, f"{under}{entry.name}/")
        elif entry.name.endswith(SHOWN):
            yield under + entry.name, entry


def listed(parts: dict[str, bytes]) -> dict[str, Any]:
    """Return size and digest of each file, and which engine it is for if it is for one alone."""
    return {
        name: {
            "bytes": len(part),
            "sha256": hashlib.sha256(part).hexdigest(),
            "engine": next((e for e in ("wasm", "webgpu") if f"runtime/{e}/" in name), None),
        }
        for name, part in sorted(parts.items())
    }


def service_worker(manifest: bytes) -> bytes:
    """Return the service worker, which changes with any file of the page."""
    digest = hashlib.sha256(manifest).hexdigest()
    facts = f"const VERSION = {json.dumps(digest)};\nconst POLICY = {json.dumps(POLICY)};\n"
    return facts.encode() + (STATIC / "device" / "service_worker.js").read_bytes()


def check_folder(folder: Path) -> None:
    """Refuse a place that holds anything but nothing, or a page that was exported before."""
    if not folder.absolute().parent.is_dir():
        raise OvorError(f"There is no folder {folder.absolute().parent}: make it first.")
    if not folder.exists():
        return
    if not folder.is_dir():
        raise OvorError(f"{folder} is a file: choose another name for the folder.")
    there = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir()}
    strange = sorted(there - {MANIFEST, WORKER} - files_of(folder))
    if strange:
        raise OvorError(
            f"{folder} holds something else ({strange[0]}): choose another folder, or empty it."
        )


def files_of(folder: Path) -> set[str]:
    """Return the files that an exported page in this folder has by its own list."""
    try:
        said = json.loads((folder / MANIFEST).read_bytes())
        return set(said["files"]) if said["kind"] == KIND else set()
    except (OSError, ValueError, KeyError, TypeError):
        return set()


@contextmanager
def placed(folder: Path) -> Iterator[Path]:
    """Give an empty folder that takes the place of this one when all is in it, or goes again."""
    folder = Path(os.path.realpath(folder))
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        beside.chmod(0o755)  # which others may read, as a web server must
        new, old = beside / "new", beside / "old"
        new.mkdir()
        yield new
        if folder.exists():
            folder.rename(old)
        try:
            new.rename(folder)
        except BaseException:
            if old.exists():
                old.rename(folder)
            raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)
