"""Recipes as frozen dataclasses, and the checks across their tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from fewset.core.errors import UserError
from fewset.core.names import plain_name, shortened
from fewset.core.parsing import flattened, plain
from fewset.core.randomness import check_seed
from fewset.encoders.torch_networks.trainable import PREFIX
from fewset.models.backbones import BACKBONES, Takes, taken_by
from fewset.models.maml import MamlConfig
from fewset.models.model import Average
from fewset.tasks.spec import TaskSpec
from fewset.training.episodic import TrainConfig
from fewset.training.pretrain import PretrainConfig

Options = dict[str, Any]
_MOST = 10**8  # of any whole number in a recipe but the seed


@dataclass(frozen=True)
class DataConfig:
    """The data that a run is trained and scored on.

    The items that `hold_out` leaves out are drawn with the recipe's seed. They are the queries of the seen
    classes in the generalised setting.
    """

    set: str = "strokes"  # an imported image set; with the backbone "features" a table of features
    domain: str | None = None  # one domain of the set; all when absent
    hold_out: float = 0.0  # the share of each train class that is not trained on

    def __post_init__(self) -> None:
        if not 0 <= self.hold_out < 1:
            raise UserError(f"data.hold_out is {self.hold_out}, expected a share from 0 to less than 1")

    @property
    def name(self) -> str:
        """The name of the set, also if it is given by its path."""
        return Path(self.set).name


@dataclass(frozen=True)
class ModelConfig:
    """The parts of the model by name, each with its options: the keyword arguments of its class."""

    backbone: str = "conv4"  # embeds the images; hf:DIRECTORY is a model of transformers
    backbone_options: Options = field(default_factory=dict)  # of the backbone
    feature_transform: tuple[str, ...] | None = None  # of each embedding first: power, l2, centre
    adapter: str = "identity"  # the set-to-set function
    adapter_options: Options = field(default_factory=dict)  # of the adapter
    head: str = "prototype"  # turns adapted prototypes and queries into predictions
    head_options: Options = field(default_factory=dict)  # of the head
    average: Average = "pre"  # shots become one before ("pre") or after ("post") the adaptation
    transductive: bool = False  # the queries of a task inform its adaptation
    test_time_flip: bool = False  # outside training, embed the mean of each image and its mirror image
    gate: bool = False  # outside training, blend adapted and unadapted items as validation chooses
    sets_of_one: bool = False  # a control: the adapter is given each item by itself
    maml: MamlConfig | None = None  # replaces adapter and head

    later: ClassVar = ("gate", "sets_of_one")

    @property
    def takes(self) -> Takes:
        """The kind of the model's data: images, or rows of a table of features."""
        return "images" if self.backbone.startswith(PREFIX) else taken_by(BACKBONES[self.backbone])


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
        _ = self.spec  # rejects impossible values before the training

    @property
    def spec(self) -> TaskSpec:
        return TaskSpec(self.way, self.shot, self.query, self.tasks, self.seed, self.related)


@dataclass(frozen=True)
class Card:
    """Facts for people before they run a recipe; they change nothing in the run."""

    summary: str = ""  # a few words, for lists of recipes
    data: str = ""  # the command that imports it
    cost: str = ""  # the time on a machine
    expected: str = ""  # the expected figure and its source
    command: str = ""  # `fewset train NAME` or `fewset pretrain NAME` when empty


_FROZEN = ("freeze_backbone", "frozen_blocks", "freeze_batchnorm")
_PARTS = ("adapter", "adapter_options", "head", "head_options", "average", "gate", "sets_of_one")
_NOT_OF_MAML = {
    "model": ("feature_transform", "test_time_flip", *_PARTS),
    "train": ("rotation_classes", "balance", "auxiliary", "joint", *_FROZEN, "precision"),
}
_NOT_OF_PRETRAINING = {"model": ("transductive", *_PARTS)}
_NOT_OF_FEATURES = {
    "data": ("domain", "hold_out"),
    "model": ("maml", "test_time_flip"),
    "train": ("init", "augment", "rotation_classes", "related", "joint", *_FROZEN, "precision"),
    "evaluate": ("split", "way", "query", "related"),
}


@dataclass(frozen=True)
class Recipe:
    """One run. It has either a `[pretrain]` table, for `fewset pretrain`, or a `[train]` table."""

    name: str  # of the run directory; by default that of the recipe
    method: str = ""  # its name in tables; the adapter's name when empty
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
        for key, value in flattened(plain(self)).items():
            if isinstance(value, int) and key != "evaluate.seed" and key != "seed" and abs(value) > _MOST:
                raise UserError(f"{key} is {shortened(str(value))}, expected at most {_MOST:,}")
        if (self.pretrain is None) == (self.train is None):
            raise UserError(f"recipe {self.name!r} must have either a [pretrain] or a [train] table")
        if self.pretrain is not None:
            if self.model.maml is not None or self.model.takes == "features":
                raise UserError(
                    f"recipe {self.name!r} pre-trains, but MAML and tables of features need a [train] table; "
                    "use `fewset train`"
                )
            self._reject(_NOT_OF_PRETRAINING, "pre-training")
            if "centre" in (self.model.feature_transform or ()):
                raise UserError(
                    f"recipe {self.name!r} pre-trains with 'centre' in model.feature_transform, but 'centre' "
                    "needs a trained backbone; leave it out here, and set it for `fewset train`"
                )
        if self.model.maml is not None:
            self._reject(_NOT_OF_MAML, "MAML")
        if self.model.takes == "features":
            self._reject(_NOT_OF_FEATURES, "a table of features")
        if not self.method:
            object.__setattr__(self, "method", "maml" if self.model.maml else self.model.adapter)

    @property
    def kind(self) -> Literal["pretrain", "train"]:
        return "train" if self.pretrain is None else "pretrain"

    @property
    def init(self) -> str:
        """The run, path or released model that the weights start from; empty for random weights."""
        stage = self.pretrain or self.train
        return stage.init if stage else ""

    def _reject(self, meaningless: Mapping[str, Sequence[str]], what: str) -> None:
        """Reject keys that have no meaning here, rather than ignore them silently."""
        problems = [
            f"{name}.{key}"
            for name, keys in meaningless.items()
            for key in keys
            if getattr(table := getattr(self, name), key) != getattr(type(table)(), key)
        ]
        if problems:
            raise UserError(
                f"recipe {self.name!r} sets {', '.join(problems)}, which {what} does not have; remove it"
            )
