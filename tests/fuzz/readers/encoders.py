"""Classifiers, and the networks of other programs: ONNX, transformers, the authors' checkpoints."""

import io
import json
import shutil
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from tests.fuzz.case import Case, command, reader
from tests.fuzz.room import Room
from tests.helpers.containers import spoil, spoiled
from tests.helpers.damage import Spared, altered, odd_text


def _fit(room: Room, encoder: str) -> Case:
    return command("fit", room.labelled, "-o", "out.fewset", "--encoder", encoder)


def _place(room: Room, rng: Random) -> Path:
    """A new directory: a process loads an encoder from a path once."""
    place = room.work / f"{rng.randrange(2**32):x}"
    place.mkdir()
    return place


@cache
def _onnx() -> Path:
    from tests.helpers.encoders import write_onnx

    settings = {"size": 19, "mean": [0.5] * 3, "std": [0.5] * 3}
    return write_onnx(Path(mkdtemp()) / "net.onnx", settings=settings)


@reader("ONNX encoders")
def onnx(room: Room, rng: Random) -> Case:
    place = _place(room, rng)
    files = [Path(shutil.copy(_onnx().with_name(name), place)) for name in ("net.onnx", "net.onnx.json")]
    spoil(rng.choice(files), rng)
    return _fit(room, f"onnx:{files[0]}")


@cache
def _huggingface() -> Path:
    from tests.helpers.encoders import write_huggingface

    return write_huggingface(Path(mkdtemp()) / "vit")


@reader("encoders of transformers")
def huggingface(room: Room, rng: Random) -> Case:
    folder = Path(shutil.copytree(_huggingface(), _place(room, rng) / "vit"))
    spoil(rng.choice(sorted(folder.iterdir())), rng)
    return _fit(room, f"hf:{folder}")


@reader("classifiers")
def classifiers(room: Room, rng: Random) -> Case:
    """Most have the digest of the damaged content: a wrong digest would hide all other damage."""
    file = room.work / "my.fewset"
    file.write_bytes(spoiled(room.classifier.read_bytes(), rng))
    if rng.random() < 0.8:
        with suppress(Exception):
            _sign(file)
    photo = room.labelled / "grass" / "0.png"
    return rng.choice((command("info", file), command("predict", file, photo, *room.tiny, "--reject")))


def _sign(file: Path) -> None:
    """Give a classifier the digest of its content."""
    from fewset.classify.saving import _digest

    with safe_open(file, "numpy") as opened:
        table = json.loads(opened.metadata()["fewset.classifier"])
    tensors = load_file(file)
    del table["sha256"]
    signed = json.dumps(table | {"sha256": _digest(table, tensors)})
    save_file(tensors, file, metadata={"fewset.classifier": signed})


# Checkpoints of the authors


@cache
def _conv4() -> dict[str, Any]:
    from fewset.models.backbones.conv4 import Conv4

    torch.manual_seed(0)
    state = Conv4().state_dict()
    return {name.replace("blocks", "encoder.encoder"): value for name, value in state.items()}


def saved(content: Any, rng: Random) -> bytes:
    """As PyTorch writes it today, or as it did before version 1.6."""
    buffer = io.BytesIO()
    torch.save(content, buffer, _use_new_zipfile_serialization=rng.random() < 0.7)
    return buffer.getvalue()


def _odd_tensors(state: dict[str, Any], rng: Random) -> dict[str, Any]:
    """A state dict in which a tensor is of another kind, or no tensor at all."""
    name = rng.choice(list(state))
    value = state[name]
    odd = [
        lambda: value.double(),
        lambda: value.to(torch.complex64),
        lambda: value.float() * float("nan"),
        lambda: value.float() / 0.0,
        lambda: value[:0] if value.dim() else value[None],
        lambda: value[None],
        lambda: value.float().to_sparse(),
        lambda: torch.quantize_per_tensor(value.float(), 0.1, 0, torch.qint8),
        lambda: torch.empty_like(value, device="meta"),
        lambda: value.tolist(),
        lambda: torch.nn.Parameter(value.float()),
        lambda: value.bool(),
        lambda: None,
        lambda: torch.zeros(1).expand(2**20),
    ]
    return {**state, rng.choice((name, name, odd_text(rng))): rng.choice(odd)()}


@reader("checkpoints of the authors")
def authors(room: Room, rng: Random) -> Case:
    state, whole = _conv4(), isinstance(rng, Spared)
    content: Any = rng.choice(({"params": state}, {"state_dict": state, "epoch": 3}, state))
    kind = "bytes" if whole else rng.choice(("bytes", "tensors", "values"))
    if kind == "tensors":
        content = {"params": _odd_tensors(state, rng)}
    elif kind == "values":
        content = altered(content, rng)
    data = saved(content, rng)
    file = room.work / "published.pth"
    file.write_bytes(spoiled(data, rng) if kind == "bytes" else data)
    method = "ProtoNet" if whole else rng.choice(("ProtoNet", "FEAT", "MatchNet"))
    return command("import-weights", file, "--method", method, "--backbone", "ConvNet", "--out", "imported")
