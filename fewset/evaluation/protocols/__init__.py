"""How a model is scored. One file a protocol of the paper; a new one is one file, too.

A protocol is a frozen dataclass that derives from `Protocol` and is registered by name
(`@register_protocol("name")`). Its fields are its options, made with `option(default, help)`: the command
line derives `--setting name --its-option` and its help from them. What `evaluate` returns is in the result
file, and the report reads nothing else.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, cast

import numpy as np
from jaxtyping import Shaped
from torch import Tensor

from fewset.core.errors import UserError
from fewset.core.registry import Registered, Registry
from fewset.data.features.table import FeatureTable
from fewset.data.images.store import ImageSet
from fewset.evaluation.class_means import embed_table
from fewset.evaluation.embedding import embed_images
from fewset.evaluation.scoring import check_finite_rows
from fewset.models.backbones import Takes
from fewset.models.model import FewShotModel, embedding_model
from fewset.models.task_model import TaskModel
from fewset.tasks.items import Items
from fewset.tasks.scores import Score
from fewset.tasks.spec import TaskSpec


@dataclass(frozen=True, eq=False)
class Job:
    """A model, the data to score it on, and how it was trained."""

    model: TaskModel
    data: ImageSet | FeatureTable
    """A `FeatureTable` for models that take features."""
    split: str
    domain: str | None
    spec: TaskSpec
    hold_out: float = 0.0
    """The share of the train split that the model was not trained on, drawn with `seed`."""
    seed: int = 0
    trained_here: bool = True
    """Whether the data are those that the model was trained on."""
    skip_small_classes: bool = False
    given: frozenset[str] = frozenset()
    """Which of data, split, domain, way, shot, query, tasks and seed were given; the rest is the recipe's."""

    @property
    def embedding_model(self) -> FewShotModel:
        """The model of a protocol that needs embeddings."""
        return embedding_model(self.model, "this setting")

    @property
    def images(self) -> ImageSet:
        """The image set of a job on images."""
        return cast(ImageSet, self.data)

    @property
    def table(self) -> FeatureTable:
        """The table of a job on features."""
        return cast(FeatureTable, self.data)

    def items(self, split: str | None = None) -> Items:
        """The items of a split, from which the job's tasks can be drawn."""
        items = self.data.select(split or self.split, self.domain)
        return items.drawable(self.spec, self.skip_small_classes)

    def embed(self, items: Items) -> Shaped[Tensor, "items *places D"]:
        """The embeddings of items of the image set or table, all of them finite."""
        if isinstance(self.data, FeatureTable):
            features = embed_table(self.embedding_model, self.data, items.rows)
        else:
            features = embed_images(self.model, self.data.images, items.rows, title="embedding")
        check_finite_rows(features)
        return features


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a protocol: the headline score, and more."""

    score: Score
    scores: Mapping[str, Score] = field(default_factory=dict)
    before: Score | None = None
    """The score without adaptation, with `examples` of tasks to look at."""
    examples: Mapping[str, np.ndarray] | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    """For programs: plain values, as JSON has them."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """For people: what `fewset eval` prints and the report shows beside the scores."""
    replaced: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the tasks that differ from the job's: domain, split, way or query."""
    task_key: str = ""
    """What else distinguishes these tasks; only results with the same key are paired."""
    left_out: tuple[str, ...] = ()
    """Names of the classes that have too few items."""


class Protocol(ABC):
    """A way to score a model: `evaluate`, and whatever differs from these defaults."""

    takes: ClassVar[Takes | None] = None
    """What the models take that it scores; None: images or features."""
    needs_embeddings: ClassVar[bool] = False
    default_for: ClassVar[Takes | None] = None
    fixed: ClassVar[Mapping[str, str]] = {}
    """The settings (split, domain, way, query, …) that the protocol fixes, each with the reason."""

    def prepare(self, job: Job) -> Any:
        """The items for `evaluate`; raises if the job cannot be scored, before anything is embedded."""
        return job.items()

    @abstractmethod
    def evaluate(self, job: Job, items: Any) -> Outcome:
        """Score the tasks of a job; `items` are what `prepare` returned."""

    @property
    def label(self) -> str:
        """The options that are not at their default, for file names and tables."""
        words: list[str] = []
        for item in fields(self):  # type: ignore[arg-type]
            value = getattr(self, item.name)
            if value != item.default:
                values = value if isinstance(value, tuple) else (value,)
                words += [item.name.replace("_", "-"), *map(str, values)]
        return "-".join(words)


PROTOCOLS: Registry[type[Protocol]] = Registry("setting", __name__)


def register_protocol(name: str) -> Callable[[Registered], Registered]:
    """Register a protocol for the command line and for recipes.

    Args:
        name: The name for `--setting`, which must be free.

    Returns:
        The class decorator; it returns the class unchanged.

    Raises:
        ValueError: The name is taken.

    Example:
        >>> import fewset
        >>> from dataclasses import dataclass
        >>> from fewset.evaluation.protocols import Outcome, Protocol
        >>> @fewset.register_protocol("one-class")
        ... @dataclass(frozen=True)
        ... class OneClass(Protocol):
        ...     def prepare(self, job): ...
        ...     def evaluate(self, job, items): ...
    """
    return PROTOCOLS.register(name)


def option(default: Any, help: str) -> Any:
    """A field of a protocol that is one of its options."""
    return field(default=default, metadata={"help": help})


def default_protocol(takes: str) -> str:
    """The protocol of models that take images, or of those that take features."""
    return next(name for name, kind in PROTOCOLS.items() if kind.default_for == takes)


def prepare(protocol: Protocol, name: str, job: Job) -> Any:
    """The items for the protocol's `evaluate`; raises if the job does not fit the protocol."""
    can = job.model.capabilities
    if protocol.takes not in (None, can.takes):
        raise UserError(
            f"the setting {name} takes {protocol.takes}, but this run is on {can.takes}; take --setting "
            f"{default_protocol(can.takes)}, or a run on a table of features (`fewset embed` makes one)"
        )
    if protocol.needs_embeddings:
        embedding_model(job.model, f"the setting {name}")
    for key, why in protocol.fixed.items():
        if key in job.given:
            raise UserError(f"{why}; leave out --{key}")
    return protocol.prepare(job)
