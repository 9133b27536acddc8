"""Shell-like braces in file names, as WebDataset users write them: `train-{000..009}.tar`."""

import re

from ovor.errors import OvorError

RANGE = re.compile(r"([0-9]+)\.\.([0-9]+)(?:\.\.([0-9]+))?")
MOST = 1_000_000  # names that a range may stand for; more is a slip of the pen


def expand(pattern: str) -> list[str]:
    """Every name that the pattern stands for, in its order; itself if it has no braces."""
    before, brace, _ = pattern.partition("{")
    if "}" in before:
        raise _unbalanced(pattern)
    if not brace:
        return [pattern]
    start, end = len(before), _closing(pattern, len(before))
    rest = expand(pattern[end + 1 :])
    return [before + own + tail for own in _choices(pattern[start + 1 : end]) for tail in rest]


def _choices(inside: str) -> list[str]:
    numbers = RANGE.fullmatch(inside)
    if numbers:
        return _numbers(numbers[1], numbers[2], int(numbers[3] or 1) or 1)
    parts = _parts(inside)
    if len(parts) == 1:  # the shell leaves {a} as it is
        return ["{" + text + "}" for text in expand(inside)]
    return [text for part in parts for text in expand(part)]


def _numbers(first: str, last: str, step: int) -> list[str]:
    """Upwards or downwards; a leading zero makes all of them equally wide."""
    padded = any(len(text) > 1 and text.startswith("0") for text in (first, last))
    width = max(len(first), len(last)) if padded else 0
    low, high = int(first), int(last)
    if abs(high - low) // step >= MOST:
        raise OvorError(f"{{{first}..{last}}} stands for over {MOST:,} names: correct the range.")
    sign = 1 if high >= low else -1
    return [f"{number:0{width}}" for number in range(low, high + sign, sign * step)]


def _closing(pattern: str, start: int) -> int:
    """Where the brace that opens at `start` closes."""
    depth = 0
    for position in range(start, len(pattern)):
        depth += (pattern[position] == "{") - (pattern[position] == "}")
        if not depth:
            return position
    raise _unbalanced(pattern)


def _parts(inside: str) -> list[str]:
    """Cut at the commas that are in no inner braces."""
    parts, depth = [""], 0
    for letter in inside:
        depth += (letter == "{") - (letter == "}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _unbalanced(pattern: str) -> OvorError:
    return OvorError(f"{pattern!r} opens or closes a brace too many: write it as a-{{00..09}}.tar.")
