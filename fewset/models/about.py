"""What a method says about itself, in the class attribute `about`: adapters, heads and MAML alike.

`fewset params` lists it, the model refuses by it what cannot be combined, and contract tests hold every
member to it.
"""

import inspect
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class About:
    """A method in one line, and what it needs.

    `kind`: whether the prediction for a query depends on the other queries of its task. `takes`: what its
    tasks are made of; maps are what a backbone pools to embeddings. `every_shot`: it looks at single shots,
    so that the model should have `average = "post"`. `trained`: it is of no use before it has learned.
    `iterative`: it takes steps for each task instead of a closed form.
    `alone`: why no adapter that changes the embeddings may stand before it; empty where one may. `no_onnx`:
    why it cannot be exported as ONNX; empty where it can.

    >>> About("similarity to the class means", "Snell et al., 2017").needs()
    ('embeddings',)
    """

    summary: str = ""
    paper: str = ""
    kind: Literal["inductive", "transductive"] = "inductive"
    takes: Literal["embeddings", "maps", "images"] = "embeddings"
    every_shot: bool = False
    trained: bool = False
    iterative: bool = False
    fitted: bool = False
    alone: str = ""
    no_onnx: str = ""

    def needs(self) -> tuple[str, ...]:
        """What must be there, in words."""
        wanted = {
            self.takes: True,
            'average = "post"': self.every_shot,
            "features of the train split": self.fitted,
            "training": self.trained,
            "no adapter": bool(self.alone),
        }
        return tuple(name for name, needed in wanted.items() if needed)


def about_of(member: object) -> About:
    """What a class or an object says about itself; of one that says nothing, what its docstring begins with.

    >>> about_of(dict).kind
    'inductive'
    """
    said = getattr(member, "about", None)
    if isinstance(said, About):
        return said
    first_line = (inspect.getdoc(member) or "").partition("\n")[0]
    return About(first_line, fitted=hasattr(member, "fit"))
