"""A bar of images with the time left, for commands that look at many."""

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ovor.events import Event, ImageChecked, ImagesPredicted, MeansUpdated, RunBegins
from ovor.experiments.progress import Live
from ovor.terminal.console import Terminal


class Counting(Live):
    """Listens to the images that are read, predicted and summed; shows a bar on a terminal."""

    def __init__(self, what: str) -> None:
        """Take the word for what is done to the images once they are read."""
        console = Terminal(stderr=True)
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
        self.kind: type | None = None
        self.total = 0

    def __call__(self, event: Event) -> None:
        match event:
            case ImageChecked(total):
                self.advance(type(event), "checking", total, 1)
            case ImagesPredicted(images, total):
                self.advance(type(event), self.what, total, images)
            case RunBegins():  # a pass of a model of exact sums
                self.total = sum(event.train_images)
            case MeansUpdated(_, images):
                self.advance(type(event), self.what, self.total, images)

    def advance(self, kind: type, what: str, total: int, images: int) -> None:
        """Move the bar; another kind of event begins a new one."""
        if kind is not self.kind:
            self.kind = kind
            self.bar.reset(self.row, total=total, description=what)
        self.bar.update(self.row, advance=images)
