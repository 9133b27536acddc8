"""Virtual outliers from a task's features: non-parametric synthesis, NPOS (Sec. 4.1, Alg. 2).

Boundary features plus Gaussian noise are the candidates; those farthest from the features, by the
distance to the K-th nearest, are the outliers. With the candidates u + n taken as a grid, their
distances are sums of two small tables, and no candidate exists before it is chosen.
"""

from dataclasses import dataclass
from math import ceil

import torch
import torch.nn.functional as F
from torch import Tensor

from ovor.config import Npos
from ovor.outliers import knn
from ovor.outliers.boundary import farthest_from_others, farthest_from_sample
from ovor.outliers.knn import chunk_rows, kth_smallest, square_norms


@torch.no_grad()
def synthesize(
    features: Tensor, labels: Tensor, classes: int, npos: Npos, generator: torch.Generator
) -> Tensor:
    """At most beta * classes outliers (M, D) in float32; all candidates if there are fewer.

    Noise and sample come from a generator on the CPU, so they are the same for every device.
    """
    features = features.float()
    noise = npos.sigma * torch.randn(npos.noise, features.shape[1], generator=generator)
    noise = noise.to(features.device)
    with torch.autocast(features.device.type, enabled=False):  # distances need all of float32
        if npos.per_class:
            groups = [features[labels == label] for label in sorted(set(labels.tolist()))]
            found = [_outliers(group, noise, 1, npos, generator) for group in groups]
            outliers = torch.cat(found) if found else features
        else:
            outliers = features
            if len(features):
                outliers = _outliers(features, noise, classes, npos, generator)
    if npos.shuffle:
        order = torch.randperm(len(outliers), generator=generator)
        outliers = outliers[order.to(outliers.device)]
    return outliers


def _outliers(
    features: Tensor, noise: Tensor, classes: int, npos: Npos, generator: torch.Generator
) -> Tensor:
    """Alg. 2 for one set of features, farthest outlier first."""
    # Distances do not feel a shift, but float32 does: see knn.
    shift = features.mean(0) if npos.space == "raw" else features.new_zeros(features.shape[1])
    index = features - shift if npos.space == "raw" else F.normalize(features)
    count, k, others = max(1, round(npos.alpha * classes)), npos.k, npos.k - npos.self_neighbor
    if 0 < npos.sample < len(index):
        sample = torch.randperm(len(index), generator=generator)[: npos.sample].to(index.device)
        # As many times nearer in rank as there are fewer: about the same distance.
        k, others = (max(1, round(x * npos.sample / len(index))) for x in (k, others))
        boundary = farthest_from_sample(index, sample, others, count)
        index = index[sample]
    else:
        boundary = farthest_from_others(index, others, count)
    # Released code: candidates are the noise alone, as often as there are boundary samples.
    origins = features[boundary] if npos.add_boundary else torch.zeros_like(features[:1])
    copies = 1 if npos.add_boundary else len(boundary)
    wanted = npos.beta * classes
    candidates = Candidates.of(origins - shift, noise, index, unit=npos.space == "unit")
    chosen = candidates.farthest(ceil(wanted / copies), min(k, len(index)))
    outliers = origins[chosen // len(noise)] + noise[chosen % len(noise)]
    return outliers.repeat_interleave(copies, dim=0)[:wanted]


@dataclass(frozen=True)
class Candidates:
    """The grid v = u_i + n_j, numbered i * N + j, and what its distances to the index x consist of.

    For a given v, |v - x|^2 is increasing in origin_terms[i, x] + noise_terms[j, x], so the K-th
    smallest sum belongs to the K-th nearest x.
    """

    origin_terms: Tensor  # b, n: |x|^2 - 2 u.x
    noise_terms: Tensor  # N, n: -2 n.x
    square_norms: Tensor  # b * N: |v|^2
    unit: bool  # scored as v / |v| against an index of unit vectors

    @classmethod
    def of(cls, origins: Tensor, noise: Tensor, index: Tensor, unit: bool) -> "Candidates":
        norms = torch.addmm(square_norms(noise), origins, noise.T, alpha=2)
        norms += square_norms(origins)[:, None]
        return cls(
            origin_terms=torch.addmm(square_norms(index), origins, index.T, alpha=-2),
            noise_terms=(-2 * noise) @ index.T,
            square_norms=norms.flatten(),
            unit=unit,
        )

    def farthest(self, count: int, k: int) -> Tensor:
        """The `count` candidates with the largest K-th distance, largest first; of equals, the
        smaller number first.

        They are scored in order of an upper bound, until the bound falls below the last one kept.
        """
        bounds = self._bounds(k)
        order = bounds.argsort(descending=True, stable=True)
        best, best_squares = order[:0], bounds[:0]
        rows = chunk_rows(self.noise_terms.shape[1], knn.FEWEST_ROWS)
        for chunk in torch.split(order, rows):
            if len(best) == count and bounds[chunk[0]] < best_squares[-1]:
                break
            best = torch.cat([best, chunk])
            best_squares = torch.cat([best_squares, self._kth_squares(chunk, k)])
            best, by_number = best.sort()
            best_squares, by_distance = best_squares[by_number].sort(descending=True, stable=True)
            best, best_squares = best[by_distance][:count], best_squares[:count]
        return best

    def _kth_squares(self, numbers: Tensor, k: int) -> Tensor:
        """Squared distance of some candidates to their K-th nearest."""
        noises = len(self.noise_terms)
        sums = self.origin_terms.index_select(0, numbers // noises)
        sums += self.noise_terms.index_select(0, numbers % noises)
        return self._square_distance(kth_smallest(sums, k), self.square_norms[numbers])

    def _bounds(self, k: int) -> Tensor:
        """An upper bound of every candidate's squared distance to its K-th nearest.

        The K-th nearest among some x is no nearer than that among all. The nearest to u_i make it
        tight: few candidates but the outliers themselves are then left to score. It is taken
        over the same float sums as the distance, so that rounding cannot break it.
        """
        near = self.origin_terms.topk(min(3 * k // 2, self.origin_terms.shape[1]), largest=False)
        noises, width = len(self.noise_terms), near.values.shape[1]
        bounds = []
        for terms, columns in zip(
            *(torch.split(x, chunk_rows(noises * width)) for x in near), strict=True
        ):
            sums = self.noise_terms.index_select(1, columns.flatten()).add_(terms.flatten())
            bounds.append(kth_smallest(sums.view(-1, width), k).view(noises, -1).T)  # some b, N
        return self._square_distance(torch.cat(bounds).flatten(), self.square_norms)

    def _square_distance(self, sums: Tensor, square_norms: Tensor) -> Tensor:
        if self.unit:  # |v/|v| - x|^2 = 2 - 2 v.x / |v|, and the sums are 1 - 2 v.x
            return 2 + (sums - 1) / square_norms.sqrt()
        return sums + square_norms
