"""Microsoft's onnxruntime, which computes what ONNX files describe: imported quietly.

Its releases report how they are used to their maker unless they are told not to, before they are
imported, and leave an identifier of the device in the user's folder. Nothing here tells anybody.
"""

import os
from typing import Any

from ovor.errors import OvorError

INSTALL = "install it with: pip install 'ovor[onnx]'"
SILENT = "ORT_DISABLE_TELEMETRY"
ERRORS = 3  # and nothing less is worth a line of its log


def onnx_runtime(what: str) -> Any:
    """Return the package, or say what needs it."""
    os.environ.setdefault(SILENT, "1")
    try:
        import onnxruntime
    except ImportError as error:
        raise OvorError(f"{what} needs the package onnxruntime: {INSTALL}.") from error
    onnxruntime.set_default_logger_severity(ERRORS)
    return onnxruntime
