"""The command line: one small function a command.

Progress and errors go to stderr, results to stdout. Exit code 0 done, 1 failed with a sentence
that names the fix, 2 wrong usage. Torch is imported only by what needs it.
"""

import os
import sys
from collections.abc import Callable
from io import TextIOWrapper

from pydantic import ValidationError

from ovor.cli.analyses import cost_command, doctor_command, figure_command
from ovor.cli.ask import evaluate_command, inspect_command, predict_command
from ovor.cli.exits import stopped, wrong_usage
from ovor.cli.grid import grid_command
from ovor.cli.learn import forget_command, learn_command
from ovor.cli.report import report_command
from ovor.cli.run import run_command
from ovor.cli.serve import serve_command
from ovor.cli.share import drawings_command, export_command, fetch_command, share_command
from ovor.errors import explain, in_words, one_line

COMMANDS: dict[str, Callable[[list[str]], None]] = {
    "learn": learn_command,
    "predict": predict_command,
    "evaluate": evaluate_command,
    "inspect": inspect_command,
    "forget": forget_command,
    "export": export_command,
    "share": share_command,
    "fetch": fetch_command,
    "serve": serve_command,
    "drawings": drawings_command,
    "run": run_command,
    "grid": grid_command,
    "report": report_command,
    "cost": cost_command,
    "figure": figure_command,
    "doctor": doctor_command,
}


def overview() -> str:
    lines = [
        "usage: ovor COMMAND [OPTIONS]",
        "",
        "Class-incremental learning that keeps no old image.",
        "",
        "commands:",
    ]
    for name, command in COMMANDS.items():
        lines.append(f"  {name:<10} {(command.__doc__ or '').strip()}")
    lines += ["", "ovor COMMAND --help tells more; ovor --version prints the version."]
    return "\n".join(lines)


def failed(sentence: str) -> int:
    print(f"ovor: {one_line(sentence)}", file=sys.stderr)
    return 1


def main() -> None:
    if isinstance(sys.stdout, TextIOWrapper):  # a file's name goes out by the bytes it came in
        sys.stdout.reconfigure(errors="surrogateescape")
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")  # no line for each try to reach the hub
    argv = sys.argv[1:]
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(overview())
        sys.exit(0 if argv else 2)
    if argv[0] == "--version":
        from importlib.metadata import version

        print(version("ovor"))
        return
    if argv[0] not in COMMANDS:
        sys.exit(wrong_usage(f"ovor: there is no command {argv[0]!r}; ovor --help lists them."))
    try:
        COMMANDS[argv[0]](argv[1:])
    except ValidationError as error:
        sys.exit(wrong_usage(f"ovor: {one_line(explain(error))}."))
    except BrokenPipeError:  # `ovor run | head`: nobody reads on
        sys.stderr.close()
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(stopped("Stopped before anything was done."))
    except Exception as error:
        if "--debug" in argv:
            raise
        sys.exit(failed(in_words(error)))
