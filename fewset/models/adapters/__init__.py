"""Set-to-set functions. One file each; a new one is one class with `@register_adapter("name")`.

An adapter is built as `Adapter(dim, **options)` and called as `adapter(items, context)`:

* `items` (B, S, D): the sets to adapt, `B` of them at once, that never influence each other;
* `context` (B, C, D) or None: unlabelled items that inform the adaptation but are not adapted
  (the queries, in the transductive setting);
* the result (B, S, D): each item adapted to its set.

An adapter with the class attribute `uses_labels = True` is also given `labels` (B, S), the class of each
item within its set. One with `equivariant = False` says that it depends on the order of the set, and one with
`adapts = False` that it leaves the items as they are. One with a method `adapt_queries(items, queries)`
changes the queries (B, M, D) of a task, too, as its set of items says, but each query by itself. One with a
method `fit(features, labels)` is given the embeddings and classes of the train split before its training.

An adapter may take the options `residual` (what it makes is added to the items), `zero_start` (with
`residual`, where it has that option, the adapter is the identity before its first training step) and `norm`
(a LayerNorm of the result comes last).
"""

from collections.abc import Callable
from typing import Any, Protocol

from jaxtyping import Float
from torch import Tensor, nn

from fewset.core.registry import Registered, Registry


class SetToSet(Protocol):
    """What the model asks of an adapter."""

    def __call__(
        self, items: Float[Tensor, "B S D"], context: Float[Tensor, "B C D"] | None = None, **labels: Any
    ) -> Float[Tensor, "B S D"]: ...


ADAPTERS: Registry[type[nn.Module]] = Registry("adapter", __name__)


def register_adapter(name: str) -> Callable[[Registered], Registered]:
    """Class decorator: register a set-to-set function by name.

    The class is built with the embedding size, `dim`, and its options, which become the keys of
    `[model.adapter_options]` in a recipe. It is called with the sets to adapt (B, S, D) and their context
    (B, C, D) or None, and returns the adapted sets (B, S, D).

    Args:
        name: The name in recipes, which must be free.

    Returns:
        The decorator, which returns the class unchanged.

    Raises:
        ValueError: The name is taken.

    Example:
        >>> import fewset
        >>> from torch import nn
        >>> @fewset.register_adapter("centre")
        ... class Centre(nn.Module):
        ...     def __init__(self, dim, amount=1.0):
        ...         super().__init__()
        ...         self.amount = amount
        ...
        ...     def forward(self, items, context=None):
        ...         return items - self.amount * items.mean(dim=1, keepdim=True)
    """
    return ADAPTERS.register(name)


def start_from_zero(layer: nn.Module) -> None:
    """Set the weights of a layer to zero: what it makes is nothing at first, and it still learns."""
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
