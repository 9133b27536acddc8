"""The head that follows from class sums, in closed form: which class, and is it any of them?

Two estimates are averaged: discriminant analysis, which is better with few images, and ridge
regression with every class counted alike, which is better with many (docs/analytic.md). Both read
an image by the same C numbers, phi^T (S_w + ridge I)^-1 (mu_c - mean of the mu_c).
"""

from contextlib import suppress
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from ovor.learners.moments import Moments

RIDGES = torch.logspace(-6, 4, 41, dtype=torch.double)  # of the mean variance, to choose from
FREEDOM = 0.3  # effective parameters an image, at most: generalised cross-validation overfits above
# The rest was chosen on development classes, of drawings and of photographs.
SMALL_CLASS = 0.5  # images that the correction for small classes adds to each
AXES, LEADING = 64, 0.1  # leading directions that say how usual an image is, and their weight
FOR_AN_AXIS = 4  # images, or the directions would follow single ones
OTHERS, ENOUGH = 0.3, 40  # weight of the other directions at most, and up to so many parameters


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
    scale: Tensor  # of discriminant analysis

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
        scales = [
            ((part * (spread @ part)).sum() / len(gram)).clamp(min=1e-24).sqrt()
            for part in (analysis, regression)
        ]
        return cls(discriminant, (analysis / scales[0] + regression / scales[1]) / 2, scales[0])

    def without(self, features: Tensor, labels: Tensor, squares: Tensor) -> Tensor:
        """Return the logits of learned images as if each had not been learned."""
        left = self.discriminant.without(features, labels, squares)
        return self.logits(left.outputs, left.lengths, left.counts)

    def logits(self, outputs: Tensor, lengths: Tensor, counts: Tensor) -> Tensor:
        """Return the logits of images by a discriminant's outputs.

        A mean of few images lies too far out by chance; what is expected of that is added back,
        or small classes would hardly ever be chosen.
        """
        chance = self.discriminant.leverage / (counts + SMALL_CLASS)
        return outputs @ self.mixing + centred(chance - lengths) / (4 * self.scale)


def centred(rows: Tensor) -> Tensor:
    """Return rows with a mean of zero: what all classes have in common decides nothing."""
    return rows - rows.mean(-1, keepdim=True)


@dataclass(frozen=True, eq=False)
class Novelty:
    """How far an image is from the nearest class, less how far it is from all: the unknown.

    The relative Mahalanobis distance, and a share of the distance from all again: along the leading
    directions, and across them, which tells less the better the scatter is known. In units of what
    the sums let expect of images of known classes, around their mean.
    """

    weights: Tensor  # p, C
    centre: Tensor  # p
    offsets: Tensor  # C: lengths of the class means, less what chance gives to those of few images
    kernel: Tensor  # C, C
    axes: Tensor  # p, A: leading directions
    leading: Tensor  # A: weights of squared distances along them, and
    others: Tensor  # (): across them
    level: Tensor  # (): mean of the distances, and
    scale: Tensor  # (): their spread, as expected

    @classmethod
    def of(cls, discriminant: Discriminant) -> "Novelty":
        """Return what tells the unknown by these discriminants."""
        scatter, gram, kernel = discriminant.scatter, discriminant.gram, discriminant.kernel
        spectrum, eye = discriminant.spectrum, torch.eye(len(gram), dtype=torch.double)
        measure = 1 / (spectrum.values + discriminant.ridge)
        there = min(AXES, len(measure))
        axes = max(1, min(there, int(scatter.images / FOR_AN_AXIS)))
        leading = LEADING * measure[-axes:]
        parameters = max(discriminant.leverage * scatter.freedom, 1.0)
        others = torch.zeros((), dtype=torch.double)
        if len(measure) > axes:
            others = min(OTHERS, (ENOUGH / parameters) ** 2) * measure[:-axes].mean()
        usual = spectrum.values / scatter.images
        usual = torch.cat([others * usual[:-axes], leading * usual[-axes:]])
        noise = discriminant.noise / (1 - discriminant.leverage) ** 2
        slopes = 2 * (eye - kernel @ gram)
        spread = (slopes * (noise @ slopes)).sum(0).mean() + 2 * usual.square().sum()
        lengths, chance = discriminant.lengths[0], discriminant.uncertainty / scatter.counts
        # Of small classes the lengths are mostly chance: they count by their images.
        share = scatter.counts / scatter.counts.sum()
        among = share @ ((gram @ kernel) * gram).sum(1) + (kernel * noise).sum()
        level = share @ (chance - lengths) + among + usual.sum()
        # What files hold of the large ones; a model must say the same after it was saved.
        weights = whole(*halved(discriminant.weights))
        # As many columns as ever, so that no number of images is in the shapes of a file.
        directions = spectrum.vectors[:, -there:].double()
        directions[:, : there - axes] = 0
        directions, leading = whole(*halved(directions)), pad(leading, (there - axes, 0))
        scale = spread.clamp(min=1e-24).sqrt()
        return cls(
            weights,
            scatter.centre,
            lengths - chance,
            kernel,
            directions,
            leading,
            others,
            level,
            scale,
        )

    def distances(self, features: Tensor) -> Tensor:
        """Return a number an image, larger the less it belongs to any class."""
        apart = features - self.centre
        return self.combined(apart @ self.weights, self.offsets, self.unusual(apart))

    def without(
        self, discriminant: Discriminant, features: Tensor, labels: Tensor, squares: Tensor
    ) -> Tensor:
        """Return the distances of learned images as if each had not been learned.

        Of the formula for a rank-one change also follows how the class means then scatter.
        """
        left = discriminant.without(features, labels, squares)
        chance = discriminant.uncertainty / left.counts
        unusual = self.unusual(features - self.centre, discriminant.spectrum)
        turned = left.shifts @ self.kernel
        crossed = (turned * left.outputs).sum(1).square() * left.growth
        less = crossed / (1 + left.growth * (turned * left.shifts).sum(1))
        # The mean of all classes moves away from the image too, by a share of its class's step.
        rows, classes = torch.arange(len(labels)), self.kernel.shape[0]
        own = squares.double() @ (1 / (discriminant.spectrum.values + discriminant.ridge))
        apart = left.shifts[rows, labels] - (turned * discriminant.gram[labels]).sum(1)
        steps = classes * left.counts[rows, labels]
        less = less + 2 * (own + apart) / (1 - own).clamp(min=1e-3) / steps
        return self.combined(left.outputs, left.lengths - chance, unusual - less)

    def unusual(self, apart: Tensor, learned: Spectrum | None = None) -> Tensor:
        """Return how far images are from all, a weighted sum of squares.

        The leading directions lean towards images that were learned, the more the larger their
        share of the sums of squares is, and leave less across than they do of other images: by two
        powers of what is left of 1.
        """
        along = (apart @ self.axes).square()
        across = apart.square().sum(1) - along.sum(1)
        if learned is not None:
            shares = along @ (1 / learned.values[-len(self.leading) :].clamp(min=1e-12))
            across = across / (1 - shares).clamp(min=0.1).square()
        return along @ self.leading + self.others * across

    def combined(self, outputs: Tensor, offsets: Tensor, unusual: Tensor) -> Tensor:
        """Return the distances by a discriminant's outputs."""
        nearest = (offsets - 2 * outputs).amin(1)
        among = ((outputs @ self.kernel) * outputs).sum(1)
        return (nearest + among + unusual - self.level) / self.scale


def halved(columns: Tensor) -> tuple[Tensor, Tensor]:
    """Return columns in half precision, and the scales by which they keep its range.

    Distances that tell the unknown need no more: an error of 1/2048 of single weights is far below
    what images of a class differ by.
    """
    scales = columns.abs().amax(0).clamp(min=1e-300)
    return (columns / scales).half(), scales


def whole(columns: Tensor, scales: Tensor) -> Tensor:
    """Return columns in double precision again."""
    return columns.double() * scales
