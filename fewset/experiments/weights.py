"""Weights files and released models.

A weights file is safetensors with a description of its model, so that it can be loaded by itself. A released
model comes with the package: a directory `NAME/` with the recipe, the weights and their digest.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from fewset.compute import distributed
from fewset.core.errors import UserError, refuse_unknown
from fewset.core.names import shortened
from fewset.core.parsing import lasting, parse
from fewset.experiments.build import build_model
from fewset.experiments.config import ModelConfig
from fewset.experiments.run_directory import RECIPE, WEIGHTS
from fewset.io.files import check_digest, digest_path, replacing_directory, replacing_with_digest
from fewset.io.hub import download, is_on_hub
from fewset.io.locks import in_turn
from fewset.io.paths import packaged_directory, user_path
from fewset.io.reading import parse_json, regular_file
from fewset.models.task_model import TaskModel

_FORMAT = 1
_LISTED = 100  # problems in an error
_FILES = (RECIPE, WEIGHTS)  # of a released model


def save_weights(model: TaskModel, config: ModelConfig, path: Path, stored_size: int | None = None) -> None:
    """Write a weights file: safetensors with the model's configuration as metadata.

    `stored_size` is the side in pixels of the stored images that the model was trained on, if it is known.
    The same weights give the same bytes (with one metadata entry: the format does not order several).
    """
    description: dict[str, Any] = {"format": _FORMAT, "model": lasting(config)}
    if stored_size is not None:
        description["stored_size"] = stored_size
    tensors = {name: value.detach().contiguous().cpu() for name, value in model.state_dict().items()}
    with replacing_with_digest(path) as temporary:
        save_file(tensors, temporary, metadata={"fewset": json.dumps(description, sort_keys=True)})


def load(source: str | Path) -> TaskModel:
    """Load a model, ready for evaluation.

    No code in a file is run. A model with a custom part needs that part registered first.

    Args:
        source: A run directory, a weights file, `hub:OWNER/NAME`, or where there is no such path, the name
            of a released model, one of `list_models`.

    Returns:
        The model, in evaluation mode, on the CPU.

    Raises:
        ValueError: There is no such run, file or model; the run is unfinished; or the file is not one of
            fewset's, or does not fit the model that it describes.

    Example:
        >>> import fewset
        >>> model = fewset.load("miniimagenet-conv4-feat-1shot")
        >>> model.dim
        64
    """
    return load_weights(find_weights(source))[0]


def find_weights(source: str | Path) -> Path:
    """The weights file of a run directory or of a released model; a weights file is its own."""
    path = find_model(source)
    if not path.is_dir():
        return path
    if not (path / WEIGHTS).exists():
        raise UserError(
            f"{path} has no {WEIGHTS}: it is not a run directory, or its run is unfinished "
            "(go on with --resume)"
        )
    return path / WEIGHTS


def load_weights(path: Path) -> tuple[TaskModel, ModelConfig]:
    """The model of a weights file, in evaluation mode. Every key must match."""
    try:
        check_digest(regular_file(path))
        with safe_open(path, framework="pt") as file:
            description = (file.metadata() or {}).get("fewset")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is not a weights file: {error}") from None
    if description is None:
        raise UserError(
            f"{path} has no fewset description; for the authors' files use `fewset import-weights`"
        )
    try:
        table = parse_json(description)
        table, version = table["model"], table["format"]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} has a damaged description of its model ({error!r})") from None
    if version != _FORMAT:
        raise UserError(
            f"{path} has format {version!r}, expected {_FORMAT}: it is damaged, or of a newer fewset; "
            "install that, or make it again"
        )
    config: ModelConfig = parse(ModelConfig, table, "model.")
    try:
        model = build_model(config)
    except RuntimeError as error:  # of torch's allocator
        said = f"{' '.join(str(error).split()):.200}"
        raise UserError(f"{path} describes a model that cannot be built ({said})") from None
    load_state(model, tensors, path)
    return model.eval(), config


def stored_size(path: Path) -> int | None:
    """The side in pixels of the stored images that the model was trained on, if the file has it."""
    with safe_open(regular_file(path), framework="pt") as file:
        size = parse_json((file.metadata() or {}).get("fewset", "{}")).get("stored_size")
    return size if isinstance(size, int) else None


def load_state(module: nn.Module, tensors: Mapping[str, torch.Tensor], source: object) -> None:
    """Load a state dict in which all keys must match and all values be finite.

    Only buffers that are NaN in the module itself, such as the mean of a head that is not fitted, may be NaN.
    """
    check_state(tensors, _shapes(module), source)
    unset = {name for name, value in module.state_dict().items() if value.isnan().all()}
    check_finite(
        {n: value for n, value in tensors.items() if n not in unset or not value.isnan().all()}, source
    )
    module.load_state_dict(dict(tensors))


def check_state(
    tensors: Mapping[str, torch.Tensor], shapes: Mapping[str, torch.Size], source: object
) -> None:
    """Reject a state dict with other keys or shapes; the error names some that do not fit."""
    problems = [f"missing {name}" for name in shapes if name not in tensors]
    problems += [f"unexpected {name}" for name in tensors if name not in shapes]
    problems += [
        f"{name} has shape {tuple(tensors[name].shape)}, expected {tuple(shape)}"
        for name, shape in shapes.items()
        if name in tensors and tensors[name].shape != shape
    ]
    if problems:
        listed = "; ".join([*map(shortened, problems[:_LISTED]), *(["…"] if problems[_LISTED:] else [])])
        raise UserError(f"the weights in {source} do not fit the model: {listed}")


def check_finite(tensors: Mapping[str, torch.Tensor], source: object) -> None:
    """Reject weights with NaN or infinite values; the error names them."""
    bad = [name for name, value in tensors.items() if not value.isfinite().all()]
    if bad:
        raise UserError(f"the weights in {source} are not finite in {', '.join(bad)}; get or make them again")


def initialise(model: TaskModel, source: TaskModel, where: object) -> None:
    """Start from another model's backbone; from its adapter and head too when they are of the same kind."""
    load_state(model.backbone, source.backbone.state_dict(), where)
    for part in ("adapter", "head"):
        mine, theirs = (dict(each.named_children()).get(part) for each in (model, source))  # MAML has none
        if mine and theirs and type(mine) is type(theirs) and _shapes(mine) == _shapes(theirs):
            mine.load_state_dict(theirs.state_dict())


def _shapes(module: nn.Module) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in module.state_dict().items()}


# Released models


def list_models() -> list[str]:
    """The names of the released models, which come with the package and which `load` takes.

    Returns:
        The names, sorted.

    Example:
        >>> import fewset
        >>> "miniimagenet-conv4-feat-1shot" in fewset.list_models()
        True
    """
    return list(released_models())


def released_models() -> dict[str, Path]:
    """The directories of the released models by name."""
    files = sorted(packaged_directory("weights").glob(f"*/{WEIGHTS}"))
    return {file.parent.name: file.parent for file in files}


def find_model(source: str | Path) -> Path:
    """A run directory or a weights file by its path or on the Hub, else a released model by its name."""
    if is_on_hub(source):
        return download(str(source), [*_FILES, f"{WEIGHTS}.sha256"])
    path = user_path(source)
    if path.exists():
        return path
    models = released_models()
    refuse_unknown("run directory, weights file or released model", str(source), models)
    return models[str(source)]


def run_of(source: Path, runs: Path) -> Path:
    """A run directory to write results to: that of a path, or a copy of a released model in `runs`."""
    model = find_model(source)
    if model == user_path(source):
        return model
    run = runs / (source.name.partition("@")[0] if is_on_hub(source) else model.name)
    distributed.on_main_process(lambda: copy_model(model, run))
    return run


def is_copy(run: Path, model: Path) -> bool:
    """Whether a run directory has the weights and the recipe of a released model."""
    return all(
        (run / file).is_file() and (run / file).read_bytes() == (model / file).read_bytes() for file in _FILES
    )


def copy_model(model: Path, run: Path) -> None:
    """Make a run directory of a released model, unless it is there already."""
    with in_turn(run.with_name(f".{run.name}.lock")):
        if not run.exists():
            with replacing_directory(run) as copy:
                for file in (*_FILES, digest_path(model / WEIGHTS).name):
                    if (model / file).exists():
                        shutil.copyfile(model / file, copy / file)
    if not is_copy(run, model):
        raise UserError(
            f"{run} is another run than the released model {model.name!r}, whose copy would have this path; "
            f"for that run give {run}, for the released model move that run away first"
        )
