"""What a model can do: the rest of the house asks for that, never for the class of a model or of a part."""

from dataclasses import dataclass
from typing import Literal

Takes = Literal["images", "features"]


@dataclass(frozen=True)
class Capabilities:
    """What a model can do: `model.capabilities`.

    `takes`: what an item of its data is, an image or a row of a table of features. `embeds`: it has
    embeddings of its own, on which prototypes, transduction and the like make sense. `adapts`: its
    set-to-set function changes them. `fitted`: its head wants the features of the train split once.

    >>> Capabilities(takes="images", embeds=True, adapts=False, fitted=False).takes
    'images'
    """

    takes: Takes
    embeds: bool
    adapts: bool
    fitted: bool


def taken_by(backbone: object) -> Takes:
    """What a backbone takes, a class or an object; one that does not say so takes images.

    >>> taken_by(object())
    'images'
    """
    takes: Takes = getattr(backbone, "takes", "images")
    return takes
