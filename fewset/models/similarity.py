"""Similarity of queries to a set of items: larger is more alike. All are batched over tasks."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from fewset.runtime.errors import refuse_unknown

Similarity = Callable[[Tensor, Tensor], Tensor]


def negative_squared_euclidean(
    query: Float[Tensor, "T M D"], items: Float[Tensor, "T S D"]
) -> Float[Tensor, "T M S"]:
    """-|q - p|², written as 2qp - |q|² - |p|²: one matrix product, and it exports with dynamic shapes.

    The distance does not depend on the origin. Taken at the items' mean, it is as exact as the sum of
    squared differences; far from the items, the three terms would cancel to their rounding errors.
    """
    origin = items.mean(dim=-2, keepdim=True).detach()
    query, items = query - origin, items - origin
    products = query @ items.mT
    return 2 * products - query.square().sum(-1, keepdim=True) - items.square().sum(-1).unsqueeze(-2)


def euclidean_ranking(query: Float[Tensor, "T M D"], items: Float[Tensor, "T S D"]) -> Float[Tensor, "T M S"]:
    """-|q - p|² / 2 less what all items of a query have in common, -|q - o|² / 2 at the items' mean o.

    It ranks the items of each query alike and leaves the queries as they are: a third of the time where there
    are many numbers. For queries that lie far from 0 by their own differences it is less exact.
    """
    origin = items.mean(dim=-2, keepdim=True)
    away = items - origin
    offset = (origin.lerp(items, 0.5) * away).sum(-1, keepdim=True)
    wide = torch.baddbmm(offset, away, query.mT, beta=-1)  # quicker than a product of a few columns
    return wide.mT.contiguous()


def cosine(query: Float[Tensor, "T M D"], items: Float[Tensor, "T S D"]) -> Float[Tensor, "T M S"]:
    """The cosine of the angle, both sides normalised."""
    return F.normalize(query, dim=-1) @ F.normalize(items, dim=-1).mT


def one_sided_cosine(query: Float[Tensor, "T M D"], items: Float[Tensor, "T S D"]) -> Float[Tensor, "T M S"]:
    """The cosine of the authors' published code, which normalises the items and not the queries.

    It differs from the paper's by the factor |q| in each row: the same decisions, other probabilities.
    """
    return query @ F.normalize(items, dim=-1).mT


SIMILARITIES: dict[str, Similarity] = {
    "euclidean": negative_squared_euclidean,
    "cosine": cosine,
    "one-sided-cosine": one_sided_cosine,
}


RANKINGS: dict[Similarity, Similarity] = {negative_squared_euclidean: euclidean_ranking}
"""What ranks the items of a query as a similarity does, where something does so in less time."""


def find_similarity(name: str) -> Similarity:
    """The similarity of that name, or an error that lists them."""
    refuse_unknown("similarity", name, SIMILARITIES)
    return SIMILARITIES[name]
