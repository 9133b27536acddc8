"""What `Classifier.predict` returns: an array of labels, as scikit-learn's classifiers give one.

In 0.1.0 it was three arrays, which `classify` returns now; who still asks for those is told so.
"""

import dis
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ovor.classifier.prediction import Floats, Names, Predictions
from ovor.errors import OvorError

INSTEAD = "write `labels, confidences, unknown = model.classify(images)`"


class Labels(np.ndarray[Any, np.dtype[np.object_]]):
    """The likeliest class of each image, also where the image is unknown."""

    _columns: Predictions | None = None  # a part or a copy has none: it is a plain array

    @classmethod
    def of(cls, columns: Predictions) -> "Labels":
        """Return the labels of predictions, which know the rest for who asks in the old way."""
        labels = columns.labels.view(cls)
        labels._columns = columns
        return labels

    @property
    def labels(self) -> Names:
        """The labels, deprecated."""
        return self._old("labels").labels

    @property
    def confidences(self) -> Floats:
        """The probability of each label, deprecated."""
        return self._old("confidences").confidences

    @property
    def unknown(self) -> NDArray[np.bool_]:
        """Whether each image is of no class that was learned, deprecated."""
        return self._old("unknown").unknown

    def _old(self, name: str) -> Predictions:
        if self._columns is None:
            raise AttributeError(f"an array of labels has no {name}: {INSTEAD}")
        warnings.warn(
            f"predict returns the labels alone: for .{name} {INSTEAD}",
            DeprecationWarning,
            stacklevel=3,
        )
        return self._columns

    def __iter__(self) -> Iterator[Any]:
        """Yield the labels; but unpacked into three as of old, the three arrays."""
        if self._columns is None or not into_three():
            return super().__iter__()
        if len(self) == 3:  # either may be meant, and a guess could be wrong without a word
            raise OvorError(
                "predict returns the labels alone, and there are three: for labels, confidences "
                f"and unknown {INSTEAD}, for three labels unpack `.tolist()`."
            )
        warnings.warn(f"predict returns the labels alone: {INSTEAD}", DeprecationWarning, 2)
        return iter(self._columns)


def into_three() -> bool:
    """Tell whether who called the caller is at `a, b, c = …`; Python says that nowhere else."""
    frame = sys._getframe(2)
    code, at = frame.f_code.co_code, frame.f_lasti
    return dis.opname[code[at]] == "UNPACK_SEQUENCE" and code[at + 1] == 3
