"""The checkpoints that the authors of FEAT published with their code (https://github.com/Sha-Lab/FEAT, MIT).

A file holds `{"params": state_dict}`: the backbone's keys under `encoder.`, and those of the set-to-set
function. Older files and files of pre-training hold the state dict of the backbone alone, with or without
that prefix or a `module.` of parallel training, bare or as `{"state_dict": state_dict}` beside other entries.
A file does not say its method, backbone, temperature and similarity.

Nor does it say how the maps of the last block become one embedding. As in the authors' code, the ConvNet
takes the maximum of each channel. A ProtoNet that flattens the maps (1,600 dimensions for 84 pixels) has the
same keys: it is rejected if a classifier of that width is in the file, else there is a warning. A variant of
a method with the same keys (such as CyCFEAT) is rejected if the file's options name it (`model_class`).

All keys must match by name and shape, with two exceptions: the counters `num_batches_tracked` are absent from
files of an old PyTorch, and the classifier of a pre-training file (`fc.*` or `FC.*`) is left out with a
warning.
"""

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from fewset.core.errors import UserError, refuse_unknown
from fewset.experiments.build import build_model
from fewset.experiments.config import DataConfig, EvaluateConfig, ModelConfig, Options, Recipe
from fewset.experiments.recipes import recipe_text
from fewset.experiments.run_directory import WEIGHTS, RunDirectory
from fewset.experiments.weights import check_finite, check_state, save_weights
from fewset.io.files import file_digest
from fewset.io.paths import recorded_path
from fewset.io.pytorch_files import read_tensors
from fewset.io.reading import remedy
from fewset.models.model import Average, FewShotModel, embedding_model
from fewset.training.episodic import TrainConfig

PUBLISHED_BACKBONES = {"ConvNet": "conv4", "Res12": "resnet12", "Res18": "resnet18", "WRN": "wrn28_10"}


@dataclass(frozen=True)
class PublishedMethod:
    """A published method in fewset's parts; `modules` has their name for each module of our adapter."""

    adapter: str = "identity"
    head: str = "prototype"
    average: Average = "pre"
    transductive: bool = False
    modules: Mapping[str, str] = field(default_factory=dict)
    transposed: bool = False  # their matrices stand on the right: x W


_ATTENTION = {
    "layers.0.to_query": "slf_attn.w_qs",
    "layers.0.to_key": "slf_attn.w_ks",
    "layers.0.to_value": "slf_attn.w_vs",
    "layers.0.to_output": "slf_attn.fc",
    "layers.0.norm": "slf_attn.layer_norm",
}
_DEEPSETS = {"h.0": "set_func.gen1", "h.2": "set_func.gen2", "g.0": "set_func.gen3", "g.2": "set_func.gen4"}
_GCN = {"first": "graph_func.gc1", "second": "graph_func.gc2"}

PUBLISHED_METHODS = {
    "ProtoNet": PublishedMethod(),
    "MatchNet": PublishedMethod(head="matching", average="post"),
    "FEAT": PublishedMethod("attention", modules=_ATTENTION),
    "DeepSet": PublishedMethod("deepsets", modules=_DEEPSETS),
    "GCN": PublishedMethod("gcn", modules=_GCN, transposed=True),
    "BILSTM": PublishedMethod("bilstm", modules={"lstm": "bilstm.lstm"}),
    "SemiFEAT": PublishedMethod("attention", transductive=True, modules=_ATTENTION),
    "SemiProtoFEAT": PublishedMethod(
        "attention", "semi_prototype", "post", transductive=True, modules=_ATTENTION
    ),
}


def load_authors_checkpoint(
    path: str | Path,
    method: str,
    backbone: str,
    *,
    temperature: float = 1.0,
    similarity: str = "euclidean",
    as_published: bool = True,
) -> FewShotModel:
    """Load a checkpoint that the authors of FEAT published, as a model that gives the logits of their code.

    No code in the file is run. Denormal values become zero: they make a forward pass on a CPU a hundred times
    slower. BILSTM differs from their code, which draws a random initial state at each call; here it is zero.

    Args:
        path: The `.pth` file.
        method: ProtoNet, MatchNet, FEAT, DeepSet, GCN, BILSTM, SemiFEAT or SemiProtoFEAT.
        backbone: ConvNet, Res12, Res18 or WRN.
        temperature: The divisor of the logits.
        similarity: "euclidean" (their `--use_euclidean`) or "cosine". MatchNet always takes the cosine. Their
            ProtoNet is always Euclidean; with "cosine" it is what their validation of pre-trained backbones
            computes.
        as_published: Compute as their code does if that differs from the paper: the one-sided cosine, their
            DeepSets and GCN, matching by summed similarities. Else the paper's formulas are used.

    Returns:
        The model, in evaluation mode.

    Raises:
        ValueError: A name is unknown, the file cannot be read without running code, or its tensors are not
            those of this method and backbone. The error names those that do not fit.

    Example:
        >>> import fewset
        >>> import torch
        >>> state = fewset.load("miniimagenet-conv4-protonet-1shot").backbone.state_dict()
        >>> params = {name.replace("blocks", "encoder.encoder"): value for name, value in state.items()}
        >>> torch.save({"params": params}, "protonet.pth")  # as the authors' files are
        >>> model = fewset.load_authors_checkpoint("protonet.pth", method="ProtoNet", backbone="ConvNet")
        >>> model.dim
        64
    """
    config = published_model(method, backbone, temperature, similarity, as_published)
    return _load(Path(path), method, backbone, config)


def import_weights(
    path: Path,
    out: Path,
    *,
    method: str,
    backbone: str,
    temperature: float = 1.0,
    similarity: str = "euclidean",
    data: str = "miniimagenet",
    shot: int = 1,
    force: bool = False,
) -> Recipe:
    """A published checkpoint as a run directory; `data` and `shot` are for its scoring."""
    run = RunDirectory(out)
    if run.state != "new" and not force:
        raise UserError(f"{out} holds a run; --force replaces it, --out names another directory")
    config = published_model(method, backbone, temperature, similarity)
    model = _load(path, method, backbone, config)
    recipe = Recipe(
        name=out.resolve().name,
        method=method,
        data=DataConfig(data),
        model=config,
        train=TrainConfig(shot=shot),
        evaluate=EvaluateConfig(shot=shot),
    )
    header = "# The authors' weights, by `fewset import-weights`; [train] has defaults, not what they ran.\n"
    with run.locked():
        run.begin(header + recipe_text(recipe), resume=False, force=force)
        run.files.log(f"imported {recorded_path(path)}, sha256 {file_digest(path)}")
        save_weights(model, config, out / WEIGHTS)
    return recipe


def published_model(
    method: str, backbone: str, temperature: float, similarity: str, as_published: bool = True
) -> ModelConfig:
    """The configuration of one of the authors' methods, in their arithmetic or in the paper's."""
    refuse_unknown("method", method, PUBLISHED_METHODS)
    refuse_unknown("backbone", backbone, PUBLISHED_BACKBONES)
    refuse_unknown("similarity", similarity, ("euclidean", "cosine"))
    if similarity == "cosine" and as_published:
        similarity = "one-sided-cosine"
    parts = PUBLISHED_METHODS[method]
    head: Options = {"temperature": float(temperature)}
    head |= {"as_published": as_published} if parts.head == "matching" else {"similarity": similarity}
    return ModelConfig(
        backbone=PUBLISHED_BACKBONES[backbone],
        adapter=parts.adapter,
        adapter_options={"as_published": as_published} if parts.adapter in ("deepsets", "gcn") else {},
        head=parts.head,
        head_options=head,
        average=parts.average,
        transductive=parts.transductive,
    )


def _load(path: Path, method: str, backbone: str, config: ModelConfig) -> FewShotModel:
    parts, model = PUBLISHED_METHODS[method], embedding_model(build_model(config), method)
    with remedy("get it again, or save the state dict alone"):
        tensors = read_tensors(path, PUBLISHED_METHODS)
    if backbone == "ConvNet" and not parts.modules:
        _check_pool(tensors, path)
    names_in_file = {_PREFIX.sub("", name): name for name in tensors}
    if len(names_in_file) < len(tensors):
        raise UserError(f"{path} has several backbones; save the state dict of one of them alone")
    tensors = {name: tensors[original] for name, original in names_in_file.items()}
    if not parts.modules:
        tensors = _without_classifier(tensors, path, model.dim)
    if parts.transposed:
        tensors = {name: value.T if name.startswith("graph_") else value for name, value in tensors.items()}
    state = model.state_dict()
    names = {ours: _published_name(ours, parts) for ours in state}
    names = {ours: name for ours, name in names.items() if name in tensors or not ours.endswith(_OPTIONAL)}
    shapes = {theirs: state[ours].shape for ours, theirs in names.items()}
    check_state(tensors, shapes, f"{path} (read as {method} with {backbone})")
    check_finite(tensors, path)
    model.load_state_dict({ours: tensors[theirs] for ours, theirs in names.items()}, strict=False)
    for value in filter(torch.is_floating_point, state.values()):
        value.masked_fill_(value.abs() < torch.finfo(value.dtype).tiny, 0)
    return model.eval()


_PREFIX = re.compile(r"^((module|encoder)\.)+")
_CLASSIFIER = re.compile(r"(module\.)?(fc|FC)\.(weight|bias)")
_OPTIONAL = (".num_batches_tracked", ".training_steps")  # counters, the latter of our DropBlock schedule


def _published_name(ours: str, parts: PublishedMethod) -> str:
    """The name in a file, without prefixes, of a tensor of our model."""
    part, _, name = ours.partition(".")
    module, _, parameter = name.rpartition(".")
    return f"{parts.modules[module]}.{parameter}" if part == "adapter" else name.removeprefix("blocks.")


def _check_pool(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Warn of a ConvNet that may have been trained on flattened maps, which has the same tensors."""
    whole_model = any("encoder.encoder." in name for name in tensors)  # as the authors' code saves it
    if not whole_model and not any(_CLASSIFIER.fullmatch(name) for name in tensors):
        warnings.warn(
            f"{path}: read with a maximum over the positions of the last maps, as the authors' ConvNet has; "
            "a ProtoNet that was trained on flattened maps has the same tensors and scores far lower so",
            stacklevel=4,
        )


def _without_classifier(tensors: dict[str, Tensor], path: Path, dim: int) -> dict[str, Tensor]:
    classifier = {name: tensors[name] for name in sorted(tensors) if _CLASSIFIER.fullmatch(name)}
    for name, value in classifier.items():
        if name.endswith("weight") and value.shape[-1:] != (dim,):
            raise UserError(
                f"{path}: its classifier {name} has shape {tuple(value.shape)}, but the backbone makes "
                f"embeddings of {dim} dimensions: the file is of a backbone with another end, such as "
                "flattened maps, which fewset does not have"
            )
    if classifier:
        warnings.warn(
            f"{path}: left out {', '.join(classifier)}, the classifier of pre-training", stacklevel=4
        )
    return {name: value for name, value in tensors.items() if name not in classifier}
