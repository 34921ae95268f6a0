"""Similarity of queries to a set of items: larger is more alike. All are batched over tasks."""

from collections.abc import Callable

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from fewset.core.errors import refuse_unknown

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


def find_similarity(name: str) -> Similarity:
    """The similarity of that name, or an error that lists them."""
    refuse_unknown("similarity", name, SIMILARITIES)
    return SIMILARITIES[name]
