"""How a command ends that does not succeed: a sentence on stderr, and its exit code."""

import sys


def wrong_usage(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 2


def stopped(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 130
