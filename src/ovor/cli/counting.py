"""A bar of images with the time left, for commands that look at many."""

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ovor.experiments.progress import Live


class Counting(Live):
    """Listens to the images that are read and predicted; shows a bar on a terminal."""

    def __init__(self, what: str) -> None:
        """Take the word for what is done to the images once they are read."""
        console = Console(stderr=True)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.row = self.bar.add_task(what, total=None)
        self.what = what
        self.kind = ""

    def __call__(self, event: dict[str, Any]) -> None:
        if event["event"] != self.kind:
            self.kind = event["event"]
            what = "checking images" if self.kind == "check" else self.what
            self.bar.reset(self.row, total=event["total"], description=what)
        self.bar.update(self.row, advance=event["images"])
