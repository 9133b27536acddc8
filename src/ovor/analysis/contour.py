"""The line where a function of the plane is zero, as short segments, from its values on a grid."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def zero_line(values: Array, axis: Array) -> Array:
    """Segments (m, 4) as x, y, x2, y2; values[i, j] is at x = axis[j], y = axis[i].

    Each cell is cut into two triangles: a triangle has a crossing on two of its sides or on none,
    so unlike in a square it is never a question which to join.
    """
    x, y = np.meshgrid(axis, axis)
    corners = np.stack([x, y, values], axis=-1)
    low, right = corners[:-1, :-1], corners[:-1, 1:]
    up, far = corners[1:, :-1], corners[1:, 1:]
    triangles = np.concatenate(
        [np.stack([low, right, far], axis=2), np.stack([low, up, far], axis=2)]
    ).reshape(-1, 3, 3)
    starts, ends = triangles, np.roll(triangles, -1, axis=1)
    crossed = (starts[..., 2] > 0) != (ends[..., 2] > 0)
    cut = crossed.any(axis=1)
    starts, ends, crossed = starts[cut], ends[cut], crossed[cut]
    a, b = starts[crossed], ends[crossed]
    along = a[:, 2:] / (a[:, 2:] - b[:, 2:])  # they differ in sign, so not by zero
    crossings: Array = (a + along * (b - a))[:, :2]
    return crossings.reshape(-1, 4)
