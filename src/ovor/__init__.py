"""Class-incremental learning that keeps no old image."""

from ovor.config import OvorError, Run
from ovor.presets import settings

__all__ = ["OvorError", "Run", "settings"]
