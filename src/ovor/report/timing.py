"""Where the time of a run went, from the events that it left."""

import json
from typing import Any

from ovor.config import Run
from ovor.experiments.folder import Folder

TRAINING, HEAD, TESTING = "epochs", "head phase (VOR)", "class means and tests"
PHASES = (TRAINING, HEAD, TESTING)


def seconds_by_phase(folder: Folder, run: Run) -> dict[str, float] | None:
    """None if there are no events, or none that say how long they took.

    Seconds count up over the whole run. A run that was stopped tells some events again: the last
    time counts. One that shares its stem with others tells of no epoch before the head phase.
    """
    events = read_events(folder)
    begin = next((event for event in reversed(events) if event["event"] == "begin"), None)
    ends: dict[tuple[int, int], tuple[float, str]] = {}
    for event in events:
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
    told = begin.get("epochs") if begin else None  # older runs did not tell
    epochs = told[event["task"]] if told else run.epochs
    return HEAD if run.vor and event["epoch"] >= epochs - run.vor.epochs else TRAINING


def read_events(folder: Folder) -> list[dict[str, Any]]:
    """Those that are whole: a process that was killed may have left half a line."""
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
