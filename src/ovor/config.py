"""A run as one frozen value.

Field names are the paper's. No torch here: the command line reads this to print its help.
"""

from dataclasses import field, replace
from typing import Annotated, Any, Literal

import tyro
from pydantic import ConfigDict, Field, TypeAdapter, model_validator
from pydantic.dataclasses import dataclass

STRICT = ConfigDict(extra="forbid")

Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Channels = float | tuple[float, float, float]
Scenario = Literal["classes", "repetition", "stream"]
Shift = Literal["none", "ink", "light"]

REMOVED_FROM_NPOS = {"per_class": False, "sample": 0}  # older files have them, at these defaults


@dataclass(frozen=True, config=STRICT)
class Npos:
    """Virtual outliers by non-parametric synthesis (Alg. 2)."""

    sigma: Positive = 1.0
    """standard deviation of the noise"""
    alpha: Positive = 10
    """boundary samples per class, on average over the task's classes"""
    beta: Count = 160
    """outliers per class"""
    k: Count = 100
    """which nearest neighbour measures the distance"""
    noise: Count = 600
    """noise vectors (the paper's N)"""
    add_boundary: bool = True
    """candidates are boundary + noise; the released code leaves the boundary out"""
    space: Literal["raw", "unit", "mixed"] = "raw"
    """search in raw features, in normalised ones, or as released: raw candidates, unit index"""
    self_neighbor: bool = False
    """count a feature as its own first neighbour, as released"""
    shuffle: bool = True
    """shuffle the outliers; the released code leaves them in order of distance"""

    @model_validator(mode="before")
    @classmethod
    def _accept_older_files(cls, given: Any) -> Any:
        """Drop options that are gone, if an older run.json or model file has their defaults."""
        if not isinstance(given, dict):
            return given
        for name, default in REMOVED_FROM_NPOS.items():
            if given.get(name, default) != default:
                raise ValueError(
                    f"the option {name} is gone (it was {given[name]}); without it, all features "
                    "are searched together and exactly, which gives other outliers"
                )
        return {name: value for name, value in given.items() if name not in REMOVED_FROM_NPOS}


@dataclass(frozen=True, config=STRICT)
class Vor:
    """Virtual outlier regularization: the head phase after each task (Sec. 4)."""

    epochs: Count = 10
    """the last epochs of a task, spent on the head alone"""
    weight: Annotated[float, Field(ge=0)] = 0.1
    """lambda, the weight of the outlier loss"""
    tau_current: float = -24.0
    """energy that the task's own features should stay below"""
    tau_outlier: float = -3.0
    """energy that outliers should stay above"""
    tau_outlier_relative: bool = False
    """shift tau_outlier by log 20 - log C, so that it means the same for any number of classes"""
    hinge: Literal["huber", "mse"] = "huber"
    """what an energy beyond its threshold costs"""
    terms: Literal["both", "current", "outlier", "none"] = "both"
    """which energy terms are used; "none" is cross-entropy only"""
    refresh: Literal["epoch", "task"] = "epoch"
    """extract features and synthesise outliers anew every epoch, or once per task"""
    npos: Npos = field(default_factory=Npos)


@dataclass(frozen=True, config=STRICT)
class Transform:
    """How images become tensors."""

    size: Annotated[int, Field(ge=0, le=4096)] = 0
    """side of the square input; 0 takes the backbone's own"""
    scale: tuple[Positive, Positive] = (0.08, 1.0)
    """area of the random training crop"""
    ratio: tuple[Positive, Positive] = (3 / 4, 4 / 3)
    """aspect of the random training crop"""
    flip: Fraction = 0.5
    """probability of a horizontal flip in training"""
    crop_pct: Annotated[float, Field(ge=0.1, le=1)] = 0.875
    """test images: the shorter side becomes size / crop_pct, then the centre is cropped"""
    mean: Annotated[Channels, tyro.conf.arg(metavar="NUMBER | RED GREEN BLUE")] = 0.0
    """one number, or three for red, green and blue; 0 as in the paper"""
    std: Annotated[Channels, tyro.conf.arg(metavar="NUMBER | RED GREEN BLUE")] = 1.0
    """pixels in [0, 1] are normalised as (x - mean) / std"""
    interpolation: Literal["bilinear", "bicubic"] = "bilinear"
    """how images are scaled"""

    def __post_init__(self) -> None:
        limits = {"mean": (self.mean, -100, 100), "std": (self.std, 0.001, 1000)}
        for name, (given, least, most) in limits.items():
            for number in given if isinstance(given, tuple) else (given,):
                if not least <= number <= most:
                    raise ValueError(
                        f"transform.{name} must be from {least} to {most}, not {number}"
                    )
        for name, (low, high) in {"scale": self.scale, "ratio": self.ratio}.items():
            if low > high:
                raise ValueError(f"transform.{name} must grow, not ({low}, {high})")


@dataclass(frozen=True, config=STRICT)
class Run:
    """One experiment: a method on a sequence of tasks, with one seed."""

    method: str = "oneprompt"
    """oneprompt, oneprompt-deep, l2p, dualprompt, coda-p, apt, linear, slca or l2, each also with
    +vor for virtual outlier regularization (ovor is short for oneprompt+vor, ovor-deep for
    oneprompt-deep+vor); analytic (exact class sums, no training), shapes (the same, with a
    covariance of each class), simplecil, adam-finetune,
    adam-vpt-shallow, adam-vpt-deep, adam-adapter, adam-ssf, ranpac, loranpac, klda, randumb, fecam,
    anacp, ssiat, rsiat, ease (as many passes as tasks), a-prompt (experimental); the bounds
    finetune (lower) and joint (upper: all classes as one task)"""
    options: tyro.conf.Suppress[dict[str, Any]] = field(default_factory=dict)
    """options of the method's own, by name"""
    vor: Vor | None = None
    data: str = "quickdraw"
    """quickdraw, quickdraw-dev, folder:PATH, shards:PATTERN (WebDataset tars), hf:NAME or hf:PATH
    (Hugging Face), imagenet-r, imagenet-r:pilot, cifar-100, cub-200, cub-200:pilot or imagenet-a;
    of texts: texts:PATH (a table, folders), reuters, reuters:leads, reuters:all, reuters-dev,
    clinc150, banking77, hwu64 or dbpedia"""
    tasks: Count = 10
    """number of tasks, as equal as the number of classes allows"""
    task_sizes: tuple[Count, ...] = ()
    """classes in each task, instead of equal tasks"""
    scenario: Scenario = "classes"
    """how training images come: classes (each task brings new classes with all their images),
    repetition (with half of them; later tasks bring the others, which joint and methods that keep
    sums can learn), stream (every image is seen once: one epoch, no second look)"""
    imbalance: Annotated[
        tuple[Count, Count] | None, tyro.conf.arg(metavar="FEW MANY", help_behavior_hint="")
    ] = None
    """unequal classes, with FEW to MANY training images; the seed says which has how many"""
    label_noise: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """share of training images with the label of another class of their task"""
    shift: Shift = "none"
    """how tasks differ in their look, from the first, unchanged, to the last: ink (drawn thicker,
    and rotated), light (blurred, and darker); test images look as their task's training images"""
    order: Literal["paper", "shuffled", "icarl", "natural"] = "paper"
    """class order: paper (seed 0 unshuffled), shuffled (seed 0 too), icarl (numpy, seed 1993)"""
    backbone: str = "embedded"
    """embedded, small, base or large (DINOv2 with registers), a timm name with its tag, a
    .safetensors, .pth or .npz file; or text, for texts"""
    num_heads: Annotated[int, Field(ge=0)] = 0
    """attention heads of the backbone; 0: as its file says, or one per 64 of its width"""
    transform: Transform = field(default_factory=Transform)
    epochs: Count = 50
    """epochs per task, head phase included"""
    batch_size: Count = 128
    """images per step"""
    lr: Positive = 1e-3
    """of Adam, at the start of each task"""
    schedule: Literal["paper", "cosine", "step"] = "paper"
    """paper: quarter cosine, first step twice; cosine: to zero; step: a tenth after 80 %"""
    seed: Annotated[int, Field(ge=0)] = 0
    """of class order, initial weights, augmentation and noise"""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """where to compute"""
    precision: Literal["fp32", "bf16"] = "fp32"
    """of the ViT; norm, head, losses and outliers are always fp32"""
    workers: Annotated[int, Field(ge=0)] = 0
    """processes that load images; 0 loads in the main one"""
    keep: Literal["last", "tasks"] = "last"
    """learned weights to keep: those after the last task, or those after every task as well"""
    cache: Annotated[float, Field(ge=0)] = 0.0
    """GB of decoded images to keep on disk, so that later epochs decode nothing, or of the features
    of texts, for later runs; 0 keeps none"""
    threads: Annotated[int, Field(ge=0)] = 0
    """CPU threads, 0 for torch's choice; another number may change the last bits of a result"""
    devices: Count = 1
    """GPUs of a machine, or processes on its CPU, that share each batch of the run"""
    nodes: Count = 1
    """machines that do the run together"""
    tensorboard: bool = False
    """also write losses and accuracies for TensorBoard, into the result folder"""

    def __post_init__(self) -> None:
        if self.scenario == "stream" and self.vor is not None:
            raise ValueError(
                "a stream shows every image once, and VOR looks again: leave out the +vor"
            )
        if self.scenario == "stream" and self.epochs != 1:
            raise ValueError(
                f"a stream shows every image once: epochs must be 1, not {self.epochs}"
            )
        if self.imbalance is not None and self.imbalance[0] > self.imbalance[1]:
            few, many = self.imbalance
            raise ValueError(f"imbalance must be FEW MANY, not {few} {many}: try {many} {few}")
        if self.vor is not None and self.epochs == 1:
            raise ValueError(f"{self.name} needs two epochs, one of them for VOR: give more epochs")
        if self.vor is not None and self.vor.epochs >= self.epochs:
            raise ValueError(
                f"vor.epochs ({self.vor.epochs}) is a part of epochs ({self.epochs}), "
                "so it must be smaller"
            )

    @property
    def name(self) -> str:
        """The method as people write it."""
        return self.method + ("+vor" if self.vor else "")

    @property
    def arrival(self) -> tuple[str, ...]:
        """How the training images come, in words; nothing where it is the usual way."""
        said: list[str] = [] if self.scenario == "classes" else [self.scenario]
        if self.imbalance is not None:
            said.append(f"imbalance {self.imbalance[0]} to {self.imbalance[1]}")
        if self.label_noise:
            said.append(f"label noise {self.label_noise:g}")
        if self.shift != "none":
            said.append(f"shift {self.shift}")
        return tuple(said)

    @property
    def essence(self) -> "Run":
        """Without what changes the time alone: runs with the same have the same result.

        The number of processes may change its last bits.
        """
        return replace(self, workers=0, cache=0.0, devices=1, nodes=1, tensorboard=False)


RUN = TypeAdapter(Run)
