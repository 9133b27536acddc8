"""Compute what large runs would cost from what was measured: the tables of scaling.md.

python -m docs.plan    prints them; `python -m docs.tables` writes them into scaling.md

Everything is arithmetic on docs/results/performance.json and docs/results/scaling.json; what is
assumed instead of measured stands in ASSUMED, and the page names it.
"""

import json
from dataclasses import dataclass
from math import log10
from pathlib import Path
from typing import Any

from ovor.analysis.cost import VIT_B, Setting, measure

HEAD = "head phase, an epoch of 100,000 features of ViT-B"
RESULTS = Path(__file__).parent / "results"
TASKS = 100
EPOCHS, VOR_EPOCHS = 20, 4  # as on CIFAR-100, the paper's largest
IMAGENET_21K = 14_197_122.0  # images of 21,841 classes
TEST_SHARE = 1 / 10  # of as many images as there are to learn from
# Not measured: nothing here has a GPU, a network or photographs of this size.
ASSUMED = {
    "bytes of a JPEG": 110e3,
    "FLOP/s of a GPU that ViT-B reaches": 150e12,
    "cores beside a GPU": 16.0,
    "bytes/s from storage to a GPU's machine": 1e9,
    "bytes/s between machines": 10e9,
    "images of a step on one GPU": 256.0,
    "seconds of a step too small for a GPU": 1e-3,
}


@dataclass(frozen=True)
class Measured:
    step_macs: float  # an image, forward and back
    look_macs: float  # an image, forward
    flops: float  # per second, of a step on the two cores
    views: float  # per second and core, JPEGs decoded, cropped and resized
    npos: dict[int, float]  # seconds by number of features
    shared: float  # of those, the part that is divided among processes
    head: float  # seconds of an epoch of the head phase, a feature


@dataclass(frozen=True)
class Machine:
    name: str
    flops: float
    cores: float
    read: float  # bytes per second
    devices: int = 1
    npos_speed: float = 1.0  # over the two cores
    gpu: bool = True


def figure(rows: list[dict[str, Any]], what: str) -> float:
    """Return the median of the benchmark row of that name."""
    return float(next(row["median"] for row in rows if row["what"] == what))


def measured() -> Measured:
    """Read the measured constants from the results of the benchmarks."""
    parts = json.loads((RESULTS / "performance.json").read_text())["parts"]
    store = json.loads((RESULTS / "scaling.json").read_text())["parts"]["store"]
    times = {row["what"]: row["median"] for row in store if row["what"].endswith("store: time")}
    shares = {row["what"].strip(): row["median"] / 100 for row in store if row["unit"] == "%"}
    return Measured(
        step_macs=1e9 * figure(parts["step"], "arithmetic of a step, oneprompt"),
        look_macs=measure("oneprompt", Setting(tasks=1)).own_macs,
        flops=1e9 * figure(parts["step"], "  arithmetic of the step"),
        views=figure(parts["input"], "views of 256-px JPEGs by a core"),
        shared=shares["its distances"] + shares["scores"],
        head=figure(store, HEAD) / 1e5,
        npos={int(what.split()[1].replace(",", "")): time for what, time in times.items()},
    )


def npos_seconds(found: Measured, features: float) -> float:
    """Return the time of one NPOS search, by a power law between and beyond the measured sizes.

    They were measured with features 384 wide; 768 takes twice as long.
    """
    sizes = sorted(found.npos)
    below = max([size for size in sizes[:-1] if size <= features], default=sizes[0])
    above = sizes[sizes.index(below) + 1]
    power = log10(found.npos[above] / found.npos[below]) / log10(above / below)
    return 2 * found.npos[below] * (features / below) ** power


def phases(found: Measured, images: float, machine: Machine) -> dict[str, float]:
    """Return the seconds of a whole run of TASKS tasks, by what they are spent on."""
    train, looks, many = EPOCHS - VOR_EPOCHS, VOR_EPOCHS, machine.devices
    tested = images * TEST_SHARE * (TASKS + 1) / 2  # after each task on all tasks so far
    read = images * (train + looks) + tested
    speed = machine.flops * many
    batch = ASSUMED["images of a step on one GPU"] * many
    # Every process finds the parts and bounds alone, copies, and does the whole head phase.
    search = (1 - found.shared + found.shared / many) / machine.npos_speed
    small_steps = images * looks / batch * ASSUMED["seconds of a step too small for a GPU"]
    sent = 2 * gradient_bytes() * images * train / batch  # to and from each machine
    sent += 4 * VIT_B.embed_dim * (images * looks + tested)  # features, to all
    return {
        "training": 2 * found.step_macs * images * train / speed,
        "features for VOR": 2 * found.look_macs * images * looks / speed,
        "testing": 2 * found.look_macs * tested / speed,
        "decoding": read / (found.views * machine.cores * many),
        "reading": read * ASSUMED["bytes of a JPEG"] / (machine.read * many),
        "outliers": TASKS * VOR_EPOCHS * npos_seconds(found, images / TASKS) * search,
        "head phase": small_steps if machine.gpu else images * looks * found.head,
        "network": 0.0 if many == 1 else sent / ASSUMED["bytes/s between machines"],
    }


def gradient_bytes(classes: float = 220) -> float:
    """Return the bytes of all gradients of a step: OnePrompt's and the current head's."""
    prompt = 2 * 5 * VIT_B.embed_dim * 2 + 3 * 20 * VIT_B.embed_dim * 2
    return 4 * (prompt + (VIT_B.embed_dim + 1) * classes)


def gpus(count: int) -> Machine:
    """Return so many GPUs; NPOS runs on the cores beside each, as it does now."""
    flops, cores = ASSUMED["FLOP/s of a GPU that ViT-B reaches"], ASSUMED["cores beside a GPU"]
    read = ASSUMED["bytes/s from storage to a GPU's machine"]
    name = "1 GPU" if count == 1 else f"{count:,} GPUs"
    return Machine(name, flops, cores, read, count, npos_speed=cores / 2)


def machines(found: Measured) -> list[Machine]:
    return [Machine("2 cores", found.flops, 2, 1e9, gpu=False), gpus(1), gpus(64)]


def duration(seconds: float) -> str:
    for unit, size in (("y", 365 * 86400), ("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} s"


def total(spent: dict[str, float]) -> float:
    """Return the seconds of all phases; GPU, cores and storage work at the same time."""
    computing = sum(spent[name] for name in ("training", "features for VOR", "testing", "network"))
    overlapping = max(computing, spent["decoding"], spent["reading"])
    return overlapping + spent["outliers"] + spent["head phase"]


def by_powers(found: Measured) -> str:
    """Return the table of runs of 10^4 to 10^9 images."""
    lines = ["| images | FLOPs | read | features of a task |"]
    for machine in machines(found):
        lines[0] += f" {machine.name} | most of it |"
    lines.append("|" + "---|" * lines[0].count(" | ") + "---|")
    for power in range(4, 10):
        images = 10.0**power
        lines.append(row_of(found, images, f"10^{power}"))
    return "\n".join(lines) + "\n"


def row_of(found: Measured, images: float, name: str) -> str:
    tested = images * TEST_SHARE * (TASKS + 1) / 2
    work = 2 * (
        found.step_macs * images * (EPOCHS - VOR_EPOCHS)
        + found.look_macs * (images * VOR_EPOCHS + tested)
    )
    read = (images * EPOCHS + tested) * ASSUMED["bytes of a JPEG"]
    features = images / TASKS * VIT_B.embed_dim * 4
    cells = [name, f"{work:.1e}", in_bytes(read), in_bytes(features)]
    for machine in machines(found):
        spent = phases(found, images, machine)
        cells += [duration(total(spent)), most_of(spent)]
    return "| " + " | ".join(cells) + " |"


def most_of(spent: dict[str, float]) -> str:
    return max(spent, key=lambda phase: spent[phase])


def in_bytes(count: float) -> str:
    for unit, size in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count / 1e3:,.0f} kB"


def imagenet_21k(found: Measured) -> str:
    """Return the table of a run on ImageNet-21k, by phase."""
    lines = ["| phase | 2 cores | 1 GPU | 64 GPUs |", "|---|---|---|---|"]
    each = [phases(found, IMAGENET_21K, machine) for machine in machines(found)]
    for phase in each[0]:
        lines.append(f"| {phase} | " + " | ".join(duration(spent[phase]) for spent in each) + " |")
    lines.append("| **all** | " + " | ".join(duration(total(spent)) for spent in each) + " |")
    return "\n".join(lines) + "\n"


def by_gpus(found: Measured) -> str:
    """Return the table of ImageNet-21k and of a billion images on ever more GPUs."""
    lines = [
        "| GPUs | ImageNet-21k | most of it | 10^9 images | most of it |",
        "|---|---|---|---|---|",
    ]
    for count in (1, 10, 100, 1000, 10_000):
        cells = [f"{count:,}"]
        for images in (IMAGENET_21K, 1e9):
            spent = phases(found, images, gpus(count))
            cells += [duration(total(spent)), most_of(spent)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    found = measured()
    print(by_powers(found))
    print(imagenet_21k(found))
    print(by_gpus(found))


if __name__ == "__main__":
    main()
