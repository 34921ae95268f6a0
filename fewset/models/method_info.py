"""The class attribute `about` of adapters, heads and MAML: what the method is, and what it needs.

`fewset params` lists it, models reject parts that do not fit by it, and contract tests check it.
"""

import inspect
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class MethodInfo:
    """A method in one line, and what it needs.

    `kind`: whether the prediction for a query depends on the other queries of its task. `takes`: what its
    tasks are made of; maps are what a backbone pools to embeddings, and no adapter stands before a head that
    takes them. `every_shot`: it looks at single shots, so the model should have `average = "post"`.
    `trained`: it must be trained before use. `class_means`: its logits are the similarities of queries to
    class means, divided by the temperature. `no_onnx`: why it cannot be exported as ONNX; empty if it can.
    """

    summary: str = ""
    paper: str = ""
    kind: Literal["inductive", "transductive"] = "inductive"
    takes: Literal["embeddings", "maps", "images"] = "embeddings"
    every_shot: bool = False
    trained: bool = False
    class_means: bool = False
    no_onnx: str = ""

    def needs(self) -> tuple[str, ...]:
        """What it needs, in words."""
        needed = {
            self.takes: True,
            'average = "post"': self.every_shot,
            "training": self.trained,
            "no adapter": self.takes == "maps",
        }
        return tuple(name for name, is_needed in needed.items() if is_needed)


def method_info(member: object) -> MethodInfo:
    """The attribute `about` of a class or an object, else the first line of its docstring."""
    first_line = (inspect.getdoc(member) or "").partition("\n")[0]
    about: MethodInfo = getattr(member, "about", MethodInfo(first_line))
    return about
