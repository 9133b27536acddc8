"""`ovor doctor`: find out what this machine has and lacks: versions, devices, data sets."""

import os
import platform
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import torch
from rich.console import Group
from rich.table import Table

from ovor.data import describe
from ovor.encoders import load_backbone
from ovor.errors import OvorError


def examine() -> dict[str, Any]:
    """Return all that was found, as `ovor doctor --json` prints it."""
    return {
        "versions": {
            "ovor": version("ovor"),
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "devices": devices(),
        "embedded": embedded(),
        "hub_cache": os.environ.get("HF_HUB_CACHE", "~/.cache/huggingface/hub"),
        "data": [asdict(item) for item in describe()],
    }


def devices() -> dict[str, str]:
    """Return what torch can compute on, with a description of each."""
    found = {"cpu": f"{os.cpu_count()} cores, torch uses {torch.get_num_threads()}"}
    for number in range(torch.cuda.device_count()):
        found[f"cuda:{number}"] = torch.cuda.get_device_name(number)
    if torch.backends.mps.is_available():
        found["mps"] = "Apple GPU"
    return found


def embedded() -> str:
    """Return whether the embedded backbone is whole, or what is wrong with it."""
    try:
        return f"whole, sha256 {load_backbone('embedded').sha256[:12]}"
    except OvorError as error:
        return str(error)


def as_tables(found: dict[str, Any]) -> Group:
    """Lay out what `examine` found, for a terminal."""
    machine = Table("what", "found", title="This machine")
    for name, what in [*found["versions"].items(), *found["devices"].items()]:
        machine.add_row(name, what)
    machine.add_row("embedded backbone", found["embedded"])
    machine.add_row("hub cache", found["hub_cache"])
    data = Table("data set", "state", title="Data sets of the paper")
    for item in found["data"]:
        missing = f"not found: {item['advice']}"
        data.add_row(item["name"], item["problem"] or item["found"] or missing)
    return Group(machine, data)
