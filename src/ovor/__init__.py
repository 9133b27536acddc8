"""Class-incremental learning that keeps no old image."""

from typing import TYPE_CHECKING, Any

from ovor.config import Run
from ovor.errors import OvorError
from ovor.presets import settings

if TYPE_CHECKING:
    from ovor.classifier.model import Classifier
    from ovor.classifier.prediction import Predictions

__all__ = ["Classifier", "OvorError", "Predictions", "Run", "settings"]


def __getattr__(name: str) -> Any:
    """What needs torch is imported when it is first asked for: help must not wait for it."""
    if name == "Classifier":
        from ovor.classifier.model import Classifier

        return Classifier
    if name == "Predictions":
        from ovor.classifier.prediction import Predictions

        return Predictions
    raise AttributeError(f"module 'ovor' has no attribute {name!r}")
