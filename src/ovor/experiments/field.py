"""The field: every method in every scenario that it can learn in, under one protocol.

All methods have the usual scenario, with VOR too where they have a linear head. The others have one
method of each kind: of those that differ in what they tune or where they prompt, the plainest; and
OVOR, which alone has VOR there.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ovor.config import Run, Scenario, Shift
from ovor.errors import OvorError
from ovor.experiments.tables import Make, Row, Section
from ovor.presets import in_scenario

REFERENCE = "imagenet-r/10"


@dataclass(frozen=True)
class Way:
    """A scenario of the table: how images come, and whether every class is a task of its own."""

    name: str
    about: str
    scenario: Scenario = "classes"
    imbalance: tuple[int, int] | None = None
    label_noise: float = 0.0
    shift: Shift = "none"
    one_by_one: bool = False

    def of(self, run: Run, classes: int) -> Run:
        """Return the run with its images coming in this way."""
        from ovor.learners import looks_again, may_tune  # brings torch

        if self.one_by_one:
            run = replace(run, tasks=classes, options=for_tasks(run, classes))
        again = may_tune(run.method) and looks_again(run.method, run.options)
        if self.scenario == "stream" and again:  # the network stays as it is
            run = replace(run, options={**run.options, "tuning": "none"})
        return in_scenario(run, self.scenario, self.imbalance, self.label_noise, self.shift)


PLAIN = Way("plain", "each task brings new classes with all their images")
WAYS = (
    PLAIN,
    Way("one by one", "as many tasks as classes", one_by_one=True),
    Way("again", "half of a class's images come in later tasks", "repetition"),
    Way("unequal", "5 to 80 images of a class", imbalance=(5, 80)),
    Way("single pass", "every image is seen once", "stream"),
    Way("wrong labels", "one label in ten is wrong", label_noise=0.1),
    Way("shift", "each task is drawn thicker and more rotated than the last", shift="ink"),
)
# Others of a kind that is there: what they tune, or where they prompt, is all that differs.
VARIANTS = (
    *("oneprompt-deep", "l2p", "coda-p", "adam-finetune", "adam-vpt-shallow", "adam-vpt-deep"),
    *("adam-ssf", "l2", "a-prompt", "finetune"),
)
OVOR = "oneprompt+vor"
# With as many tasks as classes these go through images once for each of them, or train all heads
# after each: hours a run.
TOO_LONG = ("ease", "slca", "ssiat", "rsiat")


def for_tasks(run: Run, tasks: int) -> dict[str, object]:
    """Return a method's options for another number of tasks: CODA-P shares its components."""
    if run.method != "coda-p":
        return run.options
    return {**run.options, "per_task": max(1, 100 // tasks)}


def field(data: str, tasks: int, make: Make) -> list[Section]:
    """Return a section for each scenario, with the methods that can learn in it."""
    from ovor.data import load_dataset

    classes = len(load_dataset(data).class_names)
    return [
        Section(
            f"{data}, {way.name}",
            [Row(name, way.of(run, classes)) for name, run in chosen(way, data, tasks, make)],
            REFERENCE,
            False,
            way=way.name,
        )
        for way in WAYS
    ]


def chosen(way: Way, data: str, tasks: int, make: Make) -> Iterator[tuple[str, Run]]:
    """Yield the methods that a scenario is run with, and their runs in the usual one."""
    from ovor.learners import METHODS, takes_vor  # brings torch

    for method in METHODS:
        for name in (method, f"{method}+vor") if takes_vor(method) else (method,):
            if left_out(way, name):
                continue
            run = make(data, name, tasks=tasks)
            if way == PLAIN or able(way, run):
                yield name, run


def left_out(way: Way, name: str) -> bool:
    """Tell whether what could learn in a scenario is not run in it, to save time."""
    from ovor.learners import at_once  # brings torch

    method = name.removesuffix("+vor")
    if way == PLAIN:
        return False
    if at_once(method) and (way.one_by_one or way.scenario == "repetition"):
        return True  # as in the usual one: it has all images at once, however they come
    if method in VARIANTS or (name != method and name != OVOR):
        return True
    return way.one_by_one and method in TOO_LONG


def able(way: Way, run: Run) -> bool:
    """Tell whether a method can learn in a scenario; a head of one class has nothing to tell apart.

    Its loss is zero, whatever the image.
    """
    from ovor.learners import check_scenario, takes_vor  # brings torch

    if way.one_by_one and takes_vor(run.method):
        return False
    try:
        check_scenario(way.of(run, run.tasks))
    except OvorError:
        return False
    return True
