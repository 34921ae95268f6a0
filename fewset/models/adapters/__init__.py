"""Set-to-set functions. One file each; a new one is one class with `@register_adapter("name")`.

An adapter is built as `Adapter(dim, **options)` and called as `adapter(items, context)`:

* `items` (B, S, D): the sets to adapt, `B` of them at once, that never influence each other;
* `context` (B, C, D) or None: unlabelled items that inform the adaptation but are not adapted
  (the queries, in the transductive setting);
* the result (B, S, D): each item adapted to its set.

Class attributes say more. With `uses_labels = True` the adapter is also given `labels` (B, S), the class of
each item in its set. With `equivariant = False` it depends on the order of the set; with `adapts = False` it
changes nothing. A method `adapt_queries(items, queries)` changes the queries (B, M, D) of a task by its set,
each by itself. A method `fit(features, labels)` is given the embeddings and classes of the train split before
the training.

Common options are `residual` (the output is added to the items), `zero_start` (with `residual`, if there is
that option, the adapter starts as the identity) and `norm` (a LayerNorm of the result comes last).
"""

from collections.abc import Callable
from typing import Any, Protocol

from jaxtyping import Float
from torch import Tensor, nn

from fewset.core.registry import Registered, Registry

Sets = Float[Tensor, "B S D"]
Context = Float[Tensor, "B C D"] | None
Queries = Float[Tensor, "B M D"]


class SetToSet(Protocol):
    """How the model calls an adapter."""

    def __call__(self, items: Sets, context: Context = None, **labels: Any) -> Sets: ...


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
    """Set the weights of a layer to zero, so that its output starts as 0; it still learns."""
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
