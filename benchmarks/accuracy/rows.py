"""Which methods are compared: one row a head on embeddings, from the registry and from `rows.toml`."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from fewset.core.errors import refuse_unknown
from fewset.core.parsing import parse
from fewset.experiments.config import ModelConfig, Options
from fewset.models.adapters import ADAPTERS
from fewset.models.heads import HEADS
from fewset.models.method_info import MethodInfo, method_info

_TRANSFORM = "transform"
_STEPS = {"none": (), "l2n": ("l2",), "cl2n": ("centre", "l2")}  # as in SimpleShot (Wang et al., 2019)
_TEMPERATURE = "temperature"


@dataclass(frozen=True)
class MethodRow:
    """A method as a row of the table.

    `temperature` is that of the head in units of the embeddings' spread, where it is given. `choose` has the
    options of the head, its `temperature` and the `transform` of the features (none, l2n or cl2n) that are
    chosen on tasks of the validation classes. `learn` trains a head that works without training as well.
    `then` is a head that takes the place of `head` after the training: FEAT learns beside prototypes, and
    TIM classifies. `sets_of_one` is the control of an adapter, trained and scored without its set.
    """

    name: str
    head: str = "prototype"
    head_options: Options = field(default_factory=dict)
    adapter: str = "identity"
    adapter_options: Options = field(default_factory=dict)
    temperature: float | None = None
    choose: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    learn: bool = False
    then: str = ""
    sets_of_one: bool = False

    @property
    def about(self) -> MethodInfo:
        """Of the head that classifies."""
        return method_info(HEADS[self.then or self.head])

    @property
    def trained(self) -> bool:
        parts = (method_info(HEADS[self.head]), method_info(ADAPTERS[self.adapter]))
        return self.learn or any(part.trained for part in parts)

    def choices(self) -> list[Options]:
        """Every combination of the options to choose from; one that is empty where there are none."""
        return [dict(zip(self.choose, values, strict=True)) for values in product(*self.choose.values())]

    def model(self, dim: int, spread: float, chosen: Options, *, training: bool = False) -> ModelConfig:
        """The model on rows of `dim` dimensions whose mean squared distance from their mean is `spread`."""
        options = {**self.head_options, **{key: chosen[key] for key in chosen if key != _TRANSFORM}}
        temperature = chosen.get(_TEMPERATURE, self.temperature)
        transform = chosen.get(_TRANSFORM, "none")
        if temperature is not None:
            options[_TEMPERATURE] = temperature * (spread if transform == "none" else 1.0)
        head = self.head
        if self.then and not training:
            head, options = self.then, {}
        alone = method_info(ADAPTERS[self.adapter]).trained  # an adapter is given one row a class, as in FEAT
        return ModelConfig(
            backbone="features",
            backbone_options={"dim": dim},
            feature_transform=_STEPS[transform],
            adapter=self.adapter,
            adapter_options=self.adapter_options,
            head=head,
            head_options=options,
            average="post" if method_info(HEADS[head]).every_shot and not alone else "pre",
            sets_of_one=self.sets_of_one,
        )


def method_rows(without: Sequence[str] = ()) -> list[MethodRow]:
    """Those of `rows.toml`, and after them every head on embeddings that it does not name.

    `without` names rows that are left out.
    """
    text = (Path(__file__).parent / "rows.toml").read_text(encoding="utf-8")
    given = [parse(MethodRow, row, what="file rows.toml") for row in tomllib.loads(text)["rows"]]
    named = {row.head for row in given}
    others = [
        MethodRow(method_info(head).paper.partition(",")[0] or name, name)
        for name, head in HEADS.items()
        if name not in named and method_info(head).takes == "embeddings"
    ]
    rows = [*given, *others]
    for name in without:
        refuse_unknown("method", name, [row.name for row in rows])
    return [row for row in rows if row.name not in without]
