"""Every table of the paper as a list of runs, on the paper's data sets or on any other.

Hyper-parameters are those of the data set (presets.py); an ablation varies them by the same steps
and factors as the paper's, so that on ImageNet-R they are the paper's values.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, Protocol

from ovor.config import Run, Vor
from ovor.errors import OvorError
from ovor.paper import paper
from ovor.presets import ALIASES, PAPER, VOR_PRESETS, settings

# The paper's main tables have these; ours go on with every other method that there is.
PROMPT_METHODS = ("oneprompt", "oneprompt-deep", "l2p", "dualprompt", "coda-p")
REFERENCE = "imagenet-r/10"  # whose figures stand beside data that the paper has not

Figures = tuple[float | None, float | None]  # A_T and F_T, where there are any
Measure = Literal["accuracy", "task-id-given", "prompt-drift", "representation-drift"]


class Make(Protocol):
    """`presets.settings`, perhaps with another backbone or fewer epochs."""

    def __call__(
        self, data: str, method: str, vor: str = "paper", tasks: int | None = None
    ) -> Run: ...


@dataclass(frozen=True)
class Row:
    """One line of a table: a label, the run that it stands for, and the paper's A_T and F_T."""

    label: str
    run: Run  # whatever the seed
    paper: Figures = (None, None)
    paper_std: Figures = (None, None)


@dataclass(frozen=True)
class Section:
    """The rows of one setting, or of one hyper-parameter."""

    title: str
    rows: list[Row]
    where: str  # the setting of the paper's figures
    comparable: bool  # whether it is the setting of the rows
    deviations: bool = False  # whether the paper's are shown


@dataclass(frozen=True)
class Table:
    """A preset of `ovor grid`: which sections it has on a data set in some number of tasks."""

    about: str
    sections: Callable[[str, int, "Make"], list[Section]]
    settings: tuple[tuple[str, int], ...] = (("imagenet-r", 10),)  # the paper's
    measure: Measure = "accuracy"


def of_paper(method: str, where: str, what: str = "mean") -> Figures:
    """Mean or std of A_T and F_T in the paper, which has one figure for all variants of ADAM."""
    short = {long: name for name, long in ALIASES.items()}
    name = "adam" if method.startswith("adam-") else short.get(method, method)
    found = [
        paper()[table].get(name, {}).get(where) for table in ("accuracy_A_T", "forgetting_F_T")
    ]
    accuracy, forgetting = (value.get(what) if value else None for value in found)
    return accuracy, forgetting


def section(data: str, tasks: int, rows: list[tuple[str, str, Run]]) -> Section:
    """Rows as (label, method, run), beside the paper's figures of this setting or of ImageNet-R."""
    known = paper()["accuracy_A_T"]["oneprompt"]
    comparable = f"{data}/{tasks}" in known
    where = next(w for w in (f"{data}/{tasks}", f"imagenet-r/{tasks}", REFERENCE) if w in known)
    return Section(
        f"{data}, {tasks} tasks",
        [
            Row(label, run, of_paper(method, where), of_paper(method, where, "std"))
            for label, method, run in rows
        ],
        where,
        comparable,
    )


def of_methods(methods: list[str], data: str, tasks: int, make: Make) -> list[Section]:
    rows = [(name, name, make(data, name, tasks=tasks)) for name in methods]
    return [section(data, tasks, rows)]


def core(data: str, tasks: int, make: Make) -> list[Section]:
    """The ten prompt methods, and OVOR with parts of it changed."""
    names = [name + vor for name in PROMPT_METHODS for vor in ("", "+vor")]
    rows = [(name, name, make(data, name, tasks=tasks)) for name in names]
    for preset, label in VOR_PRESETS.items():
        if preset != "paper":
            run = make(data, "ovor", preset, tasks)
            rows.append((f"oneprompt+vor: {label}", "", run))
    return [section(data, tasks, rows)]


def vor_table(data: str, tasks: int, make: Make) -> list[Section]:
    methods = [m for m in PROMPT_METHODS if m != "oneprompt-deep"]
    return of_methods([m + vor for m in methods for vor in ("", "+vor")], data, tasks, make)


def prompt_table(data: str, tasks: int, make: Make) -> list[Section]:
    return of_methods([m + vor for m in PROMPT_METHODS for vor in ("", "+vor")], data, tasks, make)


def main_table(data: str, tasks: int, make: Make) -> list[Section]:
    """Every method that there is, with VOR too where it has a linear head."""
    from ovor.learners import METHODS, takes_vor  # brings torch

    names = [m + vor for m in METHODS for vor in ("", "+vor") if not vor or takes_vor(m)]
    return of_methods(names, data, tasks, make)


def std_tables(data: str, tasks: int, make: Make) -> list[Section]:
    return [replace(part, deviations=True) for part in main_table(data, tasks, make)]


# --- ablations (App. B) ----------------------------------------------------------------------

# The steps from the default, in the order of the paper's columns.
FACTORS: dict[str, tuple[float, ...]] = {
    "lambda": (0.5, 1, 5, 10),
    "sigma": (0.1, 0.5, 1, 2),
    "alpha": (0.5, 0.75, 1, 1.25, 1.5),
    "beta": (0.625, 0.75, 0.875, 1, 1.125, 1.25),
    "k": (0.5, 1, 1.5),
}
SHIFTS = {"tau_current": (3, 0, -3), "tau_outlier": (3, 0, -3)}
ABLATIONS = (
    "lambda",
    "vor_epochs_percent",
    "penalty",
    "tau_current",
    "tau_outlier",
    "sigma",
    "alpha",
    "beta",
    "k",
)


def variants(name: str, vor: Vor, epochs: int) -> list[tuple[str, Vor]]:
    """The values of one hyper-parameter around its default, as label and VOR."""
    if name == "penalty":
        return [(kind, replace(vor, hinge=kind)) for kind in ("huber", "mse")]
    if name == "vor_epochs_percent":
        # Half as many and half as many again; of a single epoch there is no half.
        own = vor.epochs
        counts = (own // 2, own, own * 3 // 2) if own > 1 else (1, 2, 3)
        return [(f"{n} of {epochs} epochs", replace(vor, epochs=n)) for n in counts if n < epochs]
    if name in SHIFTS:
        values = [getattr(vor, name) + shift for shift in SHIFTS[name]]
        return [(f"{value:g}", replace(vor, **{name: value})) for value in values]
    if name == "lambda":
        values = [round(vor.weight * factor, 6) for factor in FACTORS[name]]
        return [(f"{value:g}", replace(vor, weight=value)) for value in values]
    values = [round(getattr(vor.npos, name) * factor, 6) for factor in FACTORS[name]]
    if name in ("beta", "k"):
        values = [int(value) for value in values]
    return [(f"{v:g}", replace(vor, npos=replace(vor.npos, **{name: v}))) for v in values]


def ablation(names: tuple[str, ...], data: str, tasks: int, make: Make) -> list[Section]:
    base = make(data, "ovor", tasks=tasks)
    assert base.vor is not None
    found = []
    for name in names:
        printed: list[float | None] = list(paper()["ablation_ovor_imagenet-r/10"][name].values())
        if name == "vor_epochs_percent" and base.vor.epochs == 1:
            printed = [None] * 3  # other shares than the paper's
        values = variants(name, base.vor, base.epochs)
        rows = [
            Row(
                label + (" (default)" if vor == base.vor else ""), replace(base, vor=vor), (a, None)
            )
            for (label, vor), a in zip(values, printed, strict=False)
        ]
        comparable = f"{data}/{tasks}" == REFERENCE
        found.append(Section(f"{name}, {data} in {tasks} tasks", rows, REFERENCE, comparable))
    return found


def prompt_position(data: str, tasks: int, make: Make) -> list[Section]:
    """Where OnePrompt is inserted; what the backbone is too shallow for is left out."""
    base = make(data, "oneprompt", tasks=tasks)
    depth = depth_of(base)
    rows = []
    for entry in paper()["prompt_position_oneprompt_imagenet-r/10"]:
        lengths, label = [0] * depth, []
        fits = True
        for length, span in ((5, entry["length5"]), (20, entry["length20"])):
            if span is None:
                continue
            first, last = span if span != [1, 12] else (1, depth)
            fits = fits and last <= depth
            label.append(f"{length} in layers {first}-{last}")
            for layer in range(first - 1, min(last, depth)):
                lengths[layer] += length
        if fits:
            rows.append(Row(", ".join(label), of_lengths(base, lengths), (entry["A_T"], None)))
    comparable = f"{data}/{tasks}" == REFERENCE
    return [Section(f"{data}, {tasks} tasks", rows, REFERENCE, comparable)]


def depth_of(run: Run) -> int:
    if run.backbone == PAPER.backbone:
        return 12  # known without the file
    from ovor.encoders import load_backbone  # brings torch

    return load_backbone(run.backbone, run.num_heads or None).vit.arch.depth


def of_lengths(base: Run, lengths: list[int]) -> Run:
    """By the names that other tables use for the same run."""
    if lengths == [5] * len(lengths):
        return replace(base, method="oneprompt-deep")
    while lengths and lengths[-1] == 0:
        lengths = lengths[:-1]
    if tuple(lengths) == (5, 5, 20, 20, 20):
        return base
    return replace(base, options={"lengths": lengths})


# --- what happens to the one prompt and its features (Sec. 4.2, App. E) ----------------------


def task_id_given(data: str, tasks: int, make: Make) -> list[Section]:
    return by_task(["oneprompt", "oneprompt+vor"], data, tasks, make, keep="last")


def drift(data: str, tasks: int, make: Make) -> list[Section]:
    return by_task(["oneprompt"], data, tasks, make, keep="tasks")


def by_task(
    methods: list[str], data: str, tasks: int, make: Make, keep: Literal["last", "tasks"]
) -> list[Section]:
    rows = [Row(name, replace(make(data, name, tasks=tasks), keep=keep)) for name in methods]
    comparable = f"{data}/{tasks}" == REFERENCE
    return [Section(f"{data}, {tasks} tasks", rows, REFERENCE, comparable)]


INR = tuple(("imagenet-r", tasks) for tasks in (5, 10, 20))
OTHERS = (("cifar-100", 10), ("cub-200", 10), ("imagenet-a", 10))

TABLES: dict[str, Table] = {
    "core": Table(
        "the prompt methods with and without VOR, and OVOR's controls", core, (("quickdraw", 10),)
    ),
    "main-table": Table("every method, with and without VOR", main_table, (INR[1], *OTHERS)),
    "vor-table": Table("what VOR brings to four prompts (Table 2)", vor_table, (INR[1], *OTHERS)),
    "tasks-table": Table("the prompt methods on 5, 10 and 20 tasks (Table 3)", prompt_table, INR),
    "std-tables": Table("all settings with deviations (App. A)", std_tables, (*INR, *OTHERS)),
    "task-id-given": Table(
        "change of accuracy with the task known (Table 1)", task_id_given, measure="task-id-given"
    ),
    "ablation": Table("all nine hyper-parameters of VOR (App. B)", partial(ablation, ABLATIONS)),
    **{
        f"ablation-{name.replace('_', '-')}": Table(f"{name} alone", partial(ablation, (name,)))
        for name in ABLATIONS
    },
    "prompt-position": Table("where the prompt is inserted (App. B)", prompt_position),
    "prompt-drift": Table(
        "how far each task moves the prompt (App. E)", drift, measure="prompt-drift"
    ),
    "representation-drift": Table(
        "how far each task moves the features (App. E)", drift, measure="representation-drift"
    ),
}


def sections(
    preset: str,
    data: list[str],
    tasks: list[int],
    methods: list[str],
    adapt: Callable[[Run], Run] = lambda run: run,
) -> tuple[Table, list[Section]]:
    """A table on the paper's settings, or on the data and numbers of tasks that are named.

    `adapt` changes each run, to another backbone say.
    """
    table = TABLES[preset]
    numbers = tasks or list(dict.fromkeys(number for _, number in table.settings))
    where = [(name, number) for name in data for number in numbers]
    if not data:
        chosen = [setting for setting in table.settings if not tasks or setting[1] in tasks]
        where = chosen or [(table.settings[0][0], number) for number in numbers]

    def make(data: str, method: str, vor: str = "paper", tasks: int | None = None) -> Run:
        return adapt(settings(data, method, vor, tasks))

    found = [part for setting in where for part in table.sections(*setting, make)]
    return table, [choose(with_backbone(part), methods) for part in found]


def with_backbone(part: Section) -> Section:
    """Says so if the paper's data are met with another backbone than the paper's."""
    backbone = part.rows[0].run.backbone
    if not part.comparable or backbone == PAPER.backbone:
        return part
    return replace(part, title=f"{part.title}, backbone {backbone}")


def choose(part: Section, methods: list[str]) -> Section:
    """The rows of some methods alone."""
    if not methods:
        return part
    names = {ALIASES.get(name, name) for name in methods}
    rows = [row for row in part.rows if row.run.name in names]
    missing = names - {row.run.name for row in rows}
    if missing:
        known = ", ".join(dict.fromkeys(row.run.name for row in part.rows))
        raise OvorError(f"This table has no {', '.join(sorted(missing))}: choose from {known}.")
    return replace(part, rows=rows)
