"""Classification heads: adapted support and queries in, logits out. No state of a task is kept.

A head is built as `Head(dim, **options)` and called as `head(support, query, mask)`. `support` holds one row
a class if the model averages the shots before the adaptation, else one a shot; `mask` marks the rows that
count when shots differ by class. A head has the attribute `similarity`, by which the contrastive term of the
training compares. One with a `temperature` keeps it under that name.

The class attribute `about` (`fewset.models.method_info`) has a one-line summary, the paper, and what the
head needs: `average="post"` if it looks at single shots, for instance. A head with `equivariant = False`
depends on the order of the classes. A head on maps (`takes="maps"` in `about`) is given maps (H, W, D) in
place of rows (D), follows no adapter, and needs no `similarity`.
"""

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor, nn

from fewset.core.errors import UserError
from fewset.core.registry import Registered, Registry
from fewset.models.similarity import Similarity

# What a head is called with, and what it returns; the letters are those of `fewset.tasks.episode`.
Shots = Float[Tensor, "T N K D"]
Queries = Float[Tensor, "T M D"]
ShotMaps = Float[Tensor, "T N K H W D"]
QueryMaps = Float[Tensor, "T M H W D"]
Mask = Bool[Tensor, "T N K"] | None
Logits = Float[Tensor, "T M N"]

HEADS: Registry[type[nn.Module]] = Registry("head", __name__)


def register_head(name: str) -> Callable[[Registered], Registered]:
    """Class decorator: register a classification head by name.

    The class is built with the embedding size, `dim`, and its options, which become the keys of
    `[model.head_options]` in a recipe. It is called with the adapted support (T, N, K, D), the queries
    (T, M, D) and a mask of the shots that count (T, N, K) or None, and returns logits (T, M, N).

    Args:
        name: The name in recipes, which must be free.

    Returns:
        The decorator, which returns the class unchanged.

    Raises:
        ValueError: The name is taken.

    Example:
        >>> import fewset
        >>> from fewset.tasks.episode import prototypes
        >>> from torch import nn
        >>> @fewset.register_head("dot-product")
        ... class DotProduct(nn.Module):
        ...     def __init__(self, dim, temperature=1.0):
        ...         super().__init__()
        ...         self.similarity = lambda query, rows: query @ rows.transpose(1, 2)
        ...         self.temperature = temperature
        ...
        ...     def forward(self, support, query, mask=None):
        ...         return self.similarity(query, prototypes(support, mask)) / self.temperature
    """
    return HEADS.register(name)


def above_zero(**options: float) -> None:
    """Raise for an option of a head that is not above 0."""
    for name, value in options.items():
        if not value > 0:
            raise UserError(f"{name} is {value}, expected a number above 0")


def at_least(least: int, **options: float) -> None:
    """Raise for an option of a head that is below `least`."""
    for name, value in options.items():
        if not value >= least:
            raise UserError(f"{name} is {value}, expected {least} or more")


class SimilarityHead(nn.Module):
    """The base of heads that compare by a similarity and divide by a temperature."""

    def __init__(self, dim: int, similarity: Similarity, temperature: float) -> None:
        super().__init__()
        above_zero(temperature=temperature)
        self.dim, self.similarity, self.temperature = dim, similarity, temperature
