"""How strange an image is to a head that follows from class sums: is it of any class at all?

Two things say so, and both count: how far it is from the classes, and how little any of them claims
it (docs/analytic.md).
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from ovor.learners.discriminant import SMALL_CLASS, Discriminant, Mixture, Spectrum, centred

# Chosen on development classes, of drawings, of photographs and of texts.
AXES, LEADING = 64, 0.1  # leading directions that say how usual an image is, and their weight
FOR_AN_AXIS = 4  # images, or the directions would follow single ones
OTHERS, ENOUGH = 0.3, 40  # weight of the other directions at most, and up to so many parameters
DOUBT = 3.0  # weight of how little the classes claim an image, beside its distance


@dataclass(frozen=True, eq=False)
class Novelty:
    """How far an image is from the nearest class, less how far from all, and how unsure it is.

    The relative Mahalanobis distance, and a share of the distance from all again: along the leading
    directions, and across them, which tells less the better the scatter is known. To it comes how
    little the logits of all classes together, their energy, claim the image. Both are in units of
    what the sums let expect of images of known classes, around their mean, and so is what they make
    together.
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
    gains: Tensor  # 2: from outputs, and from the kernel's product with them, to logits
    constants: Tensor  # C: of the logits
    claimed: Tensor  # (): energy of the logits, as expected, and
    doubt: Tensor  # (): weight of what is missing to it; 0 in models from before it counted

    @classmethod
    def of(cls, discriminant: Discriminant, doubt: float = DOUBT) -> "Novelty":
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
        mixture, together = Mixture.of(discriminant), (1 + doubt**2) ** 0.5
        claimed, unequal = energies(mixture, share, noise)
        return cls(
            weights,
            scatter.centre,
            lengths - chance,
            kernel,
            directions,
            leading,
            others,
            level,
            spread.clamp(min=1e-24).sqrt() * together,
            1 / (2 * mixture.scales),
            mixture.constants(lengths, scatter.counts),
            claimed,
            doubt / together / unequal,
        )

    def distances(self, features: Tensor) -> Tensor:
        """Return a number an image, larger the less it belongs to any class."""
        apart = features - self.centre
        outputs, unusual = apart @ self.weights, self.unusual(apart)
        return self.combined(outputs, self.offsets, self.constants, unusual)

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
        back = discriminant.leverage / (left.counts + SMALL_CLASS)  # as `Mixture.constants` has it
        constants = centred(back - left.lengths) * self.gains[0] / 2
        return self.combined(left.outputs, left.lengths - chance, constants, unusual - less)

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

    def combined(
        self, outputs: Tensor, offsets: Tensor, constants: Tensor, unusual: Tensor
    ) -> Tensor:
        """Return the distances by a discriminant's outputs."""
        turned = outputs @ self.kernel
        nearest = (offsets - 2 * outputs).amin(1)
        far = (nearest + (turned * outputs).sum(1) + unusual - self.level) / self.scale
        logits = centred(self.gains[0] * outputs + self.gains[1] * turned) + constants
        return far + self.doubt * (self.claimed - logits.logsumexp(1))


def energies(mixture: Mixture, share: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Return the energy of the logits that the sums let expect of known images, and its spread.

    Of an image that is its class's mean, and as much as noise moves it from there; and classes
    differ in it.
    """
    one = mixture.discriminant
    logits = mixture.logits(one.gram, one.lengths, one.scatter.counts)  # of the class means
    energy, slopes = logits.logsumexp(1), logits.softmax(1) @ mixture.mixing.T
    mean = share @ energy
    moved = ((slopes @ noise) * slopes).sum(1) + (energy - mean).square()
    return mean, (share @ moved).clamp(min=1e-12).sqrt()


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
