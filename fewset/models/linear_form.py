"""Heads whose decisions are linear in the query: one weight vector and one number a class."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class LinearForm(NamedTuple):
    """Scores `weights · query - offset`, which rank the classes of a query as its logits do.

    Whatever is the same for all classes of a query may be left out of them, such as its length. So a query
    may be any row of a table as it is, and thousands of tasks are scored without a copy of their queries.
    """

    weights: Float[Tensor, "T N D"]
    offset: Float[Tensor, "T N"]

    def scores(self, query: Float[Tensor, "T M D"]) -> Float[Tensor, "T M N"]:
        """Of every query. They are less exact than logits for queries far from 0 by their differences."""
        offset = self.offset.unsqueeze(-1)
        wide = torch.baddbmm(offset, self.weights, query.mT, beta=-1)  # quicker than a product of few columns
        return wide.mT.contiguous()


def linear_form_of(head: object) -> Callable[[Tensor], LinearForm | None] | None:
    """What gives the form of a head for an adapted support; None for a head that has no such method.

    A class that inherits the method, but decides by a `forward` of its own, has none either.
    """
    for kind in type(head).__mro__:
        if "linear_form" in vars(kind):
            form: Callable[[Tensor], LinearForm | None] = head.linear_form  # type: ignore[attr-defined]
            return form
        if "forward" in vars(kind):
            break
    return None


def without_offset(weights: Float[Tensor, "T N D"]) -> LinearForm:
    """The form of a product alone."""
    return LinearForm(weights, weights.new_zeros(weights.shape[:2]))


def with_intercept(weights: Float[Tensor, "T more N"], intercept: bool) -> LinearForm:
    """The form of a regression's weights, the last of which is an intercept where there is one."""
    if not intercept:
        return without_offset(weights.mT)
    return LinearForm(weights[:, :-1].mT, -weights[:, -1])


def nearest(items: Float[Tensor, "T N D"]) -> LinearForm:
    """Of -|q - p|² / 2 less what all items of a query have in common, -|q - o|² / 2 at the items' mean o."""
    origin = items.mean(dim=-2, keepdim=True)
    away = items - origin
    return LinearForm(away, (origin.lerp(items, 0.5) * away).sum(-1))
