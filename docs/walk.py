"""Run the walks of the documents, each in a folder that is thrown away, and put what they print
into the documents.

python -m docs.walk
"""

import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
WALKS = (ROOT / "README.md", ROOT / "docs/exact-memory.md")
# A walk may have words between its parts: they are run in order, in one folder, where `docs` is
# that of the clone. A document may have several walks, each with a name but the first.
PART = re.compile(
    r"(<!-- walk(?: (?P<name>\w+))? -->\n```console\n)(.*?)(```\n<!-- /walk -->)", re.DOTALL
)


def steps(text: str, name: str | None = None) -> list[tuple[str, str]]:
    """Return the commands of a document's walk, and what is shown after each."""
    own = [part for part in PART.finditer(text) if part["name"] == name]
    parts = [step for part in own for step in steps_of(part[3])]
    if not parts:
        raise SystemExit("There is no walk in the document.")
    return parts


def steps_of(part: str) -> list[tuple[str, str]]:
    """Return the commands of one part, and what is shown after each."""
    pieces = re.split(r"^\$ (.*)$", part, flags=re.MULTILINE)[1:]
    return list(zip(pieces[::2], pieces[1::2], strict=True))


def run(command: str, folder: str | Path) -> str:
    """Return what a command prints into a pipe."""
    done = subprocess.run(
        [sys.executable, "-m", "ovor", *shlex.split(command)[1:]],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{command}: {done.stderr}")
    return done.stdout


def walked(text: str, folder: str) -> str:
    """Return a document with what its commands print now."""

    def part(found: re.Match[str]) -> str:
        shown = (f"$ {command}\n{run(command, folder)}" for command, _ in steps_of(found[3]))
        return found[1] + "".join(shown) + found[4]

    return PART.sub(part, text)


def main() -> None:
    for document in WALKS:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "docs").symlink_to(ROOT / "docs")
            new = walked(document.read_text(encoding="utf-8"), folder)
        document.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
