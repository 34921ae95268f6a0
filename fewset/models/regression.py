"""Linear classifiers of many tasks at once, for the heads of models and those of the classifier.

Rows (T, S, D) come with their membership (T, S, N): 1 in the column of a row's class, and zeros throughout
for a row that does not count (shots that differ by class or by task). Every class has at least one row that
counts. All is differentiable.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fewset.tasks.episode import class_major_labels


def membership(labels: Int[Tensor, "*rows"], way: int, dtype: torch.dtype) -> Float[Tensor, "*rows {way}"]:
    """1 in the column of each row's class."""
    return (labels.unsqueeze(-1) == torch.arange(way, device=labels.device)).to(dtype)


def episode_membership(
    support: Float[Tensor, "T N K D"], mask: Bool[Tensor, "T N K"] | None = None
) -> Float[Tensor, "T NK N"]:
    """The membership of an episode's shots, in class-major order; with a mask, of those that it marks."""
    tasks, way, shot = support.shape[:3]
    result = membership(class_major_labels(tasks, way, shot, support.device), way, support.dtype)
    return result if mask is None else result * mask.flatten(1).unsqueeze(-1)


def support_rows(
    support: Float[Tensor, "T N K D"], mask: Bool[Tensor, "T N K"] | None = None
) -> tuple[Float[Tensor, "T NK D"], Float[Tensor, "T NK N"]]:
    """An episode's shots as rows, class by class, and their membership; rows that do not count are 0."""
    rows = support if mask is None else support.masked_fill(~mask.unsqueeze(-1), 0)
    return rows.flatten(1, 2), episode_membership(support, mask)


def with_ones(rows: Float[Tensor, "T S D"], wanted: bool = True) -> Float[Tensor, "T S more"]:
    """The rows with a last column of ones, whose weight is an intercept (penalised as the others are)."""
    return F.pad(rows, (0, 1), value=1.0) if wanted else rows


def class_means(rows: Float[Tensor, "T S D"], members: Float[Tensor, "T S N"]) -> Float[Tensor, "T N D"]:
    """The mean of each class's rows."""
    return (members / members.sum(dim=1, keepdim=True)).mT @ rows


def row_balance(members: Float[Tensor, "T S N"]) -> Float[Tensor, "T S 1"]:
    """The root of each row's weight, with which all classes count alike; 0 for rows that do not count."""
    shots = members.sum(dim=1, keepdim=True)
    return (members @ (shots.mean(dim=-1, keepdim=True) / shots).mT).sqrt()


def cholesky(matrices: Float[Tensor, "*batch S S"]) -> Float[Tensor, "*batch S S"]:
    """The Cholesky factors; a task with values that are not finite does not stop the others."""
    factors: Tensor = torch.linalg.cholesky_ex(matrices).L
    return factors


def ridge(
    rows: Float[Tensor, "T S D"],
    members: Float[Tensor, "T S N"],
    strength: Float[Tensor, " T"],
) -> Float[Tensor, "T D N"]:
    """The weights W that minimise `Σ |row W - target|² + strength |W|²`, each class counting alike.

    The targets are the membership. A row counts by the mean number of shots over that of its class, so it
    is the plain ridge regression where all classes have as many.
    """
    balance = row_balance(members)
    return ridge_weights(rows * balance, members * balance, strength)


def ridge_weights(
    rows: Float[Tensor, "T S D"], targets: Float[Tensor, "T S N"], strength: Float[Tensor, " T"]
) -> Float[Tensor, "T D N"]:
    """The W that minimise `|rows W - targets|² + strength |W|²`, solved in as few dimensions as there are."""
    dual = rows.shape[1] <= rows.shape[2]
    gram = rows @ rows.mT if dual else rows.mT @ rows
    identity = torch.eye(gram.shape[-1], dtype=rows.dtype, device=rows.device)
    factor = cholesky(gram + strength.view(-1, 1, 1) * identity)
    if dual:
        return rows.mT @ torch.cholesky_solve(targets, factor)
    return torch.cholesky_solve(rows.mT @ targets, factor)


def logistic_regression(
    rows: Float[Tensor, "T S D"],
    members: Float[Tensor, "T S N"],
    inverse_strength: Float[Tensor, ""],
    steps: int,
) -> Float[Tensor, "T D N"]:
    """The weights W that minimise `inverse_strength · Σ cross-entropy + |W|² / 2`, each class counting alike.

    Each step minimises a quadratic bound of the loss (Böhning, 1992), whose matrix is the same for all steps,
    with Nesterov's momentum. In as few dimensions as there are, many tasks at once, and differentiable.
    """
    balance = row_balance(members)
    scaled = rows * balance
    dual = rows.shape[1] <= rows.shape[2]
    gram = scaled @ scaled.mT if dual else scaled.mT @ scaled
    reach = rows @ scaled.mT if dual else rows
    identity = torch.eye(gram.shape[-1], dtype=rows.dtype, device=rows.device)
    factor = cholesky(inverse_strength / 2 * gram + identity)
    found = ahead = rows.new_zeros(len(rows), gram.shape[-1], members.shape[2])
    pace = 1.0
    for _ in range(steps):
        residual = inverse_strength * balance * (members - (reach @ ahead).softmax(dim=-1))
        gradient = ahead - (residual if dual else scaled.mT @ residual)
        following = ahead - torch.cholesky_solve(gradient, factor)
        faster = (1 + (1 + 4 * pace**2) ** 0.5) / 2
        ahead = following + (pace - 1) / faster * (following - found)
        found, pace = following, faster
    return scaled.mT @ found if dual else found
