"""What a recipe holds, as frozen dataclasses, and the checks across its tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from fewset.core.errors import UserError
from fewset.core.names import plain_name, shortened
from fewset.core.parsing import plain
from fewset.core.randomness import check_seed
from fewset.models.backbones import BACKBONES, Takes, taken_by
from fewset.models.maml import MamlConfig
from fewset.models.model import Average
from fewset.tasks.spec import TaskSpec
from fewset.training.episodic import TrainConfig
from fewset.training.pretrain import PretrainConfig

Options = dict[str, Any]
_MOST = 10**8
"""No whole number of a recipe is larger, but for the seeds: what it asks for would never be done."""


@dataclass(frozen=True)
class DataConfig:
    """What the run is trained and scored on.

    The items that `hold_out` leaves out are drawn with the recipe's seed. The generalised setting takes its
    queries of the seen classes from them.
    """

    set: str = "strokes"  # an imported image set; with the backbone "features" a table of features
    domain: str | None = None  # one domain of the set; all when absent
    hold_out: float = 0.0  # the share of each train class that is not trained on

    def __post_init__(self) -> None:
        if not 0 <= self.hold_out < 1:
            raise UserError(f"data.hold_out is {self.hold_out}, expected a share from 0 to less than 1")

    @property
    def name(self) -> str:
        """What the set is called, also where it is given by its path."""
        return Path(self.set).name


@dataclass(frozen=True)
class ModelConfig:
    """The parts of the model by name, each with its options: the keyword arguments of its class."""

    backbone: str = "conv4"  # what embeds the images
    backbone_options: Options = field(default_factory=dict)  # of the backbone
    feature_transform: tuple[str, ...] | None = None  # of each embedding first: power, l2, centre
    adapter: str = "identity"  # the set-to-set function
    adapter_options: Options = field(default_factory=dict)  # of the adapter
    head: str = "prototype"  # what turns adapted prototypes and queries into predictions
    head_options: Options = field(default_factory=dict)  # of the head
    average: Average = "pre"  # shots become one before ("pre") or after ("post") the adaptation
    transductive: bool = False  # the queries of a task inform its adaptation
    test_time_flip: bool = False  # outside training, embed the mean of each image and its mirror image
    scales: tuple[float, ...] = ()  # shares of the side that are looked at; empty: the middle pixels
    gate: bool = False  # outside training, blend adapted and unadapted items as validation chooses
    sets_of_one: bool = False  # a control: the adapter is given each item by itself
    maml: MamlConfig | None = None  # replaces adapter and head

    renamed: ClassVar = {"mirror": "test_time_flip"}
    later: ClassVar = ("gate", "scales", "sets_of_one")

    @property
    def takes(self) -> Takes:
        """What the model's data are: images, or rows of a table of features."""
        return taken_by(BACKBONES[self.backbone])


@dataclass(frozen=True)
class EvaluateConfig:
    """The tasks that a finished run is scored on."""

    split: str = "test"  # train, val or test
    way: int = 5  # classes in a task
    shot: int = 1  # labelled items a class
    query: int = 15  # queries a class
    tasks: int = 10_000  # how many tasks
    seed: int = 0  # of the tasks
    related: int = 0  # classes of a task are one and others of its N nearest; 0: any classes

    later: ClassVar = ("related",)

    def __post_init__(self) -> None:
        _ = self.spec  # refuses what cannot be, now and not after the training

    @property
    def spec(self) -> TaskSpec:
        return TaskSpec(self.way, self.shot, self.query, self.tasks, self.seed, self.related)


@dataclass(frozen=True)
class Card:
    """What there is to know before a recipe is run; it changes nothing in the run."""

    summary: str = ""  # what the recipe is
    data: str = ""  # the command that imports it
    cost: str = ""  # time, and on what machine
    expected: str = ""  # the figure, and whose it is
    command: str = ""  # `fewset train NAME` or `fewset pretrain NAME` when empty


@dataclass(frozen=True)
class Recipe:
    """One run. It has either a `[pretrain]` table, for `fewset pretrain`, or a `[train]` table."""

    name: str  # of the run directory; by default that of the recipe
    method: str = ""  # what tables call it; the adapter's name when empty
    seed: int = 0  # of weights, tasks and augmentation
    card: Card | None = field(default=None, compare=False)  # another card is not another recipe
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    pretrain: PretrainConfig | None = None
    train: TrainConfig | None = None
    evaluate: EvaluateConfig = field(default_factory=EvaluateConfig)

    def __post_init__(self) -> None:
        plain_name(self.name, "the recipe")
        check_seed(self.seed)
        for key, number in _whole_numbers(plain(self)):
            if not key.endswith("seed") and abs(number) > _MOST:
                raise UserError(f"{key} is {shortened(str(number))}, expected at most {_MOST:,}")
        if (self.pretrain is None) == (self.train is None):
            raise UserError(f"recipe {self.name!r} must have either a [pretrain] or a [train] table")
        if self.model.maml is not None:
            if self.train is None:
                raise UserError(f"recipe {self.name!r} has a [model.maml] table, so it needs a [train] table")
            _refuse(self, _NOT_OF_MAML, "MAML")
        if self.model.takes == "features":
            if self.train is None:
                raise UserError(
                    f"recipe {self.name!r} pre-trains on features, but there are no images to learn them "
                    "from; use a [train] table and `fewset train`"
                )
            _refuse(self, _NOT_OF_FEATURES, "a table of features")
        if self.pretrain is not None:
            _refuse(self, _NOT_OF_PRETRAINING, "pre-training, which trains the backbone alone,")
        if self.pretrain is not None and "centre" in (self.model.feature_transform or ()):
            raise UserError(
                f"recipe {self.name!r} pre-trains with 'centre' in model.feature_transform, but the mean is "
                "taken of a backbone that has learned; leave it out here, and set it for `fewset train`"
            )
        if not self.method:
            object.__setattr__(self, "method", "maml" if self.model.maml else self.model.adapter)

    @property
    def kind(self) -> Literal["pretrain", "train"]:
        return "train" if self.pretrain is None else "pretrain"

    @property
    def init(self) -> str:
        """Where the weights start from: a run, a path or a released model; empty for random ones."""
        stage = self.pretrain or self.train
        return stage.init if stage else ""


def _whole_numbers(value: Any, where: str = "") -> Iterator[tuple[str, int]]:
    """All of them in a table of plain values, each with its key."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _whole_numbers(item, f"{where}.{key}" if where else key)
    elif isinstance(value, list):
        for item in value:
            yield from _whole_numbers(item, where)
    elif isinstance(value, int):
        yield where, value


_FROZEN = ("freeze_backbone", "frozen_blocks", "freeze_batchnorm")
_NOT_OF_MAML = {
    "model": (
        "feature_transform",
        "adapter",
        "adapter_options",
        "head",
        "head_options",
        "average",
        "test_time_flip",
        "scales",
        "gate",
        "sets_of_one",
    ),
    "train": ("rotation_classes", "balance", "auxiliary", "joint", *_FROZEN, "precision"),
}
_NOT_OF_PRETRAINING = {
    "model": (
        "adapter",
        "adapter_options",
        "head",
        "head_options",
        "average",
        "transductive",
        "gate",
        "sets_of_one",
    ),
}
_NOT_OF_FEATURES = {
    "data": ("domain", "hold_out"),
    "model": ("maml", "test_time_flip", "scales"),
    "train": ("init", "augment", "rotation_classes", "related", "joint", *_FROZEN, "precision"),
    "evaluate": ("split", "way", "query", "related"),
}


def _refuse(recipe: Recipe, meaningless: Mapping[str, Sequence[str]], what: str) -> None:
    """Refuse keys that have no meaning for `what`, rather than leave them out silently."""
    tables = {name: getattr(recipe, name) for name in meaningless}
    problems = [
        f"{name}.{key}"
        for name, table in tables.items()
        for key in meaningless[name]
        if getattr(table, key) != getattr(type(table)(), key)
    ]
    if problems:
        raise UserError(
            f"recipe {recipe.name!r} sets {', '.join(problems)}: {what} has no such thing; remove it"
        )
