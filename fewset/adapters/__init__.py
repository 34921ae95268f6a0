"""Set-to-set functions. One file each; a new one is one class with `@register_adapter("name")`.

An adapter is built as `Adapter(dim, **options)` and called as `adapter(items, context)`:

* `items` (B, S, D): the sets to adapt, `B` of them at once, that never influence each other;
* `context` (B, C, D) or None: unlabelled items that inform the adaptation but are not adapted
  (the queries, in the transductive setting);
* the result (B, S, D): each item adapted to its set.

An adapter with the class attribute `uses_labels = True` is also given `labels` (B, S), the class of each
item within its set. One with `equivariant = False` says that it depends on the order of the set.
"""

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Protocol, TypeVar

from jaxtyping import Float
from torch import Tensor, nn

from fewset.errors import UserError


class SetToSet(Protocol):
    """What the model asks of an adapter."""

    def __call__(
        self, items: Float[Tensor, "B S D"], context: Float[Tensor, "B C D"] | None = None, **labels: Any
    ) -> Float[Tensor, "B S D"]: ...


ADAPTERS: dict[str, type[nn.Module]] = {}

_Adapter = TypeVar("_Adapter", bound=type[nn.Module])


def register_adapter(name: str) -> Callable[[_Adapter], _Adapter]:
    """Class decorator: make an adapter known to recipes and to the command line under `name`."""

    def register(adapter: _Adapter) -> _Adapter:
        taken = ADAPTERS.get(name)
        if taken is not None and (taken.__module__, taken.__qualname__) != (
            adapter.__module__,
            adapter.__qualname__,
        ):
            raise UserError(
                f"the adapter name {name!r} is taken by {taken.__qualname__}; choose another name"
            )
        ADAPTERS[name] = adapter
        return adapter

    return register


def count_parameters(module: nn.Module) -> int:
    """How many numbers a module learns."""
    return sum(parameter.numel() for parameter in module.parameters())


for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
