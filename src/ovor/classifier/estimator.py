"""The settings of a classifier, in scikit-learn's manner, and what follows from them."""

from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any, Self

import numpy as np
import torch
from pydantic import ValidationError

from ovor.classifier.file import TaskInfo
from ovor.classifier.prediction import Names
from ovor.config import Run, Transform
from ovor.data.modality import Modality
from ovor.encoders import Backbone, load_backbone
from ovor.encoders.backbone import PAPER
from ovor.encoders.preprocessing import Preprocessing, doubt
from ovor.errors import OvorError, explain
from ovor.learners import at_once, check_vor, parse_options
from ovor.presets import teaching


@dataclass(eq=False, repr=False)
class Estimator:
    """The settings, what they name (run, backbone, device), and what is known of what was learned.

    Nothing is loaded before it is needed.
    """

    backbone: str = PAPER
    """named as on the command line, and so is the method"""
    method: str = "analytic"
    _: KW_ONLY
    epochs: int | None = None
    """has a default by backbone and method, and so have the next two"""
    batch_size: int | None = None
    lr: float | None = None
    seed: int = 0
    false_alarms: float = 0.05
    """share of images of learned classes that may be called unknown"""
    hold_out: float = 0.1
    """share of images that is not trained on but judges that; analytic needs none"""
    device: str = "auto"
    workers: int = 0
    num_heads: int = 0
    image_size: int | None = None
    """side of the square that the network sees of an image; by default one that fits the network"""

    def __post_init__(self) -> None:
        self.tasks_: tuple[TaskInfo, ...] = ()
        self._loaded: Run | None = None  # what the file was learned with
        self._network: Backbone | None = None
        self._bundled = False
        self._transform: Transform | None = None  # set once something is learned

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name."""
        return {name: getattr(self, name) for name in PARAMETERS}

    def set_params(self, **params: Any) -> Self:
        """Change some of the constructor's arguments, for the tasks to come."""
        for name, value in params.items():
            if name not in PARAMETERS:
                raise OvorError(
                    f"There is no parameter {name!r}: choose from {', '.join(PARAMETERS)}."
                )
            if name in ("backbone", "method") and self.tasks_:
                raise OvorError(f"The {name} is fixed once something is learned: make a new one.")
            if name == "image_size" and self.tasks_ and value not in (None, self.transform().size):
                raise OvorError(
                    f"The model has learned from {self.reads.many} of {self.transform().size} "
                    f"{self.reads.unit}, and others would not fit them: leave the size out, or "
                    "make a new model."
                )
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """Say to scikit-learn what this is: a classifier of images, not of rows of numbers."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(two_d_array=False, three_d_array=True, positive_only=True),
            non_deterministic=False,
        )

    def __sklearn_is_fitted__(self) -> bool:
        return bool(self.tasks_)

    def __repr__(self) -> str:
        said = f"backbone={self.backbone!r}, method={self.method!r}"
        return f"<Classifier {said}: {len(self.tasks_)} task(s), {len(self.classes_)} class(es)>"

    @property
    def classes_(self) -> Names:
        """The names of the classes, in the order in which they were learned."""
        return np.array([name for task in self.tasks_ for name in task.classes], dtype=object)

    @property
    def task_sizes_(self) -> list[int]:
        """The number of classes of each task."""
        return [len(task.classes) for task in self.tasks_]

    def run(self) -> Run:
        """Return the settings of the training loop, checked."""
        base = self._loaded or teaching(self.backbone, self.method)
        names = ("epochs", "batch_size", "lr", "seed", "device", "workers", "num_heads")
        given = {name: getattr(self, name) for name in names}
        given = {name: value for name, value in given.items() if value is not None}
        vor = base.vor
        check_vor(base)
        try:
            if vor and self.epochs is not None:  # its share stays the same
                vor = replace(vor, epochs=max(1, round(vor.epochs * self.epochs / base.epochs)))
            run = replace(base, **given, vor=vor)
        except ValidationError as error:
            raise OvorError(f"This cannot be learned with: {explain(error)}.") from error
        parse_options(run.method, run.options)
        if at_once(run.method):
            raise OvorError(f"{run.method} learns all classes at once: choose another method.")
        return run

    def network(self) -> Backbone:
        """Return the backbone, loaded when it is first needed."""
        if self._network is None:
            self._network = load_backbone(self.backbone, self.num_heads or None)
        return self._network

    @property
    def reads(self) -> Modality:
        """What it learns from and is asked about, as its network says."""
        return self.network().encoder.reads

    def transform(self) -> Transform:
        """Return how images become the network's input, which has a real size here."""
        if self._transform:
            return self._transform
        network, transform = self.network(), self.run().transform
        try:
            if self._loaded is None:  # a model file has its own, which stays
                transform = fitted(transform, network.preprocessing, self.image_size)
            return replace(transform, size=network.encoder.input_size(transform.size))
        except ValidationError as error:
            raise OvorError(f"This cannot be learned with: {explain(error)}.") from error

    def doubt(self) -> str:
        """Return a sentence if a model begins with a backbone whose pixels can only be guessed."""
        own = None if self.tasks_ else self.network().preprocessing
        return doubt(own, self.backbone) if own and own.guessed else ""

    def settled(self) -> Run:
        """Return the settings with the images' own, for which the backbone is loaded."""
        return replace(self.run(), transform=self.transform())

    def torch_device(self) -> torch.device:
        """Return where to predict; learning asks Fabric."""
        available = torch.accelerator.current_accelerator(check_available=True)  # not: built for
        found = available or torch.device("cpu")
        if self.device not in ("auto", "cpu", found.type):
            raise OvorError(f"There is no device {self.device!r} here: use cpu or auto.")
        return torch.device("cpu") if self.device == "cpu" else found


def fitted(transform: Transform, own: Preprocessing | None, size: int | None) -> Transform:
    """Return how images become what the network was trained with, at this size if one is given."""
    if own is None:
        return replace(transform, size=size or transform.size)
    mean, std = (x[0] if len(set(x)) == 1 else x for x in (own.mean, own.std))
    return replace(
        transform,
        size=size or own.size,
        mean=mean,
        std=std,
        crop_pct=own.crop_pct,
        interpolation=own.interpolation,
    )


PARAMETERS = tuple(field.name for field in fields(Estimator))
