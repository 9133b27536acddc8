"""How far prompts and features move while a task is learned, as similarities in percent.

The paper's tables of representation drift (App. E); it names the measures but prints no formula, so
these are the published definitions, with the choices of docs/methods.md, metrics.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

# Squared distances come from a product of matrices, so equal rows are apart by rounding.
ROUNDING = 1e-12


def prompt_cosine(before: dict[str, Tensor], after: dict[str, Tensor]) -> float:
    """100 <p, q> / (|p| |q|), where p and q are all tensors, flattened and concatenated.

    Prompts begin as U(0, 1), with 75 % of their energy in the constant component: two unrelated
    ones already have 75 %. `centered_prompt_cosine` leaves that out.
    """
    return _cosine(*_flat(before, after))


def centered_prompt_cosine(before: dict[str, Tensor], after: dict[str, Tensor]) -> float:
    """100 <p - mean p, q - mean q> / (|p - mean p| |q - mean q|), their correlation."""
    p, q = _flat(before, after)
    return _cosine(p - p.mean(), q - q.mean())


def feature_cosine(before: Tensor, after: Tensor) -> float:
    """100 mean_i <x_i, y_i> / (|x_i| |y_i|) over the rows, which are of the same images."""
    return 100 * float(F.cosine_similarity(before.double(), after.double()).mean())


def linear_cka(x: Tensor, y: Tensor) -> float:
    """100 |Y'X|^2 / (|X'X| |Y'Y|) in Frobenius norms, columns centred; (n, d) and (n, e).

    With Gram matrices K = XX' and L = YY' it is the same as 100 <K, L> / (|K| |L|), which is less
    work where there are fewer rows than columns.
    """
    x, y = _centered_columns(x), _centered_columns(y)
    n, d, e = len(x), x.shape[1], y.shape[1]
    if n * (d + e) < d * d + d * e + e * e:
        return _cosine((x @ x.T).flatten(), (y @ y.T).flatten())
    across = (y.T @ x).square().sum()
    return 100 * float(across / ((x.T @ x).norm() * (y.T @ y).norm()))


def kernel_cka(x: Tensor, y: Tensor, sigma: float | None = None) -> float:
    """100 <HKH, HLH> / (|HKH| |HLH|), H = I - 11'/n, K_ij = exp(-|x_i - x_j|^2 / 2 sigma^2).

    L is the same of y. Without a sigma, each matrix has its own: sigma^2 is the median of its
    squared distances that are not zero.
    """
    gram_x, gram_y = (_centered_gram(_rbf(_square_distances(z), sigma)) for z in (x, y))
    return _cosine(gram_x.flatten(), gram_y.flatten())


def _flat(before: dict[str, Tensor], after: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    if before.keys() != after.keys():
        raise ValueError(f"not the same prompt: {sorted(before)} and {sorted(after)}")
    p, q = ([tensors[name].flatten() for name in before] for tensors in (before, after))
    return torch.cat(p).double(), torch.cat(q).double()


def _cosine(p: Tensor, q: Tensor) -> float:
    return 100 * float(p @ q / (p.norm() * q.norm()))


def _centered_columns(x: Tensor) -> Tensor:
    x = x.double()
    return x - x.mean(0)


def _centered_gram(gram: Tensor) -> Tensor:
    """Return HKH without forming the matrix H."""
    return gram - gram.mean(0) - gram.mean(1, keepdim=True) + gram.mean()


def _square_distances(x: Tensor) -> Tensor:
    x = _centered_columns(x)  # distances stay the same, rounding errors shrink
    norms = x.square().sum(1)
    squares = torch.addmm(norms, x, x.T, alpha=-2).add_(norms[:, None])
    squares[squares <= ROUNDING * norms.max()] = 0
    return squares


def _rbf(squares: Tensor, sigma: float | None) -> Tensor:
    variance = _median(squares[squares > 0]) if sigma is None else sigma**2
    return torch.exp(squares / (-2 * variance))


def _median(values: Tensor) -> Tensor:
    """Return the median; of two in the middle their mean, where torch's own takes the lower."""
    if not len(values):  # all features are equal, and the similarity is not a number
        return values.new_ones(())
    middle = len(values) + 1
    return (values.kthvalue(middle // 2).values + values.kthvalue((middle + 1) // 2).values) / 2
