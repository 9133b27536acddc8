"""The head that follows from class sums, in closed form: which class is it?

Two estimates are averaged: discriminant analysis, which is better with few images, and ridge
regression with every class counted alike, which is better with many (docs/analytic.md). Both read
an image by the same C numbers, phi^T (S_w + ridge I)^-1 (mu_c - mean of the mu_c).
"""

from contextlib import suppress
from dataclasses import dataclass

import torch
from torch import Tensor

from ovor.learners.moments import Moments

RIDGES = torch.logspace(-6, 4, 41, dtype=torch.double)  # of the mean variance, to choose from
FREEDOM = 0.3  # effective parameters an image, at most: generalised cross-validation overfits above
SMALL_CLASS = 0.5  # images that the correction for small classes adds to each, by development


@dataclass(frozen=True, eq=False)
class Scatter:
    """What the sums say of the classes: their means, and how images scatter around them."""

    counts: Tensor  # C
    means: Tensor  # C, p
    centre: Tensor  # p: the plain mean of the class means
    within: Tensor  # p, p
    images: float

    @classmethod
    def of(cls, moments: Moments) -> "Scatter":
        """Return the scatter; every class must have an image."""
        counts = moments.counts
        means = moments.sums / counts[:, None]
        within = moments.second - (moments.sums.T / counts) @ moments.sums
        return cls(counts, means, means.mean(0), within, float(moments.images))

    @property
    def classes(self) -> int:
        return len(self.counts)

    @property
    def deviations(self) -> Tensor:
        """The class means around their mean (C, p)."""
        return self.means - self.centre

    @property
    def each(self) -> float:
        """Images of a class, on average."""
        return self.images / self.classes

    @property
    def inequality(self) -> float:
        """How much more uncertain the class means are than if all classes were of one size.

        They are as uncertain as 1 / counts, on average, and not as one over the average count.
        """
        return float(self.counts.mean() * (1 / self.counts).mean())

    @property
    def freedom(self) -> float:
        """Images beyond the first of each class."""
        return max(self.images - self.classes, 1.0)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The axes along which images differ, every class counted alike, from the least to the most.

    In single precision, which takes a third of the time, and is enough to choose a ridge by and to
    judge learned images by; the head itself is solved for in double precision.
    """

    values: Tensor  # p: sums of squares along the axes
    vectors: Tensor  # p, p: a column each

    @classmethod
    def of(cls, scatter: Scatter) -> "Spectrum":
        """Return the axes of a scatter with the class means in it."""
        total = scatter.within + scatter.each * (scatter.deviations.T @ scatter.deviations)
        scale = (total.trace() / len(total)).clamp(min=1e-12)
        values, vectors = decomposed(total / scale)
        return cls(values.double().clamp(min=0) * scale, vectors)

    def squares(self, apart: Tensor) -> Tensor:
        """Return the squared length of each row along each axis."""
        return (apart.float() @ self.vectors).square_()


def decomposed(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues and eigenvectors, found in single precision unless LAPACK fails at that.

    It does now and then, where few images differ: it gives up, or returns what are no numbers.
    """
    with suppress(RuntimeError):
        values, vectors = torch.linalg.eigh(matrix.float())
        if bool(values.isfinite().all() & vectors.isfinite().all()):
            return values, vectors
    values, vectors = torch.linalg.eigh(matrix)
    return values, vectors.float()


def choose_ridge(scatter: Scatter, spectrum: Spectrum) -> float:
    """Choose by generalised cross-validation of the balanced regression, from the sums alone."""
    scale = spectrum.values.mean().clamp(min=1e-12)
    values = spectrum.values / scale
    along = scatter.deviations @ spectrum.vectors.double()  # C, p
    power = (scatter.each * along).square().sum(0) / scale
    shrunk = 1 / (values + RIDGES[:, None])  # ridges, p
    parameters = (values * shrunk).sum(1)
    variance = scatter.images * (1 - 1 / scatter.classes)
    rest = variance - 2 * (power * shrunk).sum(1) + (power * values * shrunk.square()).sum(1)
    room = scatter.images - 1 - parameters
    error = torch.where(
        parameters <= FREEDOM * (scatter.images - 1), rest / room.square(), torch.inf
    )
    best = RIDGES[-1] if not error.isfinite().any() else RIDGES[int(error.argmin())]
    return float((best * scale).clamp(min=1e-9))


@dataclass(frozen=True, eq=False)
class Discriminant:
    """Linear discriminants with one ridge, and what they would be without one of their images."""

    scatter: Scatter
    spectrum: Spectrum
    ridge: float
    weights: Tensor  # p, C
    gram: Tensor  # C, C: what the class means give
    kernel: Tensor  # C, C: how the scatter of the class means shortens distances
    leverage: float  # of an image, on average: how much it determines what it is compared with
    noise: Tensor  # C, C: covariance of the outputs within a class

    @classmethod
    def of(cls, scatter: Scatter, spectrum: Spectrum, ridge: float) -> "Discriminant":
        """Solve for the discriminants."""
        system = scatter.within.clone()
        system.diagonal().add_(ridge)
        weights = torch.cholesky_solve(scatter.deviations.T, torch.linalg.cholesky(system))
        gram = scatter.deviations @ weights
        gram = (gram + gram.T) / 2
        overlap = weights.T @ weights
        eye = torch.eye(len(gram), dtype=torch.double)
        kernel = torch.linalg.inv(eye / scatter.each + gram)
        # The trace of the inverse of the system, by way of the spectrum: see `leverages`.
        trace = (1 / (spectrum.values + ridge)).sum() + (kernel * overlap).sum()
        parameters = len(system) - ridge * float(trace)
        leverage = min(max(parameters / scatter.freedom, 0.0), 0.99)
        noise = (gram - ridge * overlap) / scatter.freedom
        return cls(scatter, spectrum, ridge, weights, gram, kernel, leverage, noise)

    def outputs(self, features: Tensor) -> Tensor:
        """Return C numbers an image, all that the head needs of it."""
        return (features - self.scatter.centre) @ self.weights

    @property
    def lengths(self) -> Tensor:
        """Squared lengths of the class means (1, C)."""
        return self.gram.diagonal()[None]

    @property
    def uncertainty(self) -> float:
        """By how much the mean of one image misses its class, as a squared length."""
        return self.leverage / (1 - self.leverage)

    def apart(self, features: Tensor, labels: Tensor) -> Tensor:
        """Return images as seen from the means of their classes."""
        return features - self.scatter.means[labels]

    def counts_without(self, labels: Tensor) -> Tensor:
        """Return the images of every class but for one of these labels each (n, C)."""
        counts = self.scatter.counts.repeat(len(labels), 1)
        counts[torch.arange(len(labels)), labels] -= 1
        return counts

    def leverages(self, squares: Tensor, shifts: Tensor) -> Tensor:
        """Return the squared lengths of rows, in the measure of the ridged scatter.

        The axes have the class means in their scatter. What those shorten a row by is what its
        outputs say (Woodbury's formula), and is added.
        """
        shortened = squares.double() @ (1 / (self.spectrum.values + self.ridge))
        return shortened + ((shifts @ self.kernel) * shifts).sum(1)

    def without(self, features: Tensor, labels: Tensor, squares: Tensor) -> "LeftOut":
        """Return what the discriminants say of each image as if it had not been learned.

        Its class must have another. Its share of the scatter and of its class's mean is taken out
        by the formula for a rank-one change; the ridge and the mean of all classes stay. `squares`
        are those of `apart` along the axes.
        """
        rows = torch.arange(len(labels))
        own = self.scatter.counts[labels]
        ratio = own / (own - 1)
        outputs = self.outputs(features)
        shifts = outputs - self.gram[labels]  # of the image from its class's mean
        leverage = self.leverages(squares, shifts)
        along = leverage + shifts[rows, labels]
        left = (1 - ratio * leverage).clamp(min=1e-6)
        changed = outputs + (ratio / left * along)[:, None] * shifts
        lengths = self.lengths + (ratio / left)[:, None] * shifts.square()
        changed[rows, labels] -= along / left / (own - 1)
        lengths[rows, labels] += (
            (leverage / (own - 1) - 2 * shifts[rows, labels]) / left / (own - 1)
        )
        return LeftOut(changed, lengths, self.counts_without(labels), shifts, ratio / left)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Learned images, each as the others of its class and of all classes let it appear."""

    outputs: Tensor  # n, C
    lengths: Tensor  # n, C
    counts: Tensor  # n, C
    shifts: Tensor  # n, C: of the image from its class's mean, while it was still learned
    growth: Tensor  # n: by how much of their squares the gram matrix grows


@dataclass(frozen=True, eq=False)
class Mixture:
    """The average of discriminant analysis and balanced regression, both with a spread of 1."""

    discriminant: Discriminant
    mixing: Tensor  # C, C: from a discriminant's outputs to logits
    scales: Tensor  # 2: of discriminant analysis, and of the regression

    @classmethod
    def of(cls, discriminant: Discriminant) -> "Mixture":
        """Mix what the same discriminants give."""
        scatter, gram = discriminant.scatter, discriminant.gram
        eye = torch.eye(len(gram), dtype=torch.double)
        regression = torch.linalg.inv(eye + scatter.each * gram) * scatter.each
        share = scatter.counts / scatter.counts.sum()
        mean = gram @ share
        spread = discriminant.noise + (gram * share) @ gram - torch.outer(mean, mean)
        analysis, regression = centred(eye), centred(regression)
        squares = [(part * (spread @ part)).sum() for part in (analysis, regression)]
        scales = (torch.stack(squares) / len(gram)).clamp(min=1e-24).sqrt()
        return cls(discriminant, (analysis / scales[0] + regression / scales[1]) / 2, scales)

    def without(self, features: Tensor, labels: Tensor, squares: Tensor) -> Tensor:
        """Return the logits of learned images as if each had not been learned."""
        left = self.discriminant.without(features, labels, squares)
        return self.logits(left.outputs, left.lengths, left.counts)

    def logits(self, outputs: Tensor, lengths: Tensor, counts: Tensor) -> Tensor:
        """Return the logits of images by a discriminant's outputs."""
        return outputs @ self.mixing + self.constants(lengths, counts)

    def constants(self, lengths: Tensor, counts: Tensor) -> Tensor:
        """Return the part of the logits that is the same for all images.

        A mean of few images lies too far out by chance; what is expected of that is added back,
        or small classes would hardly ever be chosen.
        """
        chance = self.discriminant.leverage / (counts + SMALL_CLASS)
        return centred(chance - lengths) / (4 * self.scales[0])


def centred(rows: Tensor) -> Tensor:
    """Return rows with a mean of zero: what all classes have in common decides nothing."""
    return rows - rows.mean(-1, keepdim=True)
