import builtins
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fewset.compute import device_names, devices, distributed
from fewset.compute.device_names import find_device
from fewset.compute.devices import device_name, pick_device, usable_precision
from fewset.core.errors import UserError
from fewset.experiments.recipes import parse_recipe
from fewset.experiments.train_run import execute
from fewset.experiments.weights import load
from fewset.models.adapters.identity import Identity
from fewset.models.backbones.conv4 import Conv4
from fewset.models.heads.prototype import PrototypeHead
from fewset.models.model import FewShotModel
from fewset.training.batches import embed_batch

CPU = torch.device("cpu")


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with two GPUs, up to the point where they would be used."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert pick_device() == pick_device("cpu") == CPU
    with pytest.raises(UserError, match="torch finds 0 here"):
        pick_device("cuda")


@pytest.mark.parametrize(
    "name", ["gpu", "cuda:", "cuda:x", "cuda:" + "9" * 5000, "cpu:1", "meta", ""], ids=lambda name: name[:8]
)
def test_other_names_are_rejected(name: str) -> None:
    with pytest.raises(UserError, match="expected cpu, cuda, cuda:1"):
        pick_device(name)


@pytest.mark.usefixtures("gpus")
def test_with_gpus() -> None:
    assert pick_device() == pick_device("cuda") == torch.device("cuda", 0)
    assert pick_device("cuda:1") == torch.device("cuda", 1)
    assert pick_device("cpu") == CPU
    with pytest.raises(UserError, match="torch finds 2 here"):
        pick_device("cuda:2")


@pytest.mark.usefixtures("gpus")
def test_each_process_has_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "_processes", distributed._Processes(rank=3, world=4, local_rank=1))
    assert pick_device() == torch.device("cuda", 1)
    with pytest.raises(UserError, match="one GPU, but there are 4 processes"):
        pick_device("cuda:1")


def test_the_gpu_of_a_mac(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test has one: up to the point where it would be used."""
    with pytest.raises(UserError, match="needs a Mac with an Apple GPU"):
        pick_device("mps")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    mps = torch.device("mps")
    assert pick_device("mps") == mps
    assert pick_device() == CPU  # only where it is asked for
    assert device_name(mps) == "mps"
    assert usable_precision("bfloat16", mps) == ("float32", "bfloat16 is not usable on mps: using float32")
    monkeypatch.setattr(distributed, "_processes", distributed._Processes(rank=0, world=2))
    with pytest.raises(UserError, match="one GPU, but there are 2 processes; give --device cpu"):
        pick_device("mps")


@pytest.mark.parametrize("driver", [True, False])
def test_torch_is_asked_for_a_gpu_only_where_there_is_a_driver(
    driver: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(device_names, "_has_driver", lambda: driver)
    monkeypatch.setattr(builtins, "__import__", _import_of_a_gpu(builtins.__import__))
    assert find_device() == ("cuda:0" if driver else "cpu")


def _import_of_a_gpu(original: Callable[..., Any]) -> Callable[..., Any]:
    """Imports, where torch finds a GPU."""
    gpu = SimpleNamespace(is_available=lambda: True, device_count=lambda: 1, set_device=lambda _: None)

    def imported(name: str, *rest: Any, **options: Any) -> Any:
        return SimpleNamespace(cuda=gpu) if name == "torch" else original(name, *rest, **options)

    return imported


def model() -> FewShotModel:
    torch.manual_seed(0)
    return FewShotModel(Conv4(input_size=16, dim=11), Identity(11), PrototypeHead(11))


@pytest.fixture
def trap(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a CPU that advertises AMX and traps it."""
    monkeypatch.setattr(devices, "_PROBE", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    devices._probe.cache_clear()
    yield
    devices._probe.cache_clear()


NOTE = "bfloat16 is not usable on this CPU (the probe ended with SIGILL): using float32"


@pytest.mark.usefixtures("trap")
def test_a_trapped_bfloat16_is_not_used() -> None:
    assert usable_precision("bfloat16", CPU) == ("float32", NOTE)
    assert usable_precision("float32", CPU) == ("float32", "")


def test_the_backbone_alone_computes_in_bfloat16() -> None:
    images = torch.randn(5, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    kinds = []
    one = model()
    one.backbone.blocks[3].register_forward_hook(lambda *args: kinds.append(args[2].dtype))
    exact, rough = (embed_batch(one, images, precision) for precision in ("float32", "bfloat16"))
    assert kinds == [torch.float32, torch.bfloat16]
    assert rough.dtype == torch.float32
    torch.testing.assert_close(rough, exact, rtol=0.05, atol=0.05)
    assert not torch.equal(rough, exact)
    rough.sum().backward()
    assert {value.grad.dtype for value in one.backbone.parameters()} == {torch.float32}


TRAIN = {
    "name": "proto",
    "data": {"set": "tiny"},
    "model": {"backbone": "conv4", "backbone_options": {"input_size": 16, "dim": 8}},
    "train": {
        "way": 3, "query": 3, "epochs": 1, "tasks_per_epoch": 2, "validation_tasks": 5, "validation_way": 3,
        "validation_query": 3, "precision": "bfloat16",
    },
    "evaluate": {"way": 3, "query": 3, "tasks": 23},
}  # fmt: skip


@pytest.mark.usefixtures("tiny_set", "trap")
def test_a_run_says_what_it_computes_in(tmp_path: Path) -> None:
    said: list[str] = []
    execute(parse_recipe(TRAIN), "train", tmp_path / "trapped", echo=said.append)
    environment = json.loads((tmp_path / "trapped" / "environment.json").read_text())
    assert (environment["precision"], environment["device"], environment["processes"]) == (
        "float32",
        "cpu",
        1,
    )
    assert said == [NOTE]
    assert NOTE in (tmp_path / "trapped" / "log.txt").read_text()
    plain = {**TRAIN, "train": {**TRAIN["train"], "precision": "float32"}}
    execute(parse_recipe(plain), "train", tmp_path / "plain")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("trapped", "plain")]
    assert weights[0] == weights[1]


@pytest.mark.usefixtures("tiny_set")
def test_bfloat16_leaves_float32_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_problem", lambda _: "")  # emulated where the CPU has none
    execute(parse_recipe(TRAIN), "train", tmp_path / "proto")
    assert json.loads((tmp_path / "proto" / "environment.json").read_text())["precision"] == "bfloat16"
    kinds = {value.dtype for value in load(tmp_path / "proto").parameters()}
    assert kinds == {torch.float32}
