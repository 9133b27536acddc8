"""What a person sees of a run: a live line while it goes on, a table at its end."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

from rich.console import RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Task as Row
from rich.table import Table
from rich.text import Text

from ovor.config import Run
from ovor.events import (
    Event,
    FeaturesExtracted,
    HeadStep,
    ImageChecked,
    ImagesTested,
    MeansUpdated,
    Note,
    RunBegins,
    TaskEnds,
    TrainStep,
)
from ovor.experiments.schedule import Display
from ovor.experiments.status import Status
from ovor.terminal.console import Terminal

# Work per image, in forward passes: a training step goes forward and back, a head step is free.
WORK: dict[type, int] = {
    TrainStep: 2,
    FeaturesExtracted: 1,
    HeadStep: 0,
    MeansUpdated: 1,
    ImagesTested: 1,
}


def work_per_image(run: Run) -> int:
    """Return the work on one training image, over all epochs of its task."""
    if run.vor is None:
        return WORK[TrainStep] * run.epochs
    passes = run.vor.epochs if run.vor.refresh == "epoch" else 1
    return WORK[TrainStep] * (run.epochs - run.vor.epochs) + WORK[FeaturesExtracted] * passes


class Speed(ProgressColumn):
    def render(self, task: Row) -> Text:
        images, elapsed = task.fields["images"], task.elapsed
        many = task.fields["reads"]
        return Text(f"{images / elapsed:,.0f} {many}/s" if elapsed and images else "")


class Live:
    """Something with a bar, which moves while it is entered."""

    bar: Progress

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Take the bar away for a moment, as it would be in the way of a question."""
        kept = self.bar.live.transient
        self.bar.live.transient = True
        self.bar.stop()
        try:
            yield
        finally:
            self.bar.live.transient = kept
            self.bar.start()


class RunProgress(Live):
    """Listens to a run; a live bar on a terminal, and one line a task anywhere."""

    def __init__(self, run: Run, word: str = "task") -> None:
        """Take what is done, and what a part of it is called."""
        self.word = word
        self.console = Terminal(stderr=True)
        self.epochs = run.epochs
        self.per_image = work_per_image(run)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeRemainingColumn(),
            Speed(),
            TextColumn("{task.fields[state]}"),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.row = self.bar.add_task("starting", total=None, images=0, reads="", state="")
        self.tasks = 0
        self.images = 0
        self.accuracy = ""

    def __call__(self, event: Event) -> None:
        match event:
            case RunBegins():
                self.begin(event)
            case TaskEnds():
                self.end_task(event)
            case Note(text):
                self.console.print(text, highlight=False, soft_wrap=True, markup=False)
            case ImageChecked(total):
                self.bar.update(self.row, total=total, advance=1, description="checking")
            case TrainStep() | HeadStep() | FeaturesExtracted() | MeansUpdated() | ImagesTested():
                self.images += event.images
                self.bar.update(
                    self.row,
                    advance=WORK[type(event)] * event.images,
                    images=self.images,
                    description=f"{self.word} {event.task + 1}/{self.tasks}",
                    state=self.doing(event) + self.accuracy,
                )

    def doing(
        self, event: TrainStep | HeadStep | FeaturesExtracted | MeansUpdated | ImagesTested
    ) -> str:
        """Return in words what goes on."""
        match event:
            case TrainStep(_, epoch, _, loss):
                return f"learning epoch {epoch + 1}/{self.epochs} loss {loss:.3f}"
            case HeadStep(_, epoch, _, loss):
                return f"tightening epoch {epoch + 1}/{self.epochs} loss {loss:.3f}"
            case FeaturesExtracted(_, epoch):
                return f"outliers epoch {epoch + 1}/{self.epochs}"
            case MeansUpdated():
                return "averaging"
            case ImagesTested():
                return "testing"

    def begin(self, event: RunBegins) -> None:
        """Set the bar to where a run begins, which may be in its middle."""
        train, test = event.train_images, event.test_images
        self.tasks = len(train)
        # A task without epochs looks at each image once.
        passes = [self.per_image if epochs else WORK[MeansUpdated] for epochs in event.epochs]

        def work(tasks: int) -> int:
            tested = sum(sum(test[: t + 1]) for t in range(tasks))
            return sum(train[t] * passes[t] for t in range(tasks)) + tested

        done = work(event.task)
        if event.epoch:
            done += train[event.task] * self.per_image * event.epoch // self.epochs
        self.bar.update(self.row, total=work(self.tasks), completed=done, reads=event.reads)
        if done:
            self.console.print(
                f"continuing at {self.word} {event.task + 1}, epoch {event.epoch + 1}"
            )

    def end_task(self, event: TaskEnds) -> None:
        """Print a line about the task, and show the mean accuracy from now on."""
        own, mean = event.accuracy[-1], sum(event.accuracy) / len(event.accuracy)
        self.accuracy = f" accuracy {mean:.1f} %"
        self.console.print(
            f"{self.word} {event.task + 1:>2}/{self.tasks}: "
            f"{own:5.1f} % on its own classes, {mean:5.1f} % over all tasks so far",
            highlight=False,
            soft_wrap=True,
        )


class BarAndTable(Progress):
    """The bar of all runs, and below it a line for each that goes on."""

    statuses: Sequence[tuple[str, Status]] = ()

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        if self.statuses:
            yield status_table(self.statuses)


class GridProgress(Live, Display):
    """One line a finished run, and on a terminal what runs, and a bar for all of them."""

    bar: BarAndTable

    def __init__(self, runs: int) -> None:
        self.console = Terminal(stderr=True)
        self.live = self.console.is_terminal
        self.bar = BarAndTable(
            TextColumn("{task.completed}/{task.total} runs"),
            BarColumn(bar_width=20),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.live,
        )
        self.row = self.bar.add_task("", total=runs)

    def running(self, statuses: list[tuple[str, Status]]) -> None:
        self.bar.statuses = statuses

    def say(self, sentence: str) -> None:
        self.console.print(sentence, highlight=False, soft_wrap=True)

    def done(self, name: str, result: dict[str, Any]) -> None:
        a, f = result["metrics"]["A_T"], result["metrics"]["F_T"]
        self.say(f"{name}: A_T {a:.2f}, F_T {f:.2f}, {result['seconds']:.0f} s")
        self.bar.advance(self.row)


def status_table(statuses: Sequence[tuple[str, Status]]) -> Table:
    """How far each run is; its machine, if it is on another."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, at in statuses:
        tasks = len(at.epochs)
        task = f"task {min(at.task + 1, tasks)}/{tasks}" if tasks else "starts"
        epochs = at.epochs[at.task] if at.task < tasks else 0
        epoch = f"epoch {min(at.epoch + 1, epochs)}/{epochs}" if epochs else ""
        accuracy = "" if at.accuracy is None else f"A_{at.task} {at.accuracy:.2f}"
        table.add_row(name, task, epoch, accuracy, at.node)
    return table


def result_table(result: dict[str, Any]) -> Table:
    """Accuracy by task, when learned and at the end, with A_T and F_T below."""
    metrics = result["metrics"]
    data = ", ".join((result["data"], *result.get("arrival", ())))  # older results have no arrival
    table = Table(
        title=f"{result['method']} on {data}, seed {result['seed']}",
        caption=f"A_T {metrics['A_T']:.2f} %   F_T {metrics['F_T']:.2f} %\n"
        f"{result['learnable_parameters']:,} learned parameters, {result['seconds']:.0f} s",
    )
    for column in ("task", "classes", "when learned", "at the end", "task given"):
        table.add_column(column, justify="right")
    accuracy, given = result["accuracy"], result["accuracy_task_id_given"]
    for t, classes in enumerate(result["tasks"]):
        cells = (accuracy[t][t], accuracy[-1][t], given[-1][t])
        table.add_row(str(t + 1), str(classes), *(f"{value:.1f}" for value in cells))
    return table
