"""The analytic head by a kernel, for ideas with more numbers of an image than are easily summed.

What a kernel brings is a bound: random features of it, in sums, come to no more (docs/shapes.md).
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from docs.features import BATCH, learner_of
from docs.own_ideas import FADING, Fold, Idea, drawing_transform
from ovor.data.embedded import quickdraw_dev
from ovor.data.loader import test_batches
from ovor.data.transforms import normalised
from ovor.encoders.vit import VisionTransformer
from ovor.learners.discriminant import FREEDOM, RIDGES, centred

DEPTHS = (2, 3, 4, 5)
UNITS = 3000  # random units that see every patch
CHOSEN_ON = 22  # of the 45 development classes; the others are held back


@dataclass(frozen=True, eq=False)
class Readings:
    """What one pass gives of each drawing, each normalised and the earlier depths shorter."""

    usual: Tensor  # class token and mean patch of four depths, as analytic reads them
    attended: Tensor  # patches as each head of the class token weighs them, of four depths
    units: Tensor  # random ReLU units of every patch, on average, of three depths
    products: Tensor  # mean product of every two numbers of a patch, its signed root, last depth
    labels: Tensor

    def of(self, classes: np.ndarray) -> "Readings":
        """Return the drawings of some classes, labelled by their places."""
        own = torch.from_numpy(np.isin(self.labels.numpy(), classes))
        labels = torch.from_numpy(np.searchsorted(classes, self.labels[own].numpy()))
        parts = (self.usual, self.attended, self.units, self.products)
        return Readings(*(part[own] for part in parts), labels)

    def halves(self) -> dict[str, "Readings"]:
        """Return two halves of the classes: one to choose on, one to confirm on."""
        order = np.random.default_rng(21).permutation(int(self.labels.max()) + 1)
        halves = {"chosen on": order[:CHOSEN_ON], "held back": order[CHOSEN_ON:]}
        return {name: self.of(np.sort(classes)) for name, classes in halves.items()}


@torch.no_grad()
def readings() -> Readings:
    """Read all development drawings."""
    drawings, transform, vit = quickdraw_dev(), drawing_transform(), learner_of({}).vit
    found, labels = [], []
    for images in (drawings.train, drawings.test):
        numbers, own = np.arange(len(images)), np.asarray(images.labels, np.int64)
        batches = test_batches(images, numbers, own, transform, batch_size=BATCH, workers=0)
        found += [read(vit, normalised(pixels, transform)) for pixels, _ in batches]
        labels.append(torch.from_numpy(own))
    parts = [torch.cat(part) for part in zip(*found, strict=True)]
    return Readings(*parts, torch.cat(labels))


def read(vit: VisionTransformer, images: Tensor) -> tuple[Tensor, ...]:
    tokens, width = vit.embed(images), vit.arch.embed_dim
    draw = torch.Generator().manual_seed(0)
    random = torch.randn(width, UNITS, generator=draw) / width**0.5
    usual, attended, units = [], [], []
    for number, block in enumerate(vit.blocks):
        attention = block.attn
        q, k, _ = map(attention.heads, attention.qkv(block.norm1(tokens)).chunk(3, dim=-1))
        weights = (q[:, :, :1] @ k.transpose(2, 3) / q.shape[-1] ** 0.5).softmax(-1)[:, :, 0, 1:]
        tokens = block(tokens)
        patches = tokens[:, 1:]
        length = FADING ** (DEPTHS[-1] - number)
        if number in DEPTHS:
            whole = torch.stack([tokens[:, 0], patches.mean(1)], 1)
            usual.append(normal(whole).flatten(1) * length)
            attended.append(normal(weights @ patches).flatten(1) * length)
        if number in DEPTHS[1:]:
            units.append(torch.relu(normal(patches) @ random).mean(1) * length)
    each = normal(patches)
    upper = torch.triu_indices(width, width)
    products = (each.transpose(1, 2) @ each / each.shape[1])[:, upper[0], upper[1]]
    roots = products.sign() * products.abs().sqrt()
    return torch.cat(usual, 1), torch.cat(attended, 1), torch.cat(units, 1), roots


def normal(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:])


def linear(*parts: Tensor) -> Tensor:
    """Return the kernel of readings side by side, each as long as the others on average."""
    total = torch.zeros(len(parts[0]), len(parts[0]))
    for part in parts:
        kernel = around_mean(part.float() @ part.float().T)
        total += kernel / kernel.diagonal().mean()
    return total


def gaussian(kernel: Tensor, gamma: float) -> Tensor:
    """Return the Gaussian kernel of what a linear one was made from; gamma per median distance."""
    lengths = kernel.diagonal()
    squares = (lengths[:, None] + lengths - 2 * kernel).clamp(min=0)
    return torch.exp(-gamma * squares / squares.median())


def around_mean(kernel: Tensor) -> Tensor:
    mean = kernel.mean(0)
    return kernel - mean - mean[:, None] + mean.mean()


def by_kernel(kernel: Tensor) -> Idea:
    """Solve for the analytic head in the space of a kernel; classes must be of one size.

    Regression is solved in the dual. Discriminant analysis follows, as its outputs are those of the
    regression times a matrix, which the regression's outputs of the class means give.
    """

    def ask(fold: Fold) -> Tensor:
        inside = kernel[fold.learned][:, fold.learned]
        mean, scale = inside.mean(0), around_mean(inside).diagonal().mean()
        across = kernel[fold.asked][:, fold.learned]
        across = (across - across.mean(1, keepdim=True) - mean + mean.mean()) / scale
        values, vectors = torch.linalg.eigh(around_mean(inside) / scale)
        values = values.clamp(min=0)
        each = len(fold.own) / fold.classes
        targets = vectors.T @ (F.one_hot(fold.own, fold.classes).float() - 1 / fold.classes)
        ridge = cross_validated(values, targets.square().sum(1))
        learned = (vectors @ (targets * (values / (values + ridge))[:, None])).double()
        asked = (across @ vectors @ (targets / (values + ridge)[:, None])).double()
        means = torch.zeros(fold.classes, fold.classes).double()
        means.index_add_(0, fold.own, learned / each)
        eye = torch.eye(fold.classes).double()
        back = torch.linalg.inv(each * (eye - (means + means.T) / 2))
        lengths = (back - eye / each).diagonal()
        scales = [centred(x).var(0, correction=0).mean().sqrt() for x in (learned @ back, learned)]
        return centred(asked @ back - lengths / 2) / scales[0] + centred(asked) / scales[1]

    return ask


def cross_validated(values: Tensor, power: Tensor) -> float:
    """Choose the ridge by generalised cross-validation, as `choose_ridge` does."""
    images, best = len(values) - 1, (float("inf"), float(RIDGES[-1]))
    for ridge in (RIDGES * float(values.mean())).tolist():
        shrunk = ridge / (values + ridge)
        parameters = float((1 - shrunk).sum())
        if parameters <= FREEDOM * images:
            error = float((shrunk.square() * power).sum()) / (images - parameters) ** 2
            best = min(best, (error, ridge))
    return best[1]
