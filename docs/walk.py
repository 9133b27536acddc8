"""Run the README's walk, in a folder that is thrown away, and put what it prints into the README.

python -m docs.walk
"""

import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"
WALK = re.compile(r"(<!-- walk -->\n```console\n)(.*?)(```\n<!-- /walk -->)", re.DOTALL)


def steps(text: str) -> list[tuple[str, str]]:
    """Return the commands of the walk, and what is shown after each."""
    shown = WALK.search(text)
    if shown is None:
        raise SystemExit("README.md has no walk.")
    parts = re.split(r"^\$ (.*)$", shown[2], flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


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


def main() -> None:
    text = README.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        walked = "".join(f"$ {command}\n{run(command, folder)}" for command, _ in steps(text))
    new = WALK.sub(lambda found: found[1] + walked + found[3], text)
    README.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
