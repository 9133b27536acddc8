"""Every table of the paper as a list of runs, on the paper's data sets or on any other.

Hyper-parameters are those of the data set (presets.py); an ablation varies them by the same steps
and factors as the paper's, so that on ImageNet-R they are the paper's values.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, Protocol

from ovor.config import Run, Vor
from ovor.errors import OvorError
from ovor.paper import paper
from ovor.presets import ALIASES, PAPER, VOR_PRESETS, settings

# The paper's main tables have these; ours go on with the others of its time, and `field` with all.
PROMPT_METHODS = ("oneprompt", "oneprompt-deep", "l2p", "dualprompt", "coda-p")
OTHER_METHODS = (
    *("analytic", "linear", "simplecil", "adam-finetune", "adam-vpt-shallow", "adam-vpt-deep"),
    *("adam-adapter", "adam-ssf", "ranpac", "slca", "l2", "a-prompt", "finetune", "joint"),
)
REFERENCE = "imagenet-r/10"  # the setting shown beside data that the paper does not have

Figures = tuple[float | None, float | None]  # A_T and F_T; None where the paper has none
Measure = Literal["accuracy", "field", "task-id-given", "prompt-drift", "representation-drift"]


class Make(Protocol):
    """Makes a run as `presets.settings` does, perhaps with another backbone or fewer epochs."""

    def __call__(
        self, data: str, method: str, vor: str = "paper", tasks: int | None = None
    ) -> Run: ...


@dataclass(frozen=True)
class Row:
    """One line of a table: a label, the run that it stands for, and the paper's A_T and F_T."""

    label: str
    run: Run  # of any seed
    paper: Figures = (None, None)
    paper_std: Figures = (None, None)


@dataclass(frozen=True)
class Section:
    """The rows of one setting, or of one hyper-parameter."""

    title: str
    rows: list[Row]
    where: str  # the setting of the paper's figures
    comparable: bool  # whether the rows were run in that setting
    deviations: bool = False  # whether the paper's standard deviations are shown
    way: str = ""  # the scenario, in the table that has several


@dataclass(frozen=True)
class Table:
    """A preset of `ovor grid`: which sections it has on a data set in some number of tasks."""

    about: str
    sections: Callable[[str, int, Make], list[Section]]
    settings: tuple[tuple[str, int], ...] = (("imagenet-r", 10),)  # the paper's data and tasks
    measure: Measure = "accuracy"


def of_paper(method: str, where: str, what: str = "mean") -> Figures:
    """Return the paper's mean or std of A_T and F_T; all variants of ADAM have the same one."""
    short = {long: name for name, long in ALIASES.items()}
    name = "adam" if method.startswith("adam-") else short.get(method, method)
    tables = (paper()[table].get(name, {}) for table in ("accuracy_A_T", "forgetting_F_T"))
    accuracy, forgetting = ((table.get(where) or {}).get(what) for table in tables)
    return accuracy, forgetting


def section(data: str, tasks: int, rows: list[tuple[str, str, Run]]) -> Section:
    """Put rows (label, method, run) beside the paper's figures of the setting or of ImageNet-R."""
    known = paper()["accuracy_A_T"]["oneprompt"]
    comparable = f"{data}/{tasks}" in known
    where = next(w for w in (f"{data}/{tasks}", f"imagenet-r/{tasks}", REFERENCE) if w in known)
    found = [
        Row(label, run, of_paper(method, where), of_paper(method, where, "std"))
        for label, method, run in rows
    ]
    return Section(f"{data}, {tasks} tasks", found, where, comparable)


def beside_reference(title: str, data: str, tasks: int, rows: list[Row]) -> Section:
    """Put rows beside the paper's figures of ImageNet-R in 10 tasks, the only ones it has."""
    return Section(title, rows, REFERENCE, f"{data}/{tasks}" == REFERENCE)


def with_and_without_vor(methods: Iterable[str]) -> list[str]:
    return [method + vor for method in methods for vor in ("", "+vor")]


def method_rows(
    methods: list[str], data: str, tasks: int, make: Make
) -> list[tuple[str, str, Run]]:
    return [(name, name, make(data, name, tasks=tasks)) for name in methods]


def core(data: str, tasks: int, make: Make) -> list[Section]:
    """Return the ten prompt methods, and OVOR with parts of it changed."""
    rows = method_rows(with_and_without_vor(PROMPT_METHODS), data, tasks, make)
    for preset, label in VOR_PRESETS.items():
        if preset != "paper":
            rows.append((f"oneprompt+vor: {label}", "", make(data, "ovor", preset, tasks)))
    return [section(data, tasks, rows)]


def method_table(methods: list[str], data: str, tasks: int, make: Make) -> list[Section]:
    """Return a row for each of these methods."""
    return [section(data, tasks, method_rows(methods, data, tasks, make))]


def main_table(data: str, tasks: int, make: Make) -> list[Section]:
    """Return the methods of the paper's time, with VOR too where they have a linear head."""
    from ovor.learners import takes_vor  # brings torch

    methods = PROMPT_METHODS + OTHER_METHODS
    names = [m + vor for m in methods for vor in ("", "+vor") if not vor or takes_vor(m)]
    return [section(data, tasks, method_rows(names, data, tasks, make))]


def std_tables(data: str, tasks: int, make: Make) -> list[Section]:
    """Return the main table with the paper's standard deviations."""
    return [replace(part, deviations=True) for part in main_table(data, tasks, make)]


# Ablations (App. B): the steps from the default, in the order of the paper's columns.
FACTORS: dict[str, tuple[float, ...]] = {
    "lambda": (0.5, 1, 5, 10),
    "sigma": (0.1, 0.5, 1, 2),
    "alpha": (0.5, 0.75, 1, 1.25, 1.5),
    "beta": (0.625, 0.75, 0.875, 1, 1.125, 1.25),
    "k": (0.5, 1, 1.5),
}
SHIFTS = (3, 0, -3)  # of tau_current and tau_outlier
ABLATIONS = tuple(paper()["ablation_ovor_imagenet-r/10"])


def variants(name: str, vor: Vor, epochs: int) -> list[tuple[str, Vor]]:
    """Return VOR with one hyper-parameter around its default, and labels of the values."""
    if name == "penalty":
        return [(kind, replace(vor, hinge=kind)) for kind in ("huber", "mse")]
    if name == "vor_epochs_percent":
        # Half as many and half as many again; of a single epoch there is no half.
        own = vor.epochs
        counts = (own // 2, own, own * 3 // 2) if own > 1 else (1, 2, 3)
        return [(f"{n} of {epochs} epochs", replace(vor, epochs=n)) for n in counts if n < epochs]
    if name.startswith("tau_"):
        values = [getattr(vor, name) + shift for shift in SHIFTS]
        return [(f"{value:g}", replace(vor, **{name: value})) for value in values]
    default = vor.weight if name == "lambda" else getattr(vor.npos, name)
    values = [round(default * factor, 6) for factor in FACTORS[name]]
    if name == "lambda":
        return [(f"{value:g}", replace(vor, weight=value)) for value in values]
    if name in ("beta", "k"):
        values = [int(value) for value in values]
    return [(f"{v:g}", replace(vor, npos=replace(vor.npos, **{name: v}))) for v in values]


def ablation(names: tuple[str, ...], data: str, tasks: int, make: Make) -> list[Section]:
    """Return a section for each hyper-parameter of VOR, the others at their defaults."""
    base = make(data, "ovor", tasks=tasks)
    assert base.vor is not None
    found = []
    for name in names:
        printed: list[float | None] = list(paper()["ablation_ovor_imagenet-r/10"][name].values())
        if name == "vor_epochs_percent" and base.vor.epochs == 1:
            printed = [None] * 3  # other shares than the paper's
        rows = []
        for (label, vor), a in zip(variants(name, base.vor, base.epochs), printed, strict=False):
            default = " (default)" if vor == base.vor else ""
            rows.append(Row(label + default, replace(base, vor=vor), (a, None)))
        found.append(beside_reference(f"{name}, {data} in {tasks} tasks", data, tasks, rows))
    return found


def prompt_position(data: str, tasks: int, make: Make) -> list[Section]:
    """Return where OnePrompt may be inserted; what the backbone is too shallow for is left out."""
    base = make(data, "oneprompt", tasks=tasks)
    depth = depth_of(base)
    rows = []
    for entry in paper()["prompt_position_oneprompt_imagenet-r/10"]:
        spans = {5: entry["length5"], 20: entry["length20"]}
        spans = {n: (1, depth) if span == [1, 12] else span for n, span in spans.items() if span}
        if any(last > depth for _, last in spans.values()):
            continue
        label = ", ".join(f"{n} in layers {first}-{last}" for n, (first, last) in spans.items())
        lengths = [
            sum(n for n, (first, last) in spans.items() if first <= layer <= last)
            for layer in range(1, depth + 1)
        ]
        rows.append(Row(label, of_lengths(base, lengths), (entry["A_T"], None)))
    return [beside_reference(f"{data}, {tasks} tasks", data, tasks, rows)]


def depth_of(run: Run) -> int:
    """Return the number of blocks of the run's backbone."""
    if run.backbone == PAPER.backbone:
        return 12  # known without the file
    from ovor.encoders import load_backbone  # brings torch

    return load_backbone(run.backbone, run.num_heads or None).vit.arch.depth


def of_lengths(base: Run, lengths: list[int]) -> Run:
    """Return OnePrompt with these lengths a layer, named as other tables name the same run."""
    if lengths == [5] * len(lengths):
        return replace(base, method="oneprompt-deep")
    while lengths and lengths[-1] == 0:
        lengths = lengths[:-1]
    if tuple(lengths) == (5, 5, 20, 20, 20):
        return base
    return replace(base, options={"lengths": lengths})


def task_id_given(data: str, tasks: int, make: Make) -> list[Section]:
    """Return OnePrompt without and with VOR, for its accuracy with the task given (Table 1)."""
    names = with_and_without_vor(["oneprompt"])
    rows = [Row(name, make(data, name, tasks=tasks)) for name in names]
    return [beside_reference(f"{data}, {tasks} tasks", data, tasks, rows)]


def drift(data: str, tasks: int, make: Make) -> list[Section]:
    """Return OnePrompt with the weights of every task kept, by which drift is measured (App. E)."""
    row = Row("oneprompt", replace(make(data, "oneprompt", tasks=tasks), keep="tasks"))
    return [beside_reference(f"{data}, {tasks} tasks", data, tasks, [row])]


def of_the_field(data: str, tasks: int, make: Make) -> list[Section]:
    """Return every method in every scenario that it can learn in."""
    from ovor.experiments.field import field  # which is made of rows and sections

    return field(data, tasks, make)


IMAGENET_R = tuple(("imagenet-r", tasks) for tasks in (5, 10, 20))
OTHERS = (("cifar-100", 10), ("cub-200", 10), ("imagenet-a", 10))
TEN_TASKS = (IMAGENET_R[1], *OTHERS)
LEADS = (("reuters:leads", 5),)
ON_FEATURES = ["analytic", "simplecil", "ranpac", *with_and_without_vor(["slca", "linear"])]
ON_PROMPTS = ["analytic", *with_and_without_vor(["linear", "oneprompt", "oneprompt-deep"])]
FOUR = with_and_without_vor(method for method in PROMPT_METHODS if method != "oneprompt-deep")
FIVE = [*with_and_without_vor(PROMPT_METHODS), "analytic"]

TABLES: dict[str, Table] = {
    "core": Table(
        "the prompt methods with and without VOR, and OVOR's controls", core, (("quickdraw", 10),)
    ),
    "main-table": Table(
        "the methods of the paper's time, with and without VOR", main_table, TEN_TASKS
    ),
    "field": Table(
        "every method in seven scenarios, with time, bytes and passes",
        of_the_field,
        (("quickdraw", 10),),
        "field",
    ),
    "vor-table": Table(
        "what VOR brings to four prompts (Table 2)", partial(method_table, FOUR), TEN_TASKS
    ),
    "tasks-table": Table(
        "the prompt methods on 5, 10 and 20 tasks (Table 3), and analytic",
        partial(method_table, FIVE),
        IMAGENET_R,
    ),
    "text-table": Table(
        "texts: what learns from features", partial(method_table, ON_FEATURES), (("reuters", 5),)
    ),
    "text-prompts": Table(
        "texts, their first words: prompts", partial(method_table, ON_PROMPTS), LEADS
    ),
    "std-tables": Table(
        "all settings with deviations (App. A)", std_tables, (*IMAGENET_R, *OTHERS)
    ),
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
    """Return a table on the paper's settings, or on the data and numbers of tasks that are named.

    `adapt` changes each run, for example to another backbone.
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
    return table, choose([with_backbone(part) for part in found], methods)


def with_backbone(part: Section) -> Section:
    """Name the backbone in the title if the paper's data are run with another than the paper's."""
    backbone = part.rows[0].run.backbone
    if not part.comparable or backbone == PAPER.backbone:
        return part
    return replace(part, title=f"{part.title}, backbone {backbone}")


def choose(parts: list[Section], methods: list[str]) -> list[Section]:
    """Return the sections with the rows of some methods alone, as far as they have any."""
    if not methods:
        return parts
    names = {ALIASES.get(name, name) for name in methods}
    there = dict.fromkeys(row.run.name for part in parts for row in part.rows)
    missing = names - set(there)
    if missing:
        known = ", ".join(there)
        raise OvorError(f"This table has no {', '.join(sorted(missing))}: choose from {known}.")
    kept = [[row for row in part.rows if row.run.name in names] for part in parts]
    return [replace(part, rows=rows) for part, rows in zip(parts, kept, strict=True) if rows]
