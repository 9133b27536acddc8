"""The growing classifier: folders of labelled images in, one small file out that names new images.

    model = Classifier()
    model.learn("spring/")
    model.learn("summer/")
    labels, confidences, unknown = model.predict(["a.jpg", "b.jpg"])
    model.save("garden.ovor")

It keeps no image. Conventions are scikit-learn's where they fit; class names are strings.
"""

import tempfile
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from pydantic import ValidationError
from torch import Tensor

from ovor.classifier.file import (
    DESCRIPTION,
    Description,
    Learned,
    Model,
    Network,
    check_place,
    read_model,
    write_model,
)
from ovor.classifier.prediction import Answers, Names, Predictions, answers, predictions
from ovor.classifier.rejection import margins
from ovor.config import Run
from ovor.data.class_names import as_name
from ovor.data.images import at_home, spread
from ovor.data.task_data import Lesson, OnError, checked, read_lesson
from ovor.data.transforms import normalised, test_view
from ovor.encoders import Backbone, load_backbone
from ovor.encoders.weights import PAPER, build
from ovor.errors import OvorError, explain
from ovor.events import ImageChecked, Listener, silent
from ovor.learners import at_once, build_learner, parse_options, takes_vor
from ovor.learners.base import Learner
from ovor.presets import teaching
from ovor.tensor_file import digest


class Classifier:
    def __init__(
        self,
        backbone: str = PAPER,
        method: str = "ovor",
        *,
        epochs: int | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        seed: int = 0,
        false_alarms: float = 0.05,
        hold_out: float = 0.1,
        device: str = "auto",
        workers: int = 0,
        num_heads: int = 0,
    ) -> None:
        """Nothing is loaded before it is needed.

        `backbone` and `method` are named as on the command line; `epochs`, `batch_size` and `lr`
        have defaults by backbone and method. `false_alarms` is the share of images of learned
        classes that may be called unknown, judged by `hold_out`, the share of images that is not
        trained on.
        """
        self.backbone = backbone
        self.method = method
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.seed = seed
        self.false_alarms = false_alarms
        self.hold_out = hold_out
        self.device = device
        self.workers = workers
        self.num_heads = num_heads
        self.tasks_: tuple[Learned, ...] = ()
        self._loaded: Run | None = None  # what the file was learned with
        self._network: Backbone | None = None
        self._bundled = False
        self._learner: Learner | None = None

    # --- what scikit-learn asks of an estimator

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {name: getattr(self, name) for name in PARAMETERS}

    def set_params(self, **params: Any) -> Self:
        for name, value in params.items():
            if name not in PARAMETERS:
                raise OvorError(
                    f"There is no parameter {name!r}: choose from {', '.join(PARAMETERS)}."
                )
            if name in ("backbone", "method") and self.tasks_:
                raise OvorError(f"The {name} is fixed once something is learned: make a new one.")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        said = f"backbone={self.backbone!r}, method={self.method!r}"
        return f"<Classifier {said}: {len(self.tasks_)} task(s), {len(self.classes_)} class(es)>"

    @property
    def classes_(self) -> Names:
        """Names in the order in which they were learned."""
        names = [name for task in self.tasks_ for name in task.classes]
        return np.array(names, dtype=object)

    @property
    def task_sizes_(self) -> list[int]:
        return [len(task.classes) for task in self.tasks_]

    def fit(self, X: Any, y: Iterable[Any] | None = None) -> Self:  # noqa: N803
        """From the beginning: what was learned before is dropped."""
        fresh = Classifier(**self.get_params())
        fresh.learn(X, y)
        self.__dict__.update(fresh.__dict__)
        return self

    def partial_fit(
        self,
        X: Any,  # noqa: N803
        y: Iterable[Any] | None = None,
        classes: object = None,
    ) -> Self:
        """The next task. Labels become strings; `classes` is there for scikit-learn, and unused."""
        return self.learn(X, y)

    def score(self, X: Any, y: Iterable[Any]) -> float:  # noqa: N803
        """Share of right labels; being called unknown does not count as wrong."""
        found = self.predict(X).labels
        truth = np.array([as_name(str(label)) for label in y], dtype=object)
        if len(found) != len(truth) or not len(truth):
            raise OvorError(
                f"There are {len(found)} images and {len(truth)} labels: give one label each."
            )
        return float(np.mean(found == truth))

    # --- learning

    def learn(
        self,
        source: Any,
        labels: Iterable[Any] | None = None,
        *,
        rename: dict[str, str] | None = None,
        skip_known: bool = False,
        on_error: OnError = "stop",
        checkpoint: str | Path | None = None,
        listen: Listener = silent,
    ) -> Self:
        """The next task: new classes only, from a folder, from images and labels, or from pairs.

        Whatever stops it, the classifier stays as it was. With a `checkpoint` file a lesson that
        was stopped continues when the same is learned again; the file is yours to remove.
        """
        lesson = self.lesson(
            source,
            labels,
            rename=rename,
            skip_known=skip_known,
            on_error=on_error,
            listen=listen,
        )
        with tempfile.TemporaryDirectory() as folder:
            where = Path(checkpoint) if checkpoint else Path(folder, "checkpoint")
            self.learn_lesson(lesson, where, listen)
        return self

    def lesson(
        self,
        source: Any,
        labels: Iterable[Any] | None = None,
        *,
        rename: dict[str, str] | None = None,
        skip_known: bool = False,
        on_error: OnError = "stop",
        listen: Listener = silent,
    ) -> Lesson:
        """What there is to learn, every image of it read once."""
        found = read_lesson(
            source, labels, self.classes_.tolist(), rename=rename or {}, skip_known=skip_known
        )
        self.about()  # settings and backbone: nobody should wait for all images to hear of those
        event = ImageChecked(total=len(found.images))
        return checked(found, on_error, lambda images: listen(event))

    def learn_lesson(self, lesson: Lesson, checkpoint: Path, listen: Listener = silent) -> None:
        from ovor.classifier.fit import teach  # brings Fabric, which predicting can do without

        learner, tasks = teach(
            self.past(),
            lesson,
            checkpoint,
            hold_out=self.hold_out,
            false_alarms=self.false_alarms,
            listen=listen,
        )
        self._learner = learner.eval()
        self.tasks_ = tasks

    def past(self) -> Any:
        from ovor.classifier.fit import Past

        state = self._learner.learned_state() if self._learner else {}
        said = DESCRIPTION.dump_python(self.about(), mode="json")
        mark = digest({name: x.cpu().contiguous() for name, x in state.items()}, said["tasks"])
        return Past(self.run(), self.network(), self.tasks_, state, mark)

    def forget(self, name: str) -> None:
        """Take a class out of the head; what it left in a prompt that classes share stays."""
        name = as_name(name)
        if self.classes_.tolist() == [name]:
            raise OvorError(f"{name!r} is the only class: delete the model instead.")
        for number, task in enumerate(self.tasks_):
            if name in task.classes:
                row = task.classes.index(name)
                self.learner().forget(number, row)
                rest = replace(
                    task,
                    classes=without(task.classes, row),
                    images=without(task.images, row),
                )
                self.tasks_ = (*self.tasks_[:number], rest, *self.tasks_[number + 1 :])
                return
        raise OvorError(f"There is no class {name!r}: {listing(self.classes_)}.")

    # --- predicting

    def predict(self, X: Any) -> Predictions:  # noqa: N803
        """Labels, confidences and unknown flags of a folder's images, or of one or more images."""
        return predictions(self.classes_, answers(self, spread(X)))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Of every class, in the order of `classes_`."""
        parts = [part.probabilities for part in answers(self, spread(X))]
        return np.concatenate([np.empty((0, len(self.classes_))), *parts])

    def answer(self, images: Sequence[Image.Image]) -> Answers:
        return self.answer_views(np.stack([self.view(image) for image in images]))

    def view(self, image: Image.Image) -> NDArray[np.uint8]:
        """What the network sees of an image: little, however large it was."""
        return np.asarray(test_view(image, self.transform()))

    @torch.no_grad()
    def answer_views(self, views: NDArray[np.uint8]) -> Answers:
        learner, transform = self.learner(), self.transform()
        pixels = torch.from_numpy(views).to(learner.device)
        logits = learner.logits(learner.features(normalised(pixels, transform))).float()
        claimed = margins(logits, self.task_sizes_, [task.threshold for task in self.tasks_])
        return Answers(as_array(logits.softmax(1)), as_array(claimed))

    # --- files

    def save(self, path: str | Path, *, bundle: bool = False) -> None:
        """One file; with `bundle` the backbone is in it, for machines that do not have it."""
        state, network = self.learner().learned_state(), self.network()
        inside = bundle or self._bundled
        tensors = network.vit.state_dict() if inside else {}
        about = self.about()
        about = replace(about, backbone=replace(about.backbone, bundled=inside))
        check_place(at_home(path))
        write_model(at_home(path), Model(about, state, tensors))

    @classmethod
    def load(
        cls, path: str | Path, *, backbone: str | None = None, device: str = "auto"
    ) -> "Classifier":
        """`backbone` says where the weights are now, if not where they were."""
        path = at_home(path)
        model = read_model(path)
        about = model.about
        run, wanted = about.run, about.backbone
        found = cls(
            backbone or wanted.name,
            run.name,
            epochs=run.epochs,
            batch_size=run.batch_size,
            lr=run.lr,
            seed=run.seed,
            false_alarms=about.false_alarms,
            hold_out=about.hold_out,
            device=device,
            workers=run.workers,
            num_heads=run.num_heads,
        )
        found._loaded = run
        found.tasks_ = about.tasks
        found._bundled = wanted.bundled
        try:
            found.run()
        except OvorError as error:
            raise OvorError(f"{path} cannot be used: {error}") from error
        found._network = network_of(model, path, backbone)
        found._learner = learner_of(model, found._network, found.where(), path)
        return found

    @classmethod
    def from_pretrained(
        cls,
        where: str | Path,
        *,
        revision: str | None = None,
        backbone: str | None = None,
        device: str = "auto",
    ) -> "Classifier":
        """From a repository of the Hugging Face hub (owner/name), or a folder that was shared."""
        from ovor.classifier.hub import fetch

        return cls.load(fetch(where, revision), backbone=backbone, device=device)

    def push_to_hub(self, where: str | Path, *, private: bool = False) -> str:
        """To a repository of the Hugging Face hub (owner/name), or into a folder (./name)."""
        from ovor.classifier.hub import push

        return push(self, where, private=private)

    def about(self) -> Description:
        run, network = self.run(), self.network()
        try:
            return Description(
                run=run,
                backbone=Network(
                    network.name,
                    network.source,
                    network.sha256,
                    self._bundled,
                    network.vit.arch.num_heads,
                ),
                tasks=self.tasks_,
                false_alarms=self.false_alarms,
                hold_out=self.hold_out,
            )
        except ValidationError as error:
            raise OvorError(f"This cannot be learned with: {explain(error)}.") from error

    # --- parts

    def run(self) -> Run:
        """The settings of the loop, checked."""
        base = self._loaded or teaching(self.backbone, self.method)
        names = ("epochs", "batch_size", "lr", "seed", "device", "workers", "num_heads")
        given = {name: getattr(self, name) for name in names}
        given = {name: value for name, value in given.items() if value is not None}
        vor = base.vor
        if vor and self.epochs == 1:
            raise OvorError(f"{base.name} needs two epochs, one of them for VOR: give more epochs.")
        try:
            if vor and self.epochs is not None:  # its share stays the same
                vor = replace(vor, epochs=max(1, round(vor.epochs * self.epochs / base.epochs)))
            run = replace(base, **given, vor=vor)
        except ValidationError as error:
            raise OvorError(f"This cannot be learned with: {explain(error)}.") from error
        parse_options(run.method, run.options)
        if at_once(run.method):
            raise OvorError(f"{run.method} learns all classes at once: choose another method.")
        if run.vor and not takes_vor(run.method):
            raise OvorError(f"{run.method} has no linear head for VOR: leave out the +vor.")
        return run

    def network(self) -> Backbone:
        if self._network is None:
            self._network = load_backbone(self.backbone, self.num_heads or None)
        return self._network

    def learner(self) -> Learner:
        if self._learner is None:
            raise OvorError("Nothing is learned yet: call learn first.")
        return self._learner

    def transform(self) -> Any:
        transform = self.run().transform
        size = transform.size or self.network().vit.arch.image_size
        return replace(transform, size=size)

    def where(self) -> torch.device:
        """Where to predict; learning asks Fabric."""
        available = torch.accelerator.current_accelerator(check_available=True)  # not: built for
        found = available or torch.device("cpu")
        if self.device not in ("auto", "cpu", found.type):
            raise OvorError(f"There is no device {self.device!r} here: use cpu or auto.")
        return torch.device("cpu") if self.device == "cpu" else found


PARAMETERS = (
    "backbone",
    "method",
    "epochs",
    "batch_size",
    "lr",
    "seed",
    "false_alarms",
    "hold_out",
    "device",
    "workers",
    "num_heads",
)


def network_of(model: Model, path: Path, backbone: str | None) -> Backbone:
    """The backbone that the model was learned with, or a sentence that says which."""
    wanted = model.about.backbone
    if wanted.bundled:
        if any(tensor.dtype != torch.float32 for tensor in model.backbone.values()):
            raise OvorError(f"The backbone in {path} is not of 32-bit numbers: bundle it anew.")
        vit = build(model.backbone, wanted.num_heads or None, path.name)
        return Backbone(vit, wanted.name, wanted.source, wanted.sha256)
    try:
        found = load_backbone(backbone or wanted.name, model.about.run.num_heads or None)
    except OvorError as error:
        raise OvorError(
            f"{path} needs the backbone {wanted.name} (SHA-256 {wanted.sha256[:12]}): {error} "
            "Or say where it is now (--backbone)."
        ) from error
    if found.sha256 != wanted.sha256:
        raise OvorError(
            f"{path} was learned with other weights than {found.source} has: it needs "
            f"{wanted.source} with the SHA-256 {wanted.sha256[:12]}; say where that is "
            "(--backbone)."
        )
    return found


def learner_of(model: Model, network: Backbone, device: torch.device, path: Path) -> Learner:
    run, arch = model.about.run, network.vit.arch
    if run.transform.size % arch.patch_size:
        raise OvorError(
            f"{path} wants images of {run.transform.size} pixels, which its backbone cannot part "
            f"into patches of {arch.patch_size}: learn it anew."
        )
    learner = build_learner(run.method, run.options, network.vit, nullcontext).to(device)
    for number, task in enumerate(model.about.tasks):
        learner.begin_task(len(task.classes), (run.seed, number))
    if outline(model.state) != outline(learner.learned_state()):
        raise OvorError(
            f"The weights in {path} do not fit its method, its classes and its backbone: learn it "
            "anew."
        )
    learner.load_learned_state(model.state)
    return learner.eval()


def outline(state: dict[str, Tensor]) -> dict[str, tuple[torch.Size, torch.dtype]]:
    return {name: (tensor.shape, tensor.dtype) for name, tensor in state.items()}


def without(values: tuple[Any, ...], position: int) -> tuple[Any, ...]:
    return (*values[:position], *values[position + 1 :])


def listing(names: Iterable[str]) -> str:
    shown = [repr(name) for name in names]
    return f"there are {', '.join(shown[:10])}{' and more' if shown[10:] else ''}"


def as_array(tensor: Tensor) -> NDArray[np.float64]:
    return tensor.double().cpu().numpy()
