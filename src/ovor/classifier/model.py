"""The growing classifier: folders of labelled images in, one small file out that names new images.

    model = Classifier()
    model.learn("spring/")
    model.learn("summer/")
    labels, confidences, unknown = model.predict(["a.jpg", "b.jpg"])
    model.save("garden.ovor")

It keeps no image. Conventions are scikit-learn's where they fit; class names are strings.
"""

import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from pydantic import ValidationError
from torch import Tensor

from ovor.classifier import hub
from ovor.classifier.estimator import Estimator
from ovor.classifier.file import (
    DESCRIPTION,
    BackboneInfo,
    Description,
    Model,
    Snapshot,
    TaskInfo,
    backbone_of,
    learner_of,
    read_model,
    write_model,
)
from ovor.classifier.lock import check_place
from ovor.classifier.prediction import Predictions, Scores, View, as_columns, predict_images
from ovor.classifier.rejection import margins
from ovor.data.class_names import as_name
from ovor.data.images import at_home, spread
from ovor.data.task_data import Lesson, OnError, checked, read_lesson
from ovor.data.transforms import normalised, test_view
from ovor.errors import OvorError, explain
from ovor.events import ImageChecked, Listener, silent
from ovor.learners.base import Learner
from ovor.tensor_file import digest


class Classifier(Estimator):
    """An image classifier that learns new classes task by task and keeps no image."""

    _learner: Learner | None = None

    # --- what scikit-learn asks of an estimator

    def fit(self, X: Any, y: Iterable[Any] | None = None) -> Self:  # noqa: N803
        """Drop what was learned before, and learn these as the first task."""
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
        """Learn the next task; labels become strings, and `classes`, scikit-learn's, is unused."""
        return self.learn(X, y)

    def score(self, X: Any, y: Iterable[Any]) -> float:  # noqa: N803
        """Return the share of right labels; being called unknown does not count as wrong."""
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
        """Learn new classes as the next task, from a folder, images and labels, or pairs.

        Whatever stops it, the classifier stays as it was. With a `checkpoint` file a lesson that
        was stopped continues when the same is learned again; the file is yours to remove.
        """
        lesson = self.read_task(
            source,
            labels,
            rename=rename,
            skip_known=skip_known,
            on_error=on_error,
            listen=listen,
        )
        with tempfile.TemporaryDirectory() as folder:
            where = Path(checkpoint) if checkpoint else Path(folder, "checkpoint")
            self.learn_task(lesson, where, listen)
        return self

    def read_task(
        self,
        source: Any,
        labels: Iterable[Any] | None = None,
        *,
        rename: dict[str, str] | None = None,
        skip_known: bool = False,
        on_error: OnError = "stop",
        listen: Listener = silent,
    ) -> Lesson:
        """Return what there is to learn, after every image of it was read once."""
        found = read_lesson(
            source, labels, self.classes_.tolist(), rename=rename or {}, skip_known=skip_known
        )
        self.about()  # settings and backbone: nobody should wait for all images to hear of those
        event = ImageChecked(total=len(found.images))
        return checked(found, on_error, lambda images: listen(event))

    def learn_task(self, lesson: Lesson, checkpoint: Path, listen: Listener = silent) -> None:
        """Learn what was read, saving the state after every epoch."""
        from ovor.classifier.fit import fit_task  # brings Fabric, which predicting can do without

        learner, tasks = fit_task(
            self.snapshot(),
            lesson,
            checkpoint,
            hold_out=self.hold_out,
            false_alarms=self.false_alarms,
            listen=listen,
        )
        self._adopt(learner.eval(), tasks)

    def snapshot(self) -> Snapshot:
        """Return all that learning the next task begins with."""
        state = self._learner.learned_state() if self._learner else {}
        said = DESCRIPTION.dump_python(self.about(), mode="json")
        mark = digest({name: x.cpu().contiguous() for name, x in state.items()}, said["tasks"])
        return Snapshot(self.run(), self.network(), self.tasks_, state, mark)

    def forget(self, name: str) -> None:
        """Take a class out of the head; what it left in a prompt that classes share stays."""
        name = as_name(name)
        if self.classes_.tolist() == [name]:
            raise OvorError(f"{name!r} is the only class: delete the model instead.")
        if name not in self.classes_:
            raise OvorError(f"There is no class {name!r}: {listing(self.classes_)}.")
        number = next(n for n, task in enumerate(self.tasks_) if name in task.classes)
        task = self.tasks_[number]
        row = task.classes.index(name)
        self.learner().forget(number, row)
        rest = replace(task, classes=without(task.classes, row), images=without(task.images, row))
        self.tasks_ = (*self.tasks_[:number], rest, *self.tasks_[number + 1 :])

    # --- predicting

    def predict(self, X: Any) -> Predictions:  # noqa: N803
        """Return labels, confidences and unknown flags of a folder's images, or of given images."""
        return as_columns(predict_images(self, spread(X)))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the probability of every class, in the order of `classes_`: images, classes."""
        rows = [found.probabilities for found in predict_images(self, spread(X))]
        return np.array(rows).reshape(-1, len(self.classes_))

    def view(self, image: Image.Image) -> View:
        """Return what the network sees of an image: little, however large it was."""
        return np.asarray(test_view(image, self.transform()))

    @torch.no_grad()
    def scores(self, views: NDArray[np.uint8]) -> Scores:
        """Return the classes' probabilities and the margins of a stack of views."""
        learner = self.learner()
        pixels = torch.from_numpy(views).to(learner.device)
        logits = learner.logits(learner.features(normalised(pixels, self.transform()))).float()
        claimed = margins(logits, self.task_sizes_, [task.threshold for task in self.tasks_])
        return Scores(as_array(logits.softmax(1)), as_array(claimed))

    # --- files

    def save(self, path: str | Path, *, bundle: bool = False) -> None:
        """Write one file; with `bundle` the backbone is in it, for machines that lack it."""
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
        """Return the classifier of a file; `backbone` says where its weights are now, if moved."""
        path = at_home(path)
        model = read_model(path)
        about = model.about
        run = about.run
        found = cls(
            backbone or about.backbone.name,
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
        found._bundled = about.backbone.bundled
        try:
            found.run()
        except OvorError as error:
            raise OvorError(f"{path} cannot be used: {error}") from error
        found._network = backbone_of(model, path, backbone)
        learner = learner_of(model, found._network, found.torch_device(), path)
        found._adopt(learner, about.tasks)
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
        """Return one from the Hugging Face hub (owner/name), or from a folder that was shared."""
        return cls.load(hub.fetch(where, revision), backbone=backbone, device=device)

    def push_to_hub(self, where: str | Path, *, private: bool = False) -> str:
        """Share it in a repository of the Hugging Face hub (owner/name) or a folder (./name)."""
        return hub.push(self.save, self.about(), where, private=private)

    def about(self) -> Description:
        """Return all that a model file says in words."""
        run, network = self.run(), self.network()
        try:
            return Description(
                run=run,
                backbone=BackboneInfo(
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

    def learner(self) -> Learner:
        """Return what has learned, or say that nothing has."""
        if self._learner is None:
            raise OvorError("Nothing is learned yet: call learn first.")
        return self._learner

    def _adopt(self, learner: Learner, tasks: tuple[TaskInfo, ...]) -> None:
        """Predict with this learner from now on; what that takes is computed here, once."""
        self._learner, self.tasks_, self._transform = learner, tasks, self.transform()


def without(values: tuple[Any, ...], position: int) -> tuple[Any, ...]:
    """Return the values but for the one at the position."""
    return (*values[:position], *values[position + 1 :])


def listing(names: Iterable[str]) -> str:
    """Return a phrase that names the first ten."""
    shown = [repr(name) for name in names]
    return f"there are {', '.join(shown[:10])}{' and more' if shown[10:] else ''}"


def as_array(tensor: Tensor) -> NDArray[np.float64]:
    """Return the tensor's numbers in double precision."""
    return tensor.double().cpu().numpy()
