"""The command line in this process: what it prints and its exit code, without a second import of
torch. What needs signals or a terminal of its own starts a real one.
"""

import io
import os
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from unittest.mock import patch

from ovor.cli import main


def ovor(*arguments: str | Path, cwd: Path) -> CompletedProcess[str]:
    argv = ["ovor", *map(str, arguments)]
    out, err = io.StringIO(), io.StringIO()
    with (
        chdir(cwd),
        redirect_stdout(out),
        redirect_stderr(err),
        patch.object(sys, "argv", argv),
        patch.dict(os.environ, COLUMNS="100"),
    ):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
    return CompletedProcess(argv, code, out.getvalue(), err.getvalue())
