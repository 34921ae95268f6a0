"""Files of PyTorch: the authors' checkpoints, and the checkpoint that a training goes on from."""

import io
import shutil
from functools import cache
from random import Random
from typing import Any

import torch

from tests.fuzz.case import Case, command, reader
from tests.fuzz.room import Room
from tests.helpers.containers import changed_zip
from tests.helpers.damage import Spared, altered, damaged, odd_text
from tests.helpers.tiny_recipes import TRAIN


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


def damaged_file(data: bytes, rng: Random) -> bytes:
    if data[:2] == b"PK" and rng.random() < 0.6:
        return changed_zip(data, rng, lambda content: damaged(content, rng))
    return damaged(data, rng)


def odd_tensors(state: dict[str, Any], rng: Random) -> dict[str, Any]:
    """A state dict in which a tensor is of another kind, or none at all."""
    if isinstance(rng, Spared):
        return state
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
    state = _conv4()
    wrapped: Any = rng.choice(({"params": state}, {"state_dict": state, "epoch": 3}, state))
    kind = rng.randrange(3)
    if kind == 0:
        data = damaged_file(saved(wrapped, rng), rng)
    elif kind == 1:
        data = saved({"params": odd_tensors(state, rng)}, rng)
    else:
        data = saved(altered(wrapped, rng), rng)
    file = room.work / "published.pth"
    file.write_bytes(data)
    method = "ProtoNet" if isinstance(rng, Spared) else rng.choice(("ProtoNet", "FEAT", "MatchNet"))
    return command("import-weights", file, "--method", method, "--backbone", "ConvNet", "--out", "imported")


@reader("checkpoints of a training")
def resumed(room: Room, rng: Random) -> Case:
    """Sometimes the digest beside is that of the damaged file, so that it is not found by it."""
    from fewset.experiments.recipes import recipe_text
    from fewset.io.files import digest_path, file_digest
    from tests.helpers.tiny_recipes import recipe

    runs = room.work / "runs"
    shutil.copytree(room.runs / "feat", runs / "feat")
    shutil.copytree(room.runs / "pre", runs / "pre")
    (runs / "feat" / "result.json").unlink()
    file = runs / "feat" / "checkpoint" / "last.pt"
    if rng.random() < 0.3 and not isinstance(rng, Spared):
        data = saved(altered(torch.load(file, weights_only=True), rng), rng)
    else:
        data = damaged_file(file.read_bytes(), rng)
    known = data != file.read_bytes()
    file.write_bytes(data)
    if rng.random() < 0.7:
        digest_path(file).write_text(f"{file_digest(file)}  {file.name}\n")
        known = False
    (room.work / "feat.toml").write_text(recipe_text(recipe(TRAIN, epochs=1)))
    words = "train", "feat.toml", "--out", runs / "feat", "--resume", "--runs", runs
    return command(*words, only_refusal=known)
