"""What a method says about itself, in the class attribute `about`: adapters, heads and MAML alike.

`fewset params` lists it, the model refuses by it what cannot be combined, and contract tests hold every
member to it.
"""

import inspect
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class MethodInfo:
    """A method in one line, and what it needs.

    `kind`: whether the prediction for a query depends on the other queries of its task. `takes`: what its
    tasks are made of; maps are what a backbone pools to embeddings. `every_shot`: it looks at single shots,
    so that the model should have `average = "post"`. `trained`: it is of no use before it has learned.
    `iterative`: it takes steps for each task instead of a closed form. `class_means`: a logit is the
    similarity of a query to the mean of one class, divided by the temperature.
    `alone`: why no adapter that changes the embeddings may stand before it; empty where one may. `no_onnx`:
    why it cannot be exported as ONNX; empty where it can.

    >>> MethodInfo("similarity to the class means", "Snell et al., 2017").needs()
    ('embeddings',)
    """

    summary: str = ""
    paper: str = ""
    kind: Literal["inductive", "transductive"] = "inductive"
    takes: Literal["embeddings", "maps", "images"] = "embeddings"
    every_shot: bool = False
    trained: bool = False
    iterative: bool = False
    class_means: bool = False
    alone: str = ""
    no_onnx: str = ""

    def needs(self) -> tuple[str, ...]:
        """What must be there, in words."""
        wanted = {
            self.takes: True,
            'average = "post"': self.every_shot,
            "training": self.trained,
            "no adapter": bool(self.alone),
        }
        return tuple(name for name, needed in wanted.items() if needed)


def method_info(member: object) -> MethodInfo:
    """What a class or an object says about itself; of one that says nothing, what its docstring begins with.

    >>> method_info(dict).kind
    'inductive'
    """
    said = getattr(member, "about", None)
    if isinstance(said, MethodInfo):
        return said
    first_line = (inspect.getdoc(member) or "").partition("\n")[0]
    return MethodInfo(first_line)
