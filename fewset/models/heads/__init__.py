"""Classification heads: adapted support and queries in, logits out. No state of a task is kept.

A head is built as `Head(dim, **options)` and called as `head(support, query, mask)`. `support` holds one
row a class where the model averages before the adaptation, and one a shot where it averages after it
(`mask` marks the rows that count when shots differ by class). Heads that look at single shots want
`average="post"`; their docstrings say so. Every head has the attributes `similarity` and `temperature`.

A head that takes something from the training features without a gradient has a method `fit(features)`
(`FittedHead`), to be called once before use; what it learns is part of the state dict.
"""

from typing import Protocol

from jaxtyping import Float
from torch import Tensor, nn

from fewset.runtime.errors import UserError
from fewset.runtime.registry import Registry

HEADS: Registry[type[nn.Module]] = Registry("head", __name__)
register_head = HEADS.register


class FittedHead(Protocol):
    """A head that wants the features of the train split before it is used."""

    def fit(self, features: Float[Tensor, "items D"]) -> None: ...


def checked_temperature(value: float) -> float:
    """A temperature as it was given, or an error."""
    if not value > 0:
        raise UserError(f"temperature is {value}, expected a number above 0")
    return value
