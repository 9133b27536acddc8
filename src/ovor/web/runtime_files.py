"""onnxruntime-web's files, which an exported page computes with.

They are in the wheel where npm was there when it was built. Else npm fetches them once to the
user's cache. Version and digest are in runtime/package.json.
"""

import os
from importlib.resources import as_file, files
from pathlib import Path

from ovor.errors import OvorError
from ovor.web.npm_package import NpmPackage, PackageError

HERE = files("ovor.web") / "runtime"
OTHERWISE = ", and say where it is (--runtime FILE)."


def pinned() -> NpmPackage:
    """Return which package it is."""
    with as_file(HERE / "package.json") as path:
        return NpmPackage.read(path)


def licence() -> bytes:
    """Return the licence of the files."""
    return (HERE / "LICENSE.txt").read_bytes()


def cache() -> Path:
    """Return the folder that the package is kept in once it was fetched."""
    root = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(root).expanduser() / "ovor" / "npm"


def runtime_files(given: Path | None = None) -> dict[str, bytes]:
    """Return the files by name: of the package that is given, of the wheel, or of the cache."""
    package = pinned()
    try:
        if given is not None:
            return package.content(found_in(given, package))
        inside = {name: HERE / name for name in package.files}
        if all(place.is_file() for place in inside.values()):
            return {name: place.read_bytes() for name, place in inside.items()}
        kept = cache() / package.tarball
        return package.content(kept if kept.exists() else package.fetch(kept.parent))
    except PackageError as error:
        raise OvorError(f"{error}{OTHERWISE}") from error


def found_in(given: Path, package: NpmPackage) -> Path:
    """Return the package's file, of which the path or the folder is given."""
    path = given.expanduser()
    path = path / package.tarball if path.is_dir() else path
    if not path.is_file():
        raise OvorError(
            f"There is no file {path}: make it by `npm pack {package.name}`, and give its path "
            "(--runtime FILE)."
        )
    return path
