"""How a sentence about Python's parameters is said on the command line: by flags.

What both can cause is raised in Python's words, such as `leave them out (on_error="skip")`.
"""

import ast
import re
import shlex

from ovor.data.tables import NAME_LABELS, NAME_TEXTS

FLAGS = {
    "backbone": "--backbone",
    "bundle": "--bundle",
    "from_": "--from",
    "labels": "--label",
    "lr": "--lr",
    "on_error": "--on-error",
    "once": "--once",
    "rename": "--rename",
    "skip_known": "--skip-known",
    "unknown": "--unknown",
}
GIVEN = re.compile(rf"\(({'|'.join(FLAGS)})=(True|\.\.\.|\"\w+\"|\{{.*?: 'NEW'\}})\)")
OTHERS = {
    "(remove the file)": "(--restart)",
    NAME_TEXTS: "(--text-column NAME)",
    NAME_LABELS: "(--label-column NAME)",
}


def with_flags(sentence: str) -> str:
    """Return a sentence with flags in the place of Python's parameters."""
    for words, flag in OTHERS.items():
        sentence = sentence.replace(words, flag)
    return GIVEN.sub(lambda found: f"({_flag(found[1], found[2])})", sentence)


def _flag(name: str, value: str) -> str:
    if value in ("True", "..."):
        return FLAGS[name]
    given = ast.literal_eval(value)
    if isinstance(given, dict):
        given = "=".join(next(iter(given.items())))
    return f"{FLAGS[name]} {shlex.quote(given)}"
