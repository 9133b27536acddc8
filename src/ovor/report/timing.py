"""Where the time of a run went, from the events in events.jsonl."""

import json
from typing import Any

from ovor.config import Run
from ovor.experiments.folder import Folder

TRAINING, HEAD, TESTING = "epochs", "head phase (VOR)", "class means and tests"
PHASES = (TRAINING, HEAD, TESTING)


def seconds_by_phase(folder: Folder, run: Run) -> dict[str, float] | None:
    """Return the seconds of each phase, or None if no event says how long it took.

    Seconds count up over the whole run. A run that was stopped logs some events again: the last
    one counts. A run that shares its training with others logs no epoch before the head phase.
    """
    events = read_events(folder)
    begin = next((event for event in reversed(events) if event["event"] == "begin"), None)
    ends: dict[tuple[int, int], tuple[float, str]] = {}
    for event in events:
        if "seconds" not in event:  # older runs did not log it
            continue
        if event["event"] == "epoch":
            phase = phase_of(event, run, begin)
            ends[event["task"], event["epoch"]] = event["seconds"], phase
        elif event["event"] == "task":
            ends[event["task"], 10**9] = event["seconds"], TESTING  # after every epoch
    if not ends:
        return None
    found, before = dict.fromkeys(PHASES, 0.0), 0.0
    for _, (seconds, phase) in sorted(ends.items()):
        found[phase] += max(0.0, seconds - before)
        before = max(before, seconds)
    return found


def phase_of(event: dict[str, Any], run: Run, begin: dict[str, Any] | None) -> str:
    lengths = begin.get("epochs") if begin else None  # older runs did not log it
    epochs = lengths[event["task"]] if lengths else run.epochs
    return HEAD if run.vor and event["epoch"] >= epochs - run.vor.epochs else TRAINING


def read_events(folder: Folder) -> list[dict[str, Any]]:
    """Return the events that are whole: a process that was killed may have left half a line."""
    if not folder.events_file.exists():
        return []
    found = []
    for line in folder.events_file.read_text(errors="replace").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and "event" in event:
            found.append(event)
    return found
