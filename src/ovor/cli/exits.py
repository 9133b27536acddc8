"""How a command ends that does not succeed: a sentence on stderr, and its exit code."""

import sys


def wrong_usage(sentence: str) -> int:
    """Print what is wrong with the arguments, and return the exit code for it."""
    print(sentence, file=sys.stderr)
    return 2


def stopped(sentence: str) -> int:
    """Print what Ctrl-C has left, and return the exit code for it."""
    print(sentence, file=sys.stderr)
    return 130
