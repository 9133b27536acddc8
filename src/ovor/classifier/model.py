"""The growing classifier: folders of labelled images in, one small file out that names new images.

    model = Classifier()
    model.learn("spring/")
    model.learn("summer/")
    labels, confidences, unknown = model.classify(["a.jpg", "b.jpg"])
    model.save("garden.ovor")

It keeps no image. Conventions are scikit-learn's where they fit; class names are strings.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from ovor.classifier import hub
from ovor.classifier.before import before, drop_before, keeping_before, read_before
from ovor.classifier.contents import begun_with, contents, parameters, restore
from ovor.classifier.exact_lesson import learn_exactly
from ovor.classifier.file import DESCRIPTION, Model, Snapshot, read_model, write_model
from ovor.classifier.lock import ReplacedError, check_place, free_name
from ovor.classifier.notes import about_labels, tell
from ovor.classifier.predictor import Predictor
from ovor.classifier.task_list import without_class
from ovor.data.class_names import as_name
from ovor.data.formats import check_is_file
from ovor.data.images import at_home
from ovor.data.labelled import Labels
from ovor.data.modality import Columns
from ovor.data.task_data import Lesson, OnError, as_grouped, checked, read_lesson
from ovor.errors import OvorError
from ovor.events import ImageChecked, Listener, silent
from ovor.tensor_file import digest, identity


class Classifier(Predictor):
    """An image classifier that learns lesson by lesson and keeps no image."""

    _path: Path | None = None  # where it was loaded from or saved to
    _before = ""  # identifies the file that was there before
    _found: str | None = None  # identifies the file as it was read or written; None: there was none

    # --- what scikit-learn asks of an estimator

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Labels | None = None,
        sample_weight: Sequence[float] | None = None,
        *,
        yes: bool = False,
    ) -> Self:
        """Drop what was learned before, and learn these."""
        y = y if y is None or isinstance(y, str) else list(y)
        tell(about_labels(y))
        fresh = Classifier(**self.get_params())
        fresh.learn(X, y, weights=sample_weight, yes=yes)
        self.__dict__.update(fresh.__dict__)
        return self

    def partial_fit(
        self,
        X: Any,  # noqa: N803
        y: Labels | None = None,
        classes: object = None,
        sample_weight: Sequence[float] | None = None,
        *,
        yes: bool = False,
    ) -> Self:
        """Learn more images of any classes; `classes`, scikit-learn's, is unused."""
        return self.learn(X, y, weights=sample_weight, yes=yes)

    # --- learning

    def learn(
        self,
        source: Any,
        labels: Labels | None = None,
        *,
        rename: dict[str, str] | None = None,
        skip_known: bool = False,
        on_error: OnError = "stop",
        once: bool = False,
        weights: Sequence[float] | None = None,
        checkpoint: str | Path | None = None,
        yes: bool = False,
        columns: Columns = (None, None),
        listen: Listener = silent,
    ) -> Self:
        """Learn new classes, and more of known ones, from a path, or from images and labels.

        The path is of a folder of class folders, of a table of paths and labels (.csv, .tsv,
        .jsonl), or of a zip of either; with one text as `labels` all images are of that class.
        Images may also be given with one label each, as (image, label) pairs, as {class: images},
        or as a data frame; each as a path, bytes, an open file, a Pillow image, an array, a tensor.
        Whatever stops it, the classifier stays as it was. With a `checkpoint` file a lesson that
        was stopped continues when the same is learned again; the file is yours to remove. `once`
        keeps digests from now on, and leaves out images that were learned before. `weights` count
        an image more or less than once, in the order of the images. `yes` takes new classes whose
        names differ from others only by case or look. Where the backbone reads texts, a str is one,
        and `columns` may name the table's columns of texts and labels.
        """
        if labels is not None and not isinstance(labels, str):
            labels = list(labels)
        if weights is not None:
            if not isinstance(source, str | Path):  # what is open can be read once only
                source, labels = self.reads.pairs(source, labels), None
            weights = as_grouped(weights, source, labels, self.reads)
            if skip_known or on_error == "skip":
                raise OvorError("With weights nothing can be left out: leave that option away.")
        lesson = self.read_task(
            source,
            labels,
            rename=rename,
            skip_known=skip_known,
            on_error=on_error,
            yes=yes,
            columns=columns,
            listen=listen,
        )
        tell([*lesson.notes, *filter(None, [self.doubt()])])
        where = Path(checkpoint) if checkpoint else None
        self.learn_task(lesson, where, listen, once=once, weights=weights)
        return self

    def read_task(
        self,
        source: Any,
        labels: Labels | None = None,
        *,
        rename: dict[str, str] | None = None,
        skip_known: bool = False,
        on_error: OnError = "stop",
        yes: bool = False,
        columns: Columns = (None, None),
        listen: Listener = silent,
    ) -> Lesson:
        """Return what there is to learn, after every image of it was read once if need be."""
        exact = self.run().method == "analytic"
        found = read_lesson(
            source,
            labels,
            self.classes_.tolist(),
            rename=rename or {},
            skip_known=skip_known,
            more=exact,
            yes=yes,
            reads=self.reads,
            columns=columns,
        )
        self.about()  # settings and backbone: nobody should wait for all images to hear of those
        if exact and on_error == "stop":  # one pass reads and learns; what stops it changes nothing
            return found
        event = ImageChecked(total=len(found.images))
        return checked(found, on_error, lambda images: listen(event))

    def learn_task(
        self,
        lesson: Lesson,
        checkpoint: Path | None,
        listen: Listener = silent,
        *,
        once: bool = False,
        weights: Sequence[float] | None = None,
    ) -> None:
        """Learn what was read, saving the state from time to time if it is said where."""
        if not self.tasks_ and checkpoint:
            self._transform = begun_with(checkpoint, self.image_size)
        if self.run().method == "analytic":
            past = self.snapshot().digest if checkpoint else ""
            learn_exactly(self, lesson, checkpoint, listen, once=once, weights=weights, past=past)
            return
        if once or weights is not None:
            raise OvorError(
                f"{self.run().name} cannot learn by weights or digests: use the method analytic."
            )
        from ovor.classifier.fit import fit_task  # brings Fabric, which predicting can do without

        with tempfile.TemporaryDirectory() as folder:  # what learns by epochs always saves
            learner, tasks, report = fit_task(
                self.snapshot(),
                lesson,
                checkpoint or Path(folder, "checkpoint"),
                hold_out=self.hold_out,
                false_alarms=self.false_alarms,
                listen=listen,
            )
        self.adopt(learner.eval(), tasks)
        self._saved, self.report_ = False, report

    def snapshot(self) -> Snapshot:
        """Return all that learning the next task begins with."""
        state = self._learner.learned_state() if self._learner else {}
        said = DESCRIPTION.dump_python(self.about(), mode="json")
        mark = digest({name: x.cpu().contiguous() for name, x in state.items()}, said["tasks"])
        return Snapshot(self.settled(), self.network(), self.tasks_, state, mark)

    def forget(self, name: str, images: Any = None, *, listen: Listener = silent) -> Self:
        """Take a class out. With its `images` nothing stays of it in sums, where they are exact.

        Else what it left in a prompt that classes share stays, or how its images scattered. What
        was counted of its images to set confidences and the unknown stays among the rest.
        """
        name = name if name in self.classes_ else as_name(name)
        if self.classes_.tolist() == [name]:
            raise OvorError(f"{name!r} is the only class: delete the model instead.")
        self.rows_of([name])
        if self._exact:
            self.forget_exactly(name, images, listen)
            return self
        if images is not None:
            self.exact("forget")
        number = next(n for n, task in enumerate(self.tasks_) if name in task.classes)
        self.learner().forget(number, self.tasks_[number].classes.index(name))
        self.tasks_ = without_class(self.tasks_, name)
        self._saved, self._erased = False, True
        return self

    def undo(self) -> Self:
        """Go back to before the last change: as it is remembered, or as its file was."""
        if not self.recall():
            if self._path is None or not self._saved:  # its file's past is not this one's
                raise OvorError("Nothing is kept of the model before its last change: it stays.")
            model = read_before(self._path, self._before)
            past = Classifier._of(model, self._path, self.backbone, self.device, self)
            past._found = self._found
            self.__dict__.update(past.__dict__)
        return self

    @property
    def can_undo(self) -> bool:
        """Whether the model before its last change is kept, in memory or beside its file."""
        beside = self._path is not None and bool(self._before) and before(self._path).exists()
        return self._past is not None or beside

    # --- files

    def at(self, path: str | Path) -> Self:
        """Say where it is going to be saved first: what appears there meanwhile stays."""
        self._path, self._found = at_home(path), identity(at_home(path))
        return self

    def save(self, path: str | Path, *, bundle: bool = False, sums: bool = True) -> None:
        """Write one file; with `bundle` the backbone is in it, for machines that lack it.

        The file that was there is kept beside it for `undo`, unless something was taken out that
        must not stay anywhere. Without `sums` the file can predict, and learn no more. A file
        that somebody else has put into the place of the one that was loaded is not overwritten.
        """
        path = at_home(path)
        check_place(path)
        self.learner()
        if self._sums and not sums:
            self.exact("be saved without sums")
        about = self.about()
        about = replace(about, sums=about.sums and sums)
        if bundle:
            about = replace(about, backbone=replace(about.backbone, bundled=True))
        same = self._path is not None and path.exists() and path.resolve() == self._path.resolve()
        if same and identity(path) != self._found:
            beside = free_name(path)
            write_model(beside, contents(self, about))
            raise ReplacedError(path, beside)
        if same and not self._erased:
            with keeping_before(path) as mark:
                about = replace(about, before=mark)
                write_model(path, contents(self, about))
        else:
            write_model(path, contents(self, about))
            if same:
                drop_before(path)
        if about.sums == self._sums:
            self._path, self._before, self._erased = path, about.before, False
            self._saved, self._found = True, identity(path)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        backbone: str | None = None,
        device: str = "auto",
        like: "Classifier | None" = None,
    ) -> "Classifier":
        """Return the classifier of a file; `backbone` says where its weights are now, if moved.

        Where it has the same frozen network as `like`, that is used and not loaded again.
        """
        path = at_home(path)
        check_is_file(path)
        stamp = identity(path)  # before it is read: what comes between is another's
        model = cls._of(read_model(path), path, backbone, device, like)
        model._found = stamp
        return model

    @classmethod
    def _of(
        cls, model: Model, path: Path, backbone: str | None, device: str, like: "Classifier | None"
    ) -> "Classifier":
        """Return the classifier of what a file holds."""
        found = cls(**parameters(model.about, backbone), device=device)
        restore(found, model, path, backbone, like)
        found._path, found._before = path, model.about.before
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
