"""Classification heads: adapted support and queries in, logits out. No state of a task is kept.

A head is built as `Head(dim, **options)` and called as `head(support, query, mask)`. `support` holds one
row a class where the model averages before the adaptation, and one a shot where it averages after it
(`mask` marks the rows that count when shots differ by class). Every head has the attribute `similarity`,
with which the contrastive term of the training compares; one that is built with a `temperature` keeps it
under that name.

The class attribute `about` says in a line what the head is, whose it is and what it needs
(`fewset.models.method_info`): heads that look at single shots want `average="post"`, for instance. One with
`equivariant = False` says that it depends on the order of the classes.

A head on maps says so in `about`: `takes="maps"`. It is given maps (H, W, D) in the place of rows (D),
support (T, N, K, H, W, D) and queries (T, M, H, W, D), follows no adapter, and needs no `similarity`.
"""

from collections.abc import Callable

from torch import nn

from fewset.core.errors import UserError
from fewset.core.registry import Registered, Registry
from fewset.models.similarity import Similarity

MAPS_ALONE = "adapters adapt embeddings, and it takes maps"
"""What `about.alone` of a head on maps says."""

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
    """What heads have in common that compare by a similarity and divide by a temperature."""

    def __init__(self, dim: int, similarity: Similarity, temperature: float) -> None:
        super().__init__()
        above_zero(temperature=temperature)
        self.dim, self.similarity, self.temperature = dim, similarity, temperature
