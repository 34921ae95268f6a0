"""From names to objects: the model that a configuration describes, and the data that it takes."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, get_type_hints

import torch
from torch import nn

from fewset.core.errors import UserError, refuse_unknown
from fewset.core.parsing import parse_value
from fewset.core.randomness import Stream, mix
from fewset.data.features.table import FeatureTable, list_features, open_features
from fewset.data.images.store import ImageSet, available_sets, open_set
from fewset.encoders.torch_networks.trainable import PREFIX, HuggingFaceBackbone
from fewset.experiments.config import ModelConfig, Options, Recipe
from fewset.models.adapters import ADAPTERS
from fewset.models.backbones import BACKBONES, taken_by
from fewset.models.heads import HEADS
from fewset.models.layers.transform import FeatureTransform
from fewset.models.maml import MamlModel
from fewset.models.model import FewShotModel
from fewset.models.task_model import TaskModel
from fewset.training.seeding import seeded


def open_data(config: ModelConfig, name: str) -> ImageSet | FeatureTable:
    """The data of a model: the image set of that name or, for a model on features, the table."""
    if config.takes == "features":
        if name in available_sets() and name not in list_features():
            raise UserError(
                f"{name!r} is an image set, but the model takes a table of features; make one with "
                f"`fewset embed RUN --data {name} --out FILE.npz` and `fewset data import features FILE.npz`"
            )
        return open_features(name)
    if name in list_features() and name not in available_sets():
        raise UserError(
            f"{name!r} is a table of features, but the backbone {config.backbone!r} takes images; name an "
            "image set, or set model.backbone = 'features'"
        )
    return open_set(name)


def with_dim(recipe: Recipe) -> Recipe:
    """The recipe with the dimension of its table of features, if it has one and leaves it out."""
    options, data = recipe.model.backbone_options, None
    if "dim" not in options and recipe.model.takes == "features":
        data = open_data(recipe.model, recipe.data.set)
    if not isinstance(data, FeatureTable):
        return recipe
    return replace(recipe, model=replace(recipe.model, backbone_options={**options, "dim": data.dim}))


def build_model(config: ModelConfig, seed: int = 0) -> TaskModel:
    """The model that a configuration names, with initial weights from the seed."""
    with seeded(mix(seed, 0, Stream.MODEL_WEIGHTS)):
        return _built(config).to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _built(config: ModelConfig) -> TaskModel:
    if config.backbone.startswith(PREFIX):
        kinds: Mapping[str, Callable[..., nn.Module]] = {config.backbone: HuggingFaceBackbone}
        given = {"directory": config.backbone.removeprefix(PREFIX)}
    else:
        kinds, given = BACKBONES, {}
    backbone = _build("backbone", kinds, config.backbone, config.backbone_options, **given)
    _check_backbone(backbone)
    if config.maml is not None:
        return MamlModel(backbone, config.maml, config.transductive)
    adapter = _build("adapter", ADAPTERS, config.adapter, config.adapter_options, dim=backbone.dim)
    head = _build("head", HEADS, config.head, config.head_options, dim=backbone.dim)
    return FewShotModel(
        backbone,
        adapter,
        head,
        config.average,
        config.transductive,
        config.test_time_flip,
        config.gate,
        FeatureTransform(backbone.dim, config.feature_transform or ()),  # type: ignore[arg-type]
        config.sets_of_one,
    )


def _build(
    what: str, registry: Mapping[str, Callable[..., nn.Module]], name: str, options: Options, **given: Any
) -> nn.Module:
    part = registry[name]
    hints = get_type_hints(part.__init__)
    parameters = {
        key: each
        for key, each in inspect.signature(part).parameters.items()
        if key not in given and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    }
    for key in options:
        refuse_unknown(f"option of {what} {name!r}", key, parameters)
    for key, parameter in parameters.items():
        if key not in options and parameter.default is parameter.empty:
            raise UserError(
                f"{what}_options.{key} is not given, and the {what} {name!r} has no default for it"
            )
    checked = {
        key: parse_value(hints.get(key, type(value)), value, f"{what}_options.{key}")
        for key, value in options.items()
    }
    try:
        return part(**given, **checked)
    except UserError:
        raise
    except (ArithmeticError, RuntimeError, TypeError, ValueError) as error:
        if not options:
            raise
        said = f"{' '.join(str(error).split()):.200}"
        raise UserError(
            f"the {what} {name!r} cannot be made with {what}_options {options} ({said})"
        ) from error


def _check_backbone(backbone: Any) -> None:
    """Reject options with which only the first image would fail, or give NaN."""
    least = {"dim": 1}
    if taken_by(backbone) == "images":
        least["input_size"] = getattr(backbone, "least_size", 1)
        if min(backbone.std) <= 0:
            raise UserError(f"backbone_options.std is {list(backbone.std)}, expected values above 0")
    for key, size in least.items():
        if getattr(backbone, key) < size:
            raise UserError(f"backbone_options.{key} is {getattr(backbone, key)}, expected {size} or more")
