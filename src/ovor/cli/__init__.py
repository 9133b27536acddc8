"""The command line: one module a command, imported when that command is asked for.

Progress and errors go to stderr, results to stdout. Exit code 0 done, 1 failed with a sentence
that names the fix, 2 wrong usage. A command's module shows its help without importing torch.
"""

import os
import sys
from importlib import import_module
from importlib.metadata import version

from pydantic import ValidationError

from ovor.cli.exits import stopped, wrong_usage
from ovor.cli.flags import with_flags
from ovor.cli.imports import without_collecting
from ovor.errors import explain, in_words, one_line
from ovor.terminal.guard import guarded

# NAME is `NAME_command` of the module ovor.cli.NAME.
COMMANDS = {
    "learn": "Teach the classes in a folder or a table to a model, as its next lesson.",
    "predict": "Name the class of images or texts, or say that it is unknown.",
    "evaluate": "How often a model is right, per class and lesson, what it mistakes for what, and "
    "how well it tells the unknown.",
    "inspect": "What a model file holds: lessons, classes, counts, backbone, thresholds, size.",
    "correct": "Tell a model what images or texts are that it got wrong.",
    "unlearn": "Take images or texts back out of a model, as if they had never been taught.",
    "undo": "Bring a model back to what it was before its last change.",
    "forget": "Take a class out of a model.",
    "rename": "Give a class another name.",
    "merge": "Make one model of several that were taught apart, without what they were taught by.",
    "export": "Write a model as ONNX, as a file with its backbone inside, or as a page that needs "
    "no server.",
    "share": "Put a model on the Hugging Face hub, or into a folder, with a description.",
    "fetch": "Get a model that was shared.",
    "serve": "Serve a model: an HTTP API and a page to ask and teach it.",
    "drawings": "Write some of the embedded drawings as image files, to practise on.",
    "run": "One experiment: method x data x tasks x seed. With no argument, OVOR on drawings.",
    "grid": "A table of the paper: every run that is missing, then means against the paper's "
    "figures.",
    "report": "One HTML page about runs: tables, intervals and charts, with all it needs inside.",
    "cost": "Learnable parameters, stored numbers and FLOPs of every method, beside the paper's.",
    "figure": "A figure of the paper, drawn from real training, and its numbers.",
    "doctor": "What this machine has, which data sets are found, and how to get what is missing.",
}


def overview() -> str:
    """Return the help of the whole command line."""
    lines = [
        "usage: ovor COMMAND [OPTIONS]",
        "",
        "Class-incremental learning that keeps no old image or text.",
        "",
        "commands:",
        *(f"  {name:<10} {summary}" for name, summary in COMMANDS.items()),
        "",
        "ovor COMMAND --help tells more; ovor --version prints the version.",
    ]
    return "\n".join(lines)


def failed(sentence: str) -> int:
    """Print why a command failed, and return its exit code."""
    print(f"ovor: {one_line(sentence)}", file=sys.stderr)
    return 1


def main() -> None:
    """Carry out the command that the arguments name, and let nothing it prints steer a terminal."""
    with guarded():
        carry_out()


def carry_out() -> None:
    """Carry out the command that the arguments name; whatever goes wrong becomes a sentence."""
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")  # no line for each try to reach the hub
    argv = sys.argv[1:]
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(overview())
        sys.exit(0 if argv else 2)
    name = argv[0]
    if name == "--version":
        print(version("ovor"))
        return
    if name not in COMMANDS:
        sys.exit(wrong_usage(f"ovor: there is no command {name!r}; ovor --help lists them."))
    try:
        with without_collecting():
            module = import_module(f"ovor.cli.{name}")
        getattr(module, f"{name}_command")(argv[1:])
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
        sys.exit(failed(with_flags(in_words(error))))
