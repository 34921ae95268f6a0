"""The authors' checkpoints: files in their layout go in, the results of their evaluation come out.

The oracles state once more, one task and one query at a time, in NumPy and float64, what the evaluation of
https://github.com/Sha-Lab/FEAT (MIT) computes. As there, the items of a task are shot-major: one item of each
class, then the next of each.
"""

import json
import os
import pickle
import re
import warnings
import zipfile
from argparse import Namespace
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import fewset
from fewset.core.errors import UserError
from fewset.data.images.store import set_path, write_store
from fewset.experiments.authors_checkpoint import (
    PUBLISHED_BACKBONES,
    PUBLISHED_METHODS,
    load_authors_checkpoint,
)
from fewset.models.backbones import IMAGENET_MEAN, IMAGENET_STD
from fewset.models.model import FewShotModel
from tests.helpers import published
from tests.helpers.command_line import succeed
from tests.helpers.containers import packed_zip
from tests.helpers.real_files import real_file

State = dict[str, Tensor]
DIM, WAY, QUERY = 64, 5, 3


# Files in the published layout


def convolution(name: str, channels: int, inputs: int, size: int, bias: bool = False) -> State:
    scale = (2 / (inputs * size**2)) ** 0.5
    state = {f"{name}.weight": scale * torch.randn(channels, inputs, size, size)}
    return state | ({f"{name}.bias": 0.1 * torch.randn(channels)} if bias else {})


def normalisation(name: str, channels: int) -> State:
    return {
        f"{name}.weight": 0.5 + torch.rand(channels),
        f"{name}.bias": 0.1 * torch.randn(channels),
        f"{name}.running_mean": 0.1 * torch.randn(channels),
        f"{name}.running_var": 0.5 + torch.rand(channels),
        f"{name}.num_batches_tracked": torch.tensor(7),
    }


def linear(name: str, outputs: int, inputs: int, bias: bool = True) -> State:
    state = {f"{name}.weight": inputs**-0.5 * torch.randn(outputs, inputs)}
    return state | ({f"{name}.bias": 0.1 * torch.randn(outputs)} if bias else {})


def convnet() -> State:
    state: State = {}
    for block in range(4):
        state |= convolution(f"encoder.{block}.0", 64, 64 if block else 3, 3, bias=True)
        state |= normalisation(f"encoder.{block}.1", 64)
    return state


def res12() -> State:
    state: State = {}
    for number, (inputs, channels) in enumerate([(3, 64), (64, 160), (160, 320), (320, 640)], 1):
        name = f"layer{number}.0"
        for i in (1, 2, 3):
            state |= convolution(f"{name}.conv{i}", channels, inputs if i == 1 else channels, 3)
            state |= normalisation(f"{name}.bn{i}", channels)
        state |= convolution(f"{name}.downsample.0", channels, inputs, 1)
        state |= normalisation(f"{name}.downsample.1", channels)
    return state


def res18() -> State:
    state = convolution("conv1", 64, 3, 3) | normalisation("bn1", 64)
    for number, (inputs, channels) in enumerate([(64, 64), (64, 128), (128, 256), (256, 512)], 1):
        for block in (0, 1):
            name, first = f"layer{number}.{block}", channels if block else inputs
            state |= convolution(f"{name}.conv1", channels, first, 3) | normalisation(f"{name}.bn1", channels)
            state |= convolution(f"{name}.conv2", channels, channels, 3)
            state |= normalisation(f"{name}.bn2", channels)
            if first != channels:
                state |= convolution(f"{name}.downsample.0", channels, first, 1)
                state |= normalisation(f"{name}.downsample.1", channels)
    return state


def wrn() -> State:
    state = convolution("conv1", 16, 3, 3, bias=True) | normalisation("bn1", 640)
    for number, (inputs, channels) in enumerate([(16, 160), (160, 320), (320, 640)], 1):
        for block in range(4):
            name, first = f"layer{number}.{block}", channels if block else inputs
            state |= normalisation(f"{name}.bn1", first) | normalisation(f"{name}.bn2", channels)
            state |= convolution(f"{name}.conv1", channels, first, 3, bias=True)
            state |= convolution(f"{name}.conv2", channels, channels, 3, bias=True)
            if first != channels:
                state |= convolution(f"{name}.shortcut.0", channels, first, 1, bias=True)
    return state


def set_function(method: str, dim: int) -> State:
    """Of theirs, with its keys: the set-to-set function of a method."""
    if method in ("FEAT", "SemiFEAT", "SemiProtoFEAT"):
        state = linear("slf_attn.fc", dim, dim)
        for name in ("w_qs", "w_ks", "w_vs"):
            state |= linear(f"slf_attn.{name}", dim, dim, bias=False)
        norm = normalisation("slf_attn.layer_norm", dim)
        return state | {name: norm[name] for name in norm if name.endswith(("weight", "bias"))}
    if method == "DeepSet":
        sizes = [(4 * dim, dim), (dim, 4 * dim), (4 * dim, 2 * dim), (dim, 4 * dim)]
        layers = (linear(f"set_func.gen{number}", *size) for number, size in enumerate(sizes, 1))
        return {name: value for layer in layers for name, value in layer.items()}
    if method == "GCN":
        state = linear("graph_func.gc1", 4 * dim, dim) | linear("graph_func.gc2", dim, 4 * dim)
        return {name: value.T.contiguous() if value.ndim == 2 else value for name, value in state.items()}
    if method == "BILSTM":
        lstm = torch.nn.LSTM(dim, dim // 2, bidirectional=True)
        return {f"bilstm.lstm.{name}": torch.randn_like(value) for name, value in lstm.state_dict().items()}
    return {}


ENCODERS: dict[str, Callable[[], State]] = {"ConvNet": convnet, "Res12": res12, "Res18": res18, "WRN": wrn}


def parameters(method: str, backbone: str = "ConvNet", seed: int = 0) -> State:
    torch.manual_seed(seed)
    encoder = {f"encoder.{name}": value for name, value in ENCODERS[backbone]().items()}
    return encoder | set_function(method, DIM)


def save(folder: Path, state: State) -> Path:
    torch.save({"params": OrderedDict(state)}, folder / "max_acc.pth")
    return folder / "max_acc.pth"


# Their evaluation


def attention(state: dict[str, np.ndarray], items: np.ndarray, attended: np.ndarray) -> np.ndarray:
    adapted = []
    for item in items:
        query = state["slf_attn.w_qs.weight"] @ item
        keys = [state["slf_attn.w_ks.weight"] @ other for other in attended]
        values = [state["slf_attn.w_vs.weight"] @ other for other in attended]
        weights = np.exp([query @ key / len(item) ** 0.5 for key in keys])
        mixed = sum(weight * value for weight, value in zip(weights, values, strict=True)) / weights.sum()
        rows = item + state["slf_attn.fc.weight"] @ mixed + state["slf_attn.fc.bias"]
        rows = (rows - rows.mean()) / np.sqrt(rows.var() + 1e-5)
        adapted.append(rows * state["slf_attn.layer_norm.weight"] + state["slf_attn.layer_norm.bias"])
    return np.array(adapted)


def deepset(state: dict[str, np.ndarray], items: np.ndarray) -> np.ndarray:
    def layer(number: int, row: np.ndarray) -> np.ndarray:
        return state[f"set_func.gen{number}.weight"] @ row + state[f"set_func.gen{number}.bias"]

    adapted = []
    for i, item in enumerate(items):
        masked = items.copy()
        masked[i] = 0.0  # not left out: it still takes part in the maximum
        pooled = layer(2, np.maximum(layer(1, masked.max(0)), 0))
        adapted.append(item + layer(4, np.maximum(layer(3, np.concatenate([item, pooled])), 0)))
    return np.array(adapted)


def gcn(state: dict[str, np.ndarray], items: np.ndarray) -> np.ndarray:
    """One prototype a class: the label graph has no edges but the loops."""
    hidden = np.maximum(items @ state["graph_func.gc1.weight"] + state["graph_func.gc1.bias"], 0)
    return items + hidden @ state["graph_func.gc2.weight"] + state["graph_func.gc2.bias"]


def scores(query: np.ndarray, prototypes: np.ndarray, temperature: float, euclidean: bool) -> np.ndarray:
    if euclidean:
        return np.array([[-((p - q) ** 2).sum() / temperature for p in prototypes] for q in query])
    return np.array([[q @ p / np.sqrt(p @ p) / temperature for p in prototypes] for q in query])


def authors_logits(
    method: str, tensors: State, items: Tensor, shot: int, temperature: float, euclidean: bool
) -> np.ndarray:
    """Logits (queries, classes) of one task, from its embeddings in shot-major order."""
    state = {name: value.double().numpy() for name, value in tensors.items()}
    support, query = np.split(items.double().numpy(), [shot * WAY])
    support = support.reshape(shot, WAY, DIM)
    prototypes = support.mean(0)
    if method == "MatchNet":
        return sum(scores(query, one_of_each, temperature, euclidean=False) for one_of_each in support)
    if method == "FEAT":
        prototypes = attention(state, prototypes, prototypes)
    elif method == "SemiFEAT":
        prototypes = attention(state, prototypes, np.concatenate([prototypes, query]))
    elif method == "SemiProtoFEAT":
        flat = support.reshape(-1, DIM)
        adapted = attention(state, flat, np.concatenate([flat, query])).reshape(shot, WAY, DIM)
        share = np.exp(scores(query, adapted.mean(0), temperature, euclidean))
        share /= share.sum(1, keepdims=True)
        prototypes = (adapted.sum(0) + share.T @ query) / (shot + share.sum(0))[:, None]
    elif method == "DeepSet":
        prototypes = deepset(state, prototypes)
    elif method == "GCN":
        prototypes = gcn(state, prototypes)
    return scores(query, prototypes, temperature, euclidean)


def task_embeddings(shot: int, seed: int = 0) -> Tensor:
    """Items of one task, shot-major: signed, with a part that all share; squared distances of about 100."""
    generator = torch.Generator().manual_seed(seed)
    common = torch.randn(1, 1, DIM, generator=generator)
    classes = torch.randn(1, WAY, DIM, generator=generator)
    items = 0.5 * common + 0.7 * classes + torch.randn(shot + QUERY, WAY, DIM, generator=generator)
    return items.flatten(0, 1)


def logits_of(model: FewShotModel, items: Tensor, shot: int) -> Tensor:
    support = items[: shot * WAY].view(shot, WAY, DIM).transpose(0, 1)
    with torch.no_grad():
        logits: Tensor = model(support[None], items[None, shot * WAY :])
    return logits[0]


# Same results


# At temperature 1 SemiProtoFEAT's soft assignment magnifies the rounding of float32, theirs too, to 2e-4.
@pytest.mark.parametrize("shot", [1, 5])
@pytest.mark.parametrize(
    ("temperature", "similarity"), [(2.0, "euclidean"), (64.0, "euclidean"), (2.0, "cosine")]
)
@pytest.mark.parametrize("method", sorted(PUBLISHED_METHODS.keys() - {"BILSTM"}))
def test_logits_are_those_of_the_authors(
    tmp_path: Path, method: str, temperature: float, similarity: str, shot: int
) -> None:
    state, items = parameters(method), task_embeddings(shot)
    model = load_authors_checkpoint(
        save(tmp_path, state),
        method=method,
        backbone="ConvNet",
        temperature=temperature,
        similarity=similarity,
    )
    expected = authors_logits(method, state, items, shot, temperature, similarity == "euclidean")
    np.testing.assert_allclose(logits_of(model, items, shot), expected, rtol=0, atol=1e-4)


def test_bilstm_is_theirs_with_a_zero_state(tmp_path: Path) -> None:
    state, items = parameters("BILSTM"), task_embeddings(1)
    model = load_authors_checkpoint(save(tmp_path, state), "BILSTM", "ConvNet")
    lstm = torch.nn.LSTM(DIM, DIM // 2, bidirectional=True)
    lstm.load_state_dict({name.removeprefix("bilstm.lstm."): state[name] for name in state if "lstm" in name})
    with torch.no_grad():
        prototypes = (items[:WAY] + lstm(items[:WAY].unsqueeze(1))[0].squeeze(1)).double().numpy()
    expected = scores(items[WAY:].double().numpy(), prototypes, 1.0, euclidean=True)
    np.testing.assert_allclose(logits_of(model, items, 1), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("method", "similarity"),
    [("DeepSet", "euclidean"), ("GCN", "euclidean"), ("MatchNet", "cosine"), ("FEAT", "cosine")],
)
def test_the_papers_arithmetic_is_an_option(tmp_path: Path, method: str, similarity: str) -> None:
    path, items = save(tmp_path, parameters(method)), task_embeddings(5)
    theirs, papers = (
        load_authors_checkpoint(path, method, "ConvNet", similarity=similarity, as_published=as_published)
        for as_published in (True, False)
    )
    assert not torch.allclose(logits_of(theirs, items, 5), logits_of(papers, items, 5), atol=1e-2)


# The oracle of each network, the names of its keys there, and a size that keeps the test quick.
NETWORKS = {
    "ConvNet": (published.conv4, "blocks.", 84),
    "Res12": (published.resnet12, "", 84),
    "Res18": (published.resnet18, "", 19),
    "WRN": (published.wrn28_10, "", 12),
}


@pytest.mark.parametrize("backbone", PUBLISHED_BACKBONES)
@torch.no_grad()
def test_embeddings_are_those_of_the_authors(tmp_path: Path, backbone: str) -> None:
    oracle, names, size = NETWORKS[backbone]
    state = parameters("ProtoNet", backbone)
    model = load_authors_checkpoint(save(tmp_path, state), "ProtoNet", backbone)
    images = torch.randn(2, 3, size, size)
    inner = "encoder.encoder." if backbone == "ConvNet" else "encoder."
    expected = oracle({name.replace(inner, names): value for name, value in state.items()}, images)
    tolerance = 1e-4 * max(1.0, float(expected.abs().max()))
    torch.testing.assert_close(model.embed(images), expected, rtol=0, atol=tolerance)
    assert not model.training
    assert model.input_size == 84
    mean, std = np.array(IMAGENET_MEAN), np.array(IMAGENET_STD)
    if backbone == "Res12":
        mean, std = (np.array(x) / 255 for x in ((120.396, 115.594, 104.54), (70.682, 68.276, 72.545)))
    np.testing.assert_allclose([model.backbone.mean, model.backbone.std], [mean, std], atol=1e-5)


def test_a_transductive_method_sees_the_queries(tmp_path: Path) -> None:
    """The published SemiFEAT is FEAT whose attention reaches the queries of the task."""
    path, items = save(tmp_path, parameters("FEAT")), task_embeddings(1)
    feat, semi = (load_authors_checkpoint(path, method, "ConvNet") for method in ("FEAT", "SemiFEAT"))
    support, query = items[None, :WAY, None], items[None, WAY:]
    with torch.no_grad():
        assert torch.equal(semi(support, query), feat(support, query, context=query))
        assert torch.equal(
            semi(support, query, context=query[:, :2]), feat(support, query, context=query[:, :2])
        )
    assert not torch.allclose(logits_of(semi, items, 1), logits_of(feat, items, 1))


# Every key, or an error with its name


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("encoder.encoder.", "encoder."),
        ("encoder.encoder.", ""),
        ("encoder.encoder.", "module."),
        ("encoder.encoder.", "module.encoder."),
        ("encoder.encoder.", "encoder.module.encoder."),
        ("encoder.encoder.", "module.encoder.encoder."),
    ],
)
@torch.no_grad()
def test_prefixes_of_a_pretraining_file(tmp_path: Path, old: str, new: str) -> None:
    state, images = parameters("ProtoNet"), torch.randn(2, 3, 16, 16)
    expected = load_authors_checkpoint(save(tmp_path, state), "ProtoNet", "ConvNet").embed(images)
    path = save(tmp_path, {name.replace(old, new): value for name, value in state.items()})
    assert torch.equal(load_authors_checkpoint(path, "ProtoNet", "ConvNet").embed(images), expected)


@pytest.mark.parametrize("around", ["", "module."])
@pytest.mark.parametrize("classifier", ["fc", "FC"])
def test_the_classifier_of_a_pretraining_file_is_left_out_with_a_warning(
    tmp_path: Path, classifier: str, around: str
) -> None:
    state = parameters("ProtoNet") | linear(classifier, 61, DIM)
    path = save(tmp_path, {around + name: value for name, value in state.items()})
    left_out = rf"left out {classifier}\.bias, {classifier}\.weight, the classifier"
    with pytest.warns(UserWarning, match=left_out):
        model = load_authors_checkpoint(path, "ProtoNet", "ConvNet")
    assert torch.equal(model.backbone.blocks[3][0].bias, state["encoder.encoder.3.0.bias"])


def training_files(state: State) -> dict[str, object]:
    """Layouts of pre-training, as the authors' programs of different ages write them."""
    options = Namespace(backbone_class="ConvNet", lr=[0.1, 0.01], nested=Namespace(gpu="0"), seed=None)
    log = {"max_acc": np.float64(25.7), "train_loss": [np.float32(1.5), 0.5], "epochs": np.int64(800)}
    return {
        "params": {"params": state},
        "params beside others": {"params": state, "args": options, "epoch": 3},
        "state_dict": {"epoch": 3, "state_dict": OrderedDict(state), "args": options},
        "log": {"state_dict": state, "trlog": log, "optimizer": {"state": {0: torch.zeros(3)}}},
        "bare": OrderedDict(state),
    }


@pytest.mark.parametrize("layout", training_files({}))
def test_files_of_pretraining(tmp_path: Path, layout: str) -> None:
    """Files of PyTorch before 1.6 are no zip files."""
    state, path = parameters("ProtoNet"), tmp_path / "pre.pth"
    content = training_files(state)[layout]
    torch.save(content, path, _use_new_zipfile_serialization=layout != "bare")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = load_authors_checkpoint(path, "ProtoNet", "ConvNet")
    assert torch.equal(model.backbone.blocks[2][0].weight, state["encoder.encoder.2.0.weight"])
    said = " ".join(str(warning.message) for warning in caught)
    for name in ("args", "epoch", "trlog", "optimizer"):
        assert (f"'{name}'" in said) == (layout != "bare" and name in content)


@torch.no_grad()
def test_the_published_pretraining_of_the_convnet() -> None:
    path = real_file("authors-con-pre.pth")
    with pytest.warns(UserWarning, match=r"left out FC\.bias, FC\.weight"):
        model = load_authors_checkpoint(path, "ProtoNet", "ConvNet")
    state = torch.load(path, weights_only=True)["params"]
    images = torch.randn(2, 3, 84, 84, generator=torch.Generator().manual_seed(0))
    expected = published.conv4(
        {name.replace("encoder.", "blocks."): value for name, value in state.items()}, images
    )
    torch.testing.assert_close(model.embed(images), expected, rtol=1e-4, atol=1e-4)


def error_of(path: Path, method: str = "FEAT", backbone: str = "ConvNet") -> str:
    with pytest.raises(UserError) as error:
        load_authors_checkpoint(path, method, backbone)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_missing_extra_and_wrongly_shaped_keys_are_named(tmp_path: Path) -> None:
    state = parameters("FEAT")
    del state["encoder.encoder.2.1.running_var"], state["slf_attn.w_ks.weight"]
    state["slf_attn.w_os.weight"] = torch.zeros(3)
    state["slf_attn.fc.bias"] = torch.zeros(7)
    message = error_of(save(tmp_path, state))
    assert "missing 2.1.running_var; missing slf_attn.w_ks.weight; " in message
    assert "unexpected slf_attn.w_os.weight; " in message
    assert message.endswith("slf_attn.fc.bias has shape (7,), expected (64,)")


@pytest.mark.parametrize(
    ("written", "read"), [("FEAT", "ProtoNet"), ("ProtoNet", "FEAT"), ("DeepSet", "GCN")]
)
def test_a_file_of_another_method_is_rejected(tmp_path: Path, written: str, read: str) -> None:
    message = error_of(save(tmp_path, parameters(written)), read)
    assert all(f"unexpected {name}" in message for name in set_function(written, DIM))
    assert all(f"missing {name}" in message for name in set_function(read, DIM))


@pytest.mark.parametrize("style", [Namespace, dict])
def test_a_variant_with_the_keys_of_feat_is_rejected_by_its_name(
    tmp_path: Path, style: Callable[..., object]
) -> None:
    """CyCFEAT masks attention and has other losses; its tensors have the names and shapes of FEAT's."""
    path, state = tmp_path / "model.pth", parameters("FEAT")
    torch.save({"params": state, "args": style(model_class="CyCFEAT", lr=0.1)}, path)
    assert "says that its model is 'CyCFEAT'" in error_of(path)
    torch.save({"params": state, "args": style(model_class="FEAT", lr=0.1)}, path)
    load_authors_checkpoint(path, "SemiFEAT", "ConvNet")  # a method that is known: its keys decide


def test_a_protonet_on_flattened_maps_is_rejected_or_pointed_out(tmp_path: Path) -> None:
    """Its tensors are those of the ConvNet with a pool. A classifier of 25 x 64 inputs gives it away."""
    convolutions = {
        name.replace("encoder.encoder", "encoder"): value for name, value in parameters("ProtoNet").items()
    }
    flattened = save(tmp_path, convolutions | linear("fc", 61, 25 * DIM))
    message = error_of(flattened, "ProtoNet")
    assert "fc.weight has shape (61, 1600), but the backbone makes embeddings of 64 dimensions" in message
    with pytest.warns(UserWarning, match="maximum over the positions .* flattened maps"):
        load_authors_checkpoint(save(tmp_path, convolutions), "ProtoNet", "ConvNet")


@pytest.mark.parametrize(
    "change",
    [{"method": "SemiFeat"}, {"backbone": "Res50"}, {"similarity": "dot"}, {"temperature": 0}],
    ids=str,
)
def test_an_unknown_name_or_value_is_named(tmp_path: Path, change: dict) -> None:
    ((name, value),) = change.items()
    with pytest.raises(UserError, match=rf"{name} .*{value}"):
        load_authors_checkpoint(save(tmp_path, {}), **{"method": "FEAT", "backbone": "ConvNet", **change})


# What is in the file


class Payload:
    """Unpickled, it makes a directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("kind", ["zip", "legacy", "pickle"])
def test_code_in_a_file_is_rejected_and_not_run(tmp_path: Path, kind: str) -> None:
    path, made = tmp_path / "evil.pth", tmp_path / "made"
    content = {"params": parameters("FEAT") | {"slf_attn.extra": Payload(made)}}
    if kind == "pickle":
        path.write_bytes(pickle.dumps({"params": Payload(made)}, protocol=2))
    else:
        torch.save(content, path, _use_new_zipfile_serialization=kind == "zip")
    with warnings.catch_warnings(action="error"):
        message = error_of(path)
    assert "its pickle refers to code" in message
    assert f"{os.mkdir.__module__}.mkdir" in message
    assert not made.exists()
    torch.load(path, weights_only=False) if kind != "pickle" else pickle.loads(path.read_bytes())  # noqa: S301
    assert made.exists()  # it was a real payload


@pytest.mark.parametrize(
    "content", [torch.zeros(3), {"params": {}}, {"epoch": 3, "encoder.0": torch.zeros(3)}]
)
def test_another_file_is_rejected(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "file.pth")
    error_of(tmp_path / "file.pth")


def test_values_that_are_not_finite_are_rejected_by_name(tmp_path: Path) -> None:
    state = parameters("FEAT")
    state["slf_attn.fc.bias"][5] = torch.nan
    assert "not finite in slf_attn.fc.bias" in error_of(save(tmp_path, state))


def test_a_compressed_file_is_rejected_before_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(tmp_path, {"weight": torch.zeros(2**21)})
    with zipfile.ZipFile(path) as file:
        members = [(member.filename, file.read(member)) for member in file.infolist()]
    path.write_bytes(packed_zip(members))
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("it was loaded"))
    error_of(path)


@pytest.mark.parametrize("value", [torch.zeros(3).to_sparse(), torch.zeros(3, dtype=torch.complex64)])
def test_tensors_that_are_not_plain_are_rejected(tmp_path: Path, value: Tensor) -> None:
    error_of(save(tmp_path, {"encoder.encoder.0.0.bias": value}))


def test_denormal_values_become_zero(tmp_path: Path) -> None:
    state = parameters("FEAT")
    given = state["encoder.encoder.0.0.weight"]
    bits = given.view(torch.int32)
    bits[::2], bits[1] = 0x00100000, 0x00800000  # an eighth of the smallest normal value, and that value
    weight = load_authors_checkpoint(save(tmp_path, state), "FEAT", "ConvNet").backbone.blocks[0][0].weight
    loaded = weight.detach().contiguous().view(torch.int32)  # arithmetic may itself take them for zero
    assert (loaded[::2] == 0).all()
    assert torch.equal(loaded[1::2], bits[1::2])


# As a run


@pytest.mark.parametrize("method", ["MatchNet", "SemiFEAT"])
def test_import_weights_makes_a_run_that_can_be_scored(tmp_path: Path, method: str) -> None:
    labels = np.repeat(np.arange(3), 5)
    with write_store(
        set_path("small"),
        size=84,
        labels=labels,
        class_names=["one", "two", "three"],
        splits=np.full(len(labels), 2),
        source="made by a test",
    ) as draft:
        draft.images[:] = np.random.default_rng(0).integers(0, 256, size=draft.images.shape)
    path, out = save(tmp_path, parameters(method)), tmp_path / "runs" / "theirs"
    options = ["--method", method, "--backbone", "ConvNet", "--out", out, "--temperature", 32]
    output = succeed("import-weights", path, *options, "--data", "small", "--shot", 2)
    assert f"fewset eval {out}" in output

    items = task_embeddings(5)
    expected = load_authors_checkpoint(path, method, "ConvNet", temperature=32)
    assert torch.equal(logits_of(fewset.load(out), items, 5), logits_of(expected, items, 5))
    result = json.loads(succeed("eval", out, "--way", 3, "--query", 3, "--tasks", 7, "--json"))
    found = {key: result[key] for key in ("run", "method", "data", "shot", "tasks")}
    assert found == {"run": "theirs", "method": method, "data": "small", "shot": 2, "tasks": 7}
    assert re.search(r"sha256 [0-9a-f]{64}", (out / "log.txt").read_text())


def test_import_weights_replaces_a_run_only_when_asked(tmp_path: Path) -> None:
    out = tmp_path / "run"
    options = ["--backbone", "ConvNet", "--out", out]
    path = save(tmp_path, parameters("FEAT"))
    succeed("import-weights", path, *options, "--method", "FEAT")
    before = (out / "model.safetensors").read_bytes()
    save(tmp_path, parameters("DeepSet"))
    with pytest.raises(UserError, match="holds a run; --force replaces it"):
        succeed("import-weights", path, *options, "--method", "DeepSet")
    with pytest.raises(UserError, match="do not fit the model"):
        succeed("import-weights", path, *options, "--method", "FEAT", "--force")
    assert (out / "model.safetensors").read_bytes() == before
    succeed("import-weights", path, *options, "--method", "DeepSet", "--force")
    assert type(fewset.load(out).adapter).__name__ == "DeepSets"
