"""The command line as tests call it: what it prints and its exit code."""

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from typing import IO, Any
from unittest.mock import patch

from ovor.cli import main

WIDE = {"COLUMNS": "100"}


def ovor(*arguments: object, cwd: Path | str = ".", stdin: bytes = b"") -> CompletedProcess[str]:
    """Carry out a command in this process, without a second import of torch.

    What needs signals or a terminal of its own starts a real one.
    """
    argv = ["ovor", *map(str, arguments)]
    with (
        chdir(cwd),
        patch.object(sys, "argv", argv),
        patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin))),
        patch.dict(os.environ, WIDE),
        captured(1) as out,
        captured(2) as err,
    ):
        code: Any = 0
        with (
            open(1, "w", encoding="utf-8", closefd=False) as stdout,
            open(2, "w", encoding="utf-8", closefd=False) as stderr,
            redirect_stdout(stdout),
            redirect_stderr(stderr),
        ):
            try:
                main()
            except SystemExit as end:
                code = end.code or 0
        return CompletedProcess(argv, code, text_of(out), text_of(err))


@contextmanager
def captured(descriptor: int) -> Iterator[IO[bytes]]:
    """Give the file that takes what goes to a descriptor, from Python or from below it."""
    with tempfile.TemporaryFile() as file:
        usual = os.dup(descriptor)
        os.dup2(file.fileno(), descriptor)
        try:
            yield file
        finally:
            os.dup2(usual, descriptor)
            os.close(usual)


def text_of(file: IO[bytes]) -> str:
    """Return what was written; bytes that are not UTF-8 as file names have them."""
    file.seek(0)
    return os.fsdecode(file.read())


def in_new_process(
    *arguments: object, code: str = "", cwd: Path | str = ".", **environment: str
) -> CompletedProcess[str]:
    """Carry out a command, or with `code` some Python, in a process of its own."""
    start = ["-c", code] if code else ["-m", "ovor"]
    return subprocess.run(
        [sys.executable, *start, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **WIDE, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def start(
    *arguments: object, code: str = "", cwd: Path | str = ".", **options: Any
) -> subprocess.Popen[str]:
    """Begin a command, or some Python, in a process of its own, whose stderr can be read."""
    begin = ["-c", code] if code else ["-m", "ovor"]
    return subprocess.Popen(
        [sys.executable, *begin, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **WIDE},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def contents(root: Path) -> dict[str, object]:
    """Return every file by its bytes, every link by its target, every folder by its name."""
    found: dict[str, object] = {}
    for parent, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(parent, name)
            if path.is_symlink():
                found[str(path)] = os.readlink(path)
            else:
                found[str(path)] = path.read_bytes() if path.is_file() else None
    return found
