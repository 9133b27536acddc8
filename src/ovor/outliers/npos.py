"""Algorithm 2 as the paper writes it: NPOS, non-parametric outlier synthesis (Sec. 4.1, App. D).

Every candidate is made and every distance is measured, in float64. That takes minutes where
`exact_search` takes less than a second; it is the definition that `exact_search` is tested against.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ovor.config import Npos


@torch.no_grad()
def synthesize(features: Tensor, classes: int, npos: Npos, generator: torch.Generator) -> Tensor:
    """Return beta * C outliers (M, D) of a task's features (n, D); all candidates if fewer."""
    noise = draw_noise(npos, features.shape[1], generator).double()
    features = features.double()
    index = as_searched(features, npos)
    boundary = features[topk(boundary_size(npos, classes), boundary_distances(index, npos))]
    candidates = make_candidates(boundary, noise, npos)
    distances = candidate_distances(candidates, index, npos)
    outliers = candidates[topk(npos.beta * classes, distances)].float()
    return shuffled(outliers, generator) if npos.shuffle else outliers


def draw_noise(npos: Npos, width: int, generator: torch.Generator) -> Tensor:
    """Return N vectors of normal noise (N, D); sigma is its standard deviation, as in Sec. 4.1."""
    return npos.sigma * torch.randn(npos.noise, width, generator=generator)


def boundary_size(npos: Npos, classes: int) -> int:
    """Return alpha * C, rounded: alpha need not be whole."""
    return max(1, round(npos.alpha * classes))


def as_searched(features: Tensor, npos: Npos) -> Tensor:
    """Return features as the points that distances are measured to; released: unit vectors."""
    return features if npos.space == "raw" else F.normalize(features)


def boundary_distances(index: Tensor, npos: Npos) -> Tensor:
    """Return Delta_K of each feature among all; as its own nearest it counts only as released."""
    return delta(index, index, npos.k if npos.self_neighbor else npos.k + 1)


def make_candidates(boundary: Tensor, noise: Tensor, npos: Npos) -> Tensor:
    """Return every u + n (b * N, D); the released code forgets u, so each n is there b times."""
    origins = boundary if npos.add_boundary else torch.zeros_like(boundary)
    return (origins[:, None] + noise).flatten(0, 1)


def candidate_distances(candidates: Tensor, index: Tensor, npos: Npos) -> Tensor:
    """Return Delta_K of each candidate; released ("mixed"): raw ones to unit vectors."""
    return delta(F.normalize(candidates) if npos.space == "unit" else candidates, index, npos.k)


def delta(queries: Tensor, points: Tensor, k: int) -> Tensor:
    """Return Delta_K, each query's distance to its K-th nearest point; to the farthest if fewer."""
    found = []
    for some in torch.split(queries, 1000):  # not all at once, for the sake of memory
        distances = torch.cdist(some, points, compute_mode="donot_use_mm_for_euclid_dist")
        found.append(distances.kthvalue(min(k, len(points)), dim=1).values)
    return torch.cat(found)


def topk(count: int, values: Tensor) -> Tensor:
    """Return where the largest values are, the largest first; of equals, the earlier first."""
    return values.argsort(descending=True, stable=True)[:count]


def shuffled(outliers: Tensor, generator: torch.Generator) -> Tensor:
    """Return the outliers in random order; the released code leaves them in order of distance."""
    return outliers[torch.randperm(len(outliers), generator=generator).to(outliers.device)]
