"""A new user's walk through the README: every command is run, and prints what is shown."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def steps() -> list[tuple[str, str]]:
    """Commands and what the README shows after each."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"<!-- walk -->\n```console\n(.*?)```\n<!-- /walk -->", text, re.DOTALL)
    assert shown is not None
    parts = re.split(r"^\$ (.*)$", shown[1], flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def shape(text: str) -> list[str]:
    """Without figures, which other processors may round otherwise, and without drawn lines."""
    text = re.sub(r"[0-9.,]*[0-9](e-[0-9]+)?", "#", text)
    text = re.sub(r"[━─]+", "-", text)
    return [re.sub(r"[ \t]+", " ", line).strip() for line in text.strip().splitlines()]


def labels(text: str) -> list[tuple[str, ...]]:
    """What `predict` says of each image."""
    return [tuple(line.split("\t")[:2]) for line in text.splitlines() if "\t" in line]


def test_the_readme_walk(tmp_path: Path) -> None:
    walk = steps()
    commands = [shlex.split(command)[1] for command, _ in walk]
    wanted = ["learn", "learn", "predict", "evaluate", "export", "predict"]
    assert [name for name in commands if name != "drawings"] == wanted
    right = total = 0
    for command, shown in walk:
        done = subprocess.run(
            [sys.executable, "-m", "ovor", *shlex.split(command)[1:]],
            cwd=tmp_path,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        if " predict " in command:  # an image near a border may fall on its other side
            ours, theirs = labels(done.stdout), labels(shown)
            assert [image for image, _ in ours] == [image for image, _ in theirs]
            right += sum(a == b for a, b in zip(ours, theirs, strict=True))
            total += len(theirs)
        else:
            assert shape(done.stdout) == shape(shown), command
    assert total == 10
    assert right >= 8
