"""`ovor cost`: what every method learns, stores and computes."""

import json
from dataclasses import dataclass
from typing import Annotated

from ovor.cli.arguments import Debug, optional, parse
from ovor.config import Count
from ovor.terminal.console import Terminal


@dataclass(frozen=True)
class CostArguments:
    """Learnable parameters, stored numbers and FLOPs of every method on a ViT-B/16 at 224 pixels,
    computed, beside the paper's (ImageNet-R in 10 tasks: the default).
    """

    tasks: Count = 10
    """number of tasks"""
    classes: Count = 20
    """classes of each task"""
    methods: Annotated[tuple[str, ...], optional("NAME ...")] = ()
    """only these rows (default: every method)"""
    json: bool = False
    """print the tables as JSON, and nothing else"""
    debug: Debug = False


def cost_command(argv: list[str]) -> None:
    """Print the cost of every method, beside the paper's figures."""
    arguments = parse(CostArguments, argv)
    from ovor.analysis import cost, cost_table

    setting = cost.Setting(arguments.tasks, arguments.classes)
    table = cost_table.cost_table(setting, arguments.methods)
    if arguments.json:
        print(json.dumps(table, indent=1))
    else:
        Terminal().print(cost_table.as_tables(table), highlight=False)
