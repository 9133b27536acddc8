"""Between a classifier and what its file holds."""

from pathlib import Path
from typing import Any

from ovor.classifier.exact import Exact
from ovor.classifier.file import Description, Model, backbone_of, learner_of
from ovor.classifier.memory import Memory
from ovor.classifier.memory_checks import check_alike
from ovor.config import RUN, Transform
from ovor.encoders import Backbone
from ovor.errors import OvorError
from ovor.learners.analytic import Analytic
from ovor.learners.moments import MOMENTS
from ovor.tensor_file import load_tensors


def contents(model: Memory, about: Description) -> Model:
    """Return what goes into the file of a classifier, as it describes itself."""
    assert model._learner is not None
    state = model._learner.learned_state()
    if not about.sums:
        state = {name: x for name, x in state.items() if name not in MOMENTS}
    encoder = model.network().encoder
    if about.backbone.bundled and not encoder.bundles:
        raise OvorError(
            f"The backbone {about.backbone.name} cannot be put into a model file: hand it on with "
            "the model, and say where it is (backbone=...)."
        )
    tensors = encoder.bundled() if about.backbone.bundled else {}
    return Model(about, state, tensors, model._exact.state() if model._exact else {})


def parameters(about: Description, backbone: str | None) -> dict[str, Any]:
    """Return the constructor's arguments for a classifier of a file."""
    run = about.run
    same = ("epochs", "batch_size", "lr", "seed", "workers", "num_heads")
    return {
        "backbone": backbone or about.backbone.name,
        "method": run.name,
        "false_alarms": about.false_alarms,
        "hold_out": about.hold_out,
        "image_size": run.transform.size or None,
        **{name: getattr(run, name) for name in same},
    }


def restore(
    found: Memory, model: Model, path: Path, backbone: str | None, like: Memory | None = None
) -> None:
    """Give a new classifier all that a file holds, and the network of another if it is the same."""
    about = model.about
    found._loaded = about.run
    found._bundled = about.backbone.bundled
    try:
        found.run()
    except OvorError as error:
        raise OvorError(f"{path} cannot be used: {error}") from error
    found._network = shared(about, like) or backbone_of(model, path, backbone)
    learner = learner_of(model, found._network, found.torch_device(), path)
    if isinstance(learner, Analytic):
        classes = sum(len(task.classes) for task in about.tasks)
        found._exact = read_exact(model, learner, classes, path)
    found.adopt(learner, about.tasks)
    found.expected_, found._lesson, found._sums = about.expected, about.lesson, about.sums


def shared(about: Description, like: Memory | None) -> Backbone | None:
    """Return the network of another classifier if a file was learned with it.

    Methods that train change a network, or wrap it: each of those models needs its own.
    """
    if like is None or about.run.method != "analytic" or like.run().method != "analytic":
        return None
    network, wanted = like.network(), about.backbone
    same = (network.sha256, network.num_heads) == (wanted.sha256, wanted.num_heads)
    return network if same else None


def check_mergeable(model: Memory, about: Description) -> None:
    """Refuse a file by its words alone if its sums cannot be added to those of a model.

    Before anything is built by its settings, which might ask for any amount of memory.
    """
    found = type(model)(**parameters(about, None))
    found._loaded, found._network = about.run, shared(about, model)
    if found._network is None:
        raise OvorError(
            f"The models have different backbones or methods ({about.backbone.name}, "
            f"{about.run.name} and {model.network().name}, {model.run().name}), so they cannot be "
            "merged: use models that were made with the same."
        )
    check_alike(model, found)


def begun_with(checkpoint: Path, size: int | None) -> Transform | None:
    """Return how an unfinished first lesson sees its images, unless another size is asked for.

    A version that did not ask the backbone may have begun it.
    """
    if not checkpoint.exists():
        return None
    run = load_tensors(checkpoint)[1].get("about", {}).get("run")
    found = run and RUN.validate_python(run).transform
    return found if found and size in (None, found.size) else None


def read_exact(model: Model, learner: Analytic, classes: int, path: Path) -> Exact:
    """Return what judges the answers of a model of exact sums, as its file has it."""
    try:
        return Exact.of_state(model.judge, learner.moments.width, classes)
    except (ValueError, TypeError) as error:
        raise OvorError(
            f"The distances in {path} do not fit its classes and its backbone: learn it anew."
        ) from error
