"""Classification heads: adapted support and queries in, logits out. No state of a task is kept.

A head is built as `Head(dim, **options)` and called as `head(support, query, mask)`. `support` holds one
row a class where the model averages before the adaptation, and one a shot where it averages after it
(`mask` marks the rows that count when shots differ by class).
"""

from collections.abc import Callable
from typing import TypeVar

from jaxtyping import Bool, Float
from torch import Tensor, nn

from fewset.episode import prototypes
from fewset.errors import UserError, known
from fewset.similarity import SIMILARITIES

HEADS: dict[str, type[nn.Module]] = {}

_Head = TypeVar("_Head", bound=type[nn.Module])


def register_head(name: str) -> Callable[[_Head], _Head]:
    """Class decorator: make a head known to recipes under `name`."""

    def register(head: _Head) -> _Head:
        HEADS[name] = head
        return head

    return register


@register_head("prototype")
class PrototypeHead(nn.Module):
    """Similarity to the mean of each class's rows, divided by the temperature (Snell et al., 2017)."""

    def __init__(self, dim: int, similarity: str = "euclidean", temperature: float = 1.0) -> None:
        super().__init__()
        self.dim = dim
        if similarity not in SIMILARITIES:
            raise known("similarity", similarity, SIMILARITIES)
        if not temperature > 0:
            raise UserError(f"temperature is {temperature}, expected a number above 0")
        self.similarity = SIMILARITIES[similarity]
        self.temperature = temperature

    def forward(
        self,
        support: Float[Tensor, "T N K D"],
        query: Float[Tensor, "T M D"],
        mask: Bool[Tensor, "T N K"] | None = None,
    ) -> Float[Tensor, "T M N"]:
        return self.similarity(query, prototypes(support, mask)) / self.temperature
