"""Puts onnxruntime-web's files into the wheel, where npm can fetch them.

Without them the wheel is whole all the same: `ovor export --web` then fetches them when it is used.
"""

import importlib.util
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WEB = Path(__file__).parent / "src/ovor/web"


class RuntimeHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the files of the pinned package to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        npm = loaded(WEB / "npm_package.py")
        package = npm.NpmPackage.read(WEB / "runtime/package.json")
        # The files must last until the wheel is written; the folder goes with this process.
        self.folder = tempfile.TemporaryDirectory()
        root = Path(self.folder.name)
        try:
            content = package.content(package.fetch(root))
        except npm.PackageError as error:
            self.app.display_warning(f"The wheel has no runtime for pages: {error}.")
            return
        for name, part in content.items():
            place = root / "runtime" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(part)
            build_data["force_include"][str(place)] = f"ovor/web/runtime/{name}"


def loaded(path: Path) -> Any:
    """Return a module of the package by its path, as the package is not installed yet."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module
