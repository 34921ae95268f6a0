"""All methods there are, as `fewset params` lists them: from the registries, and MAML beside them."""

from typing import NamedTuple

from fewset.models.about import About, about_of
from fewset.models.adapters import ADAPTERS
from fewset.models.heads import HEADS
from fewset.models.maml import MamlModel


class Method(NamedTuple):
    """A part of a model by its name in recipes; `part` is the key that it is the value of."""

    part: str
    name: str
    about: About


def list_methods() -> list[Method]:
    """The adapters, the heads, and the model that has neither."""
    parts = {"model.adapter": ADAPTERS, "model.head": HEADS}
    methods = [
        Method(part, name, about_of(each)) for part, them in parts.items() for name, each in them.items()
    ]
    return [*methods, Method("model", "maml", about_of(MamlModel))]
