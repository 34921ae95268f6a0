"""Recipes: a TOML file that fully describes a run, as frozen dataclasses, and the model it names.

An unknown key or a value of the wrong type is an error that lists what is known. Here (and in the command
line) names become objects; everything below takes the objects themselves.
"""

import inspect
import tomllib
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import tomli_w
import torch
from torch import nn

from fewset.adapters import ADAPTERS
from fewset.backbones import BACKBONES
from fewset.data.features import FeatureTable, list_features, open_features
from fewset.data.store import GENERATED, ImageSet, list_sets, open_set
from fewset.errors import UserError, known
from fewset.heads import HEADS
from fewset.maml import MamlConfig, MamlModel
from fewset.model import Average, FewShotModel
from fewset.sampling import TaskSpec, mix
from fewset.shipped import shipped
from fewset.training.episodic import TrainConfig
from fewset.training.features import FeatureInput
from fewset.training.pretrain import PretrainConfig

FEATURES = "features"
"""The backbone of models on a table of features, where others embed images."""

Options = dict[str, Any]
_Config = TypeVar("_Config")


@dataclass(frozen=True)
class DataConfig:
    """Which imported image set, and which of its domains (all when none is named).

    With the backbone "features" `set` is a table of features. `hold_out` is the share of each train class
    that is not trained on, drawn with the recipe's seed: the generalised setting takes its queries of the
    seen classes from it.
    """

    set: str = "strokes"
    domain: str | None = None
    hold_out: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.hold_out < 1:
            raise UserError(f"data.hold_out is {self.hold_out}, expected a share from 0 to less than 1")


@dataclass(frozen=True)
class ModelConfig:
    """Names of the parts and their options (the keyword arguments of the part's class)."""

    backbone: str = "conv4"
    backbone_options: Options = field(default_factory=dict)
    adapter: str = "identity"
    adapter_options: Options = field(default_factory=dict)
    head: str = "prototype"
    head_options: Options = field(default_factory=dict)
    average: Average = "pre"
    transductive: bool = False
    mirror: bool = False  # embed, outside training, the mean of each image and its mirror image
    maml: MamlConfig | None = None  # replaces adapter and head

    @property
    def on_features(self) -> bool:
        """Whether the model takes rows of a table of features, not images."""
        return self.backbone == FEATURES


@dataclass(frozen=True)
class EvaluateConfig:
    """The tasks that a finished run is scored on."""

    split: str = "test"
    way: int = 5
    shot: int = 1
    query: int = 15
    tasks: int = 10_000
    seed: int = 0

    @property
    def spec(self) -> TaskSpec:
        return TaskSpec(self.way, self.shot, self.query, self.tasks, self.seed)


@dataclass(frozen=True)
class Recipe:
    """One run. It has either a `[pretrain]` table, for `fewset pretrain`, or a `[train]` table."""

    name: str
    method: str = ""  # what tables call it; the adapter's name when empty
    seed: int = 0
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    pretrain: PretrainConfig | None = None
    train: TrainConfig | None = None
    evaluate: EvaluateConfig = field(default_factory=EvaluateConfig)

    def __post_init__(self) -> None:
        if not self.name or Path(self.name).name != self.name:
            raise UserError(
                f"the recipe's name is {self.name!r}, expected a plain name: it names the run directory"
            )
        if (self.pretrain is None) == (self.train is None):
            raise UserError(f"recipe {self.name!r} must have either a [pretrain] or a [train] table")
        if self.model.maml is not None:
            _check_maml(self)
        if self.model.on_features:
            _check_features(self)
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


def _check_maml(recipe: Recipe) -> None:
    """Refuse what has no meaning for MAML, rather than leave it out silently."""
    if recipe.train is None:
        raise UserError(f"recipe {recipe.name!r} has a [model.maml] table, so it needs a [train] table")
    plain = ModelConfig(recipe.model.backbone, recipe.model.backbone_options)
    given = replace(recipe.model, maml=None, transductive=False)
    problems = [f"model.{key}" for key, value in asdict(given).items() if value != getattr(plain, key)]
    problems += [
        f"train.{key}"
        for key in ("turned", "balance", "freeze_backbone", "frozen_blocks", "freeze_batchnorm")
        if getattr(recipe.train, key)
    ]
    problems += ["train.precision"] if recipe.train.precision != "float32" else []
    if problems:
        raise UserError(
            f"recipe {recipe.name!r} sets {', '.join(problems)}: MAML has no such thing; remove it"
        )


def _check_features(recipe: Recipe) -> None:
    """Refuse what has no meaning on a table of features, rather than leave it out silently."""
    if recipe.train is None:
        raise UserError(
            f"recipe {recipe.name!r} pre-trains on features, but there are no images to learn them from; "
            "use a [train] table and `fewset train`"
        )
    plain = EvaluateConfig()
    problems = [f"data.{key}" for key in ("domain", "hold_out") if getattr(recipe.data, key)]
    problems += [f"model.{key}" for key in ("maml", "mirror") if getattr(recipe.model, key)]
    problems += [
        f"train.{key}"
        for key in ("init", "augment", "turned", "freeze_backbone", "frozen_blocks", "freeze_batchnorm")
        if getattr(recipe.train, key)
    ]
    problems += [
        f"evaluate.{key}"
        for key in ("split", "way", "query")
        if getattr(recipe.evaluate, key) != getattr(plain, key)
    ]
    if problems:
        raise UserError(
            f"recipe {recipe.name!r} sets {', '.join(problems)}: a table of features has no such thing; "
            "remove it"
        )


# Reading and writing


def recipes_directory() -> Path:
    """Where the shipped recipes are."""
    return shipped("recipes")


def find_recipe(name: str | Path) -> Path:
    """A recipe file by its path, or a shipped one by its name, such as "strokes/feat"."""
    path = Path(name)
    if path.is_file():
        return path
    directory = recipes_directory()
    if (directory / f"{name}.toml").is_file():
        return directory / f"{name}.toml"
    names = [str(file.relative_to(directory).with_suffix("")) for file in directory.rglob("*.toml")]
    raise known("recipe", str(name), names)


def read_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe in a file, with `key=value` overrides (`train.optimiser.lr=0.001`)."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid TOML: {error}") from None
    for override in overrides:
        _override(table, override)
    return parse_recipe(table)


def parse_recipe(table: Mapping[str, Any]) -> Recipe:
    return parse(Recipe, table, "")


def recipe_text(recipe: Recipe) -> str:
    """The resolved recipe as TOML, every default written out."""
    return tomli_w.dumps(without_none(asdict(recipe)))


def _override(table: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise UserError(f"--set {override!r} is not of the form key=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # a bare word is a string
    *parents, last = key.strip().split(".")
    for parent in parents:
        table = table.setdefault(parent, {})
        if not isinstance(table, dict):
            raise UserError(f"--set {override!r}: {parent!r} is a value, not a table")
    table[last] = value


def parse(kind: type[_Config], table: Mapping[str, Any], where: str) -> _Config:
    """A dataclass from a TOML table, every key known and every value of the right type."""
    hints = get_type_hints(kind)
    for key in table:
        if key not in hints:
            raise known("recipe key", where + key, [where + name for name in hints])
    for item in fields(kind):  # type: ignore[arg-type]
        if item.name not in table and item.default is MISSING and item.default_factory is MISSING:
            raise UserError(f"the recipe lacks {where + item.name!r}")
    return kind(**{key: _value(hints[key], value, where + key) for key, value in table.items()})


def _value(kind: Any, value: Any, where: str) -> Any:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        (kind,) = (option for option in get_args(kind) if option is not type(None))
        return _value(kind, value, where)
    if origin is Literal:
        if value not in get_args(kind):
            raise known(f"value of {where}", value, get_args(kind))
        return value
    if is_dataclass(kind) and isinstance(value, dict):
        return parse(kind, value, where + ".")  # type: ignore[arg-type]
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_value(get_args(kind)[0], item, where) for item in value)
    if origin is dict and isinstance(value, dict):
        return value
    if kind is float and type(value) is int:
        return float(value)
    if isinstance(kind, type) and type(value) is kind:
        return value
    wanted = (
        "a table" if is_dataclass(kind) or origin is dict else "a list" if origin is tuple else kind.__name__
    )
    raise UserError(f"{where} is {value!r} ({type(value).__name__}), expected {wanted}")


def without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, tuple | list):
        return [without_none(item) for item in value]
    return value


# Building


def open_data(config: ModelConfig, name: str) -> ImageSet | FeatureTable:
    """What a model takes: the image set of that name or, for the backbone "features", the table."""
    if config.on_features:
        return _open_table(name)
    if name in list_features() and name not in _image_sets():
        raise UserError(
            f"{name!r} is a table of features, but the backbone {config.backbone!r} takes images; name an "
            "image set, or set model.backbone = 'features'"
        )
    return open_set(name)


def _open_table(name: str) -> FeatureTable:
    if name in _image_sets() and name not in list_features():
        raise UserError(
            f"{name!r} is an image set, but the backbone 'features' takes a table of features; make one with "
            f"`fewset embed RUN --data {name} --out FILE.npz` and `fewset data import features FILE.npz`"
        )
    return open_features(name)


def _image_sets() -> set[str]:
    return {*list_sets(), *GENERATED}


def with_dim(recipe: Recipe) -> Recipe:
    """The recipe with the size of its features: one on a table may leave it out, then it is the table's."""
    options = recipe.model.backbone_options
    if not recipe.model.on_features or "dim" in options:
        return recipe
    options = {**options, "dim": _open_table(recipe.data.set).dim}
    return replace(recipe, model=replace(recipe.model, backbone_options=options))


def build_model(config: ModelConfig, seed: int = 0) -> FewShotModel:
    """The model that a configuration names, with initial weights from the seed."""
    torch.manual_seed(mix(seed, 0, 4))
    if config.on_features and "dim" not in config.backbone_options:
        raise UserError("backbone_options.dim is not given: the size of the features, as the table has it")
    # Not one of BACKBONES: those take images.
    backbones = {**BACKBONES, FEATURES: FeatureInput}
    backbone = _build("backbone", backbones, config.backbone, config.backbone_options)
    if config.maml is not None:
        model: FewShotModel = MamlModel(backbone, config.maml, config.transductive)
    else:
        adapter = _build("adapter", ADAPTERS, config.adapter, config.adapter_options, dim=backbone.dim)
        head = _build("head", HEADS, config.head, config.head_options, dim=backbone.dim)
        model = FewShotModel(backbone, adapter, head, config.average, config.transductive, config.mirror)
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _build(
    what: str, registry: Mapping[str, Callable[..., nn.Module]], name: str, options: Options, **given: Any
) -> nn.Module:
    if name not in registry:
        raise known(what, name, registry)
    part = registry[name]
    hints = get_type_hints(part.__init__)
    parameters = [key for key in inspect.signature(part).parameters if key not in given]
    for key in options:
        if key not in parameters:
            raise known(f"option of {what} {name!r}", key, parameters)
    checked = {
        key: _value(hints.get(key, type(value)), value, f"{what}_options.{key}")
        for key, value in options.items()
    }
    return part(**given, **checked)
