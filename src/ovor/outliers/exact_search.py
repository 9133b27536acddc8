"""The outliers of Algorithm 2 (Sec. 4.1, App. D) without measuring every distance: those of
`npos`, up to the rounding of float32.

The boundary is found among ever larger parts of the features (`boundary`); the candidates u + n are
a grid whose distances are sums of two small tables, and none exists before it is chosen
(`candidates`). Features are read some at a time, so a mapped file may hold more than memory does.
"""

from math import ceil
from pathlib import Path

import torch
from torch import Tensor

from ovor.config import Npos
from ovor.distributed.ranks import ALONE, Ranks
from ovor.outliers.boundary import farthest_from_others
from ovor.outliers.candidates import Candidates
from ovor.outliers.feature_buffer import chunks, collected
from ovor.outliers.knn import mean
from ovor.outliers.npos import as_searched, boundary_size, draw_noise, shuffled


@torch.no_grad()
def synthesize(
    features: Tensor,
    classes: int,
    npos: Npos,
    generator: torch.Generator,
    folder: Path | None = None,
    ranks: Ranks = ALONE,
) -> Tensor:
    """Return beta * C outliers (M, D) in float32; all candidates if there are fewer.

    Noise comes from a generator on the CPU, so it is the same for every device. For more features
    than memory should hold, working files go to the folder. Several processes, each with all
    features, divide the search among them, and each returns all outliers.
    """
    features = features.detach()
    noise = draw_noise(npos, features.shape[1], generator).to(features.device)
    if not len(features):
        return noise[:0]
    with torch.autocast(features.device.type, enabled=False):  # distances need all of float32
        outliers = _farthest(features, noise, classes, npos, folder, ranks)
    return shuffled(outliers, generator) if npos.shuffle else outliers


def _farthest(
    features: Tensor, noise: Tensor, classes: int, npos: Npos, folder: Path | None, ranks: Ranks
) -> Tensor:
    """Return the outliers that a noise makes, the farthest first."""
    # A common shift changes no distance, but centred points lose less in float32: see knn.
    shift = mean(features) if npos.space == "raw" else torch.zeros_like(noise[0])
    parts = (as_searched(some.float(), npos) - shift for some in chunks(features))
    index = collected(parts, folder)
    size = min(boundary_size(npos, classes), len(features))
    if npos.add_boundary:
        others = npos.k - npos.self_neighbor
        boundary = farthest_from_others(index, others, size, folder, ranks)
        origins, copies = features[boundary].float(), 1
    else:  # as released: only the size of the boundary counts, each noise being there so often
        origins, copies = torch.zeros_like(noise[:1]), size
    wanted = npos.beta * classes
    candidates = Candidates.of(origins - shift, noise, index, npos.space == "unit", ranks)
    chosen = candidates.farthest(ceil(wanted / copies), min(npos.k, len(index)))
    outliers = origins[chosen // len(noise)] + noise[chosen % len(noise)]
    return outliers.repeat_interleave(copies, dim=0)[:wanted]
