"""Class-incremental learning that keeps no old image."""

from typing import TYPE_CHECKING, Any

from ovor.config import OvorError, Run
from ovor.presets import settings

if TYPE_CHECKING:
    from ovor.answers import Predictions
    from ovor.classifier import Classifier

__all__ = ["Classifier", "OvorError", "Predictions", "Run", "settings"]


def __getattr__(name: str) -> Any:
    """What needs torch is imported when it is first asked for: help must not wait for it."""
    if name in ("Classifier", "Predictions"):
        from ovor import classifier

        return getattr(classifier, name)
    raise AttributeError(f"module 'ovor' has no attribute {name!r}")
