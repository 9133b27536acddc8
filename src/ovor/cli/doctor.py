"""`ovor doctor`: what this machine has."""

import json
from dataclasses import dataclass

from ovor.cli.arguments import Debug, parse
from ovor.terminal.console import Terminal


@dataclass(frozen=True)
class DoctorArguments:
    """Versions, devices, the embedded backbone, and the paper's data sets: found, or what to
    download and where to put it.
    """

    json: bool = False
    """print the findings as JSON, and nothing else"""
    debug: Debug = False


def doctor_command(argv: list[str]) -> None:
    """Print what was found on this machine, and how to get what is missing."""
    arguments = parse(DoctorArguments, argv)
    from ovor.experiments import doctor

    found = doctor.examine()
    if arguments.json:
        print(json.dumps(found))
    else:
        Terminal().print(doctor.as_tables(found))
