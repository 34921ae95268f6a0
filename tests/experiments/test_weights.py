import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import fewset
from fewset.core.errors import UserError
from fewset.core.parsing import plain
from fewset.experiments.build import build_model
from fewset.experiments.config import ModelConfig
from fewset.experiments.weights import load, load_weights, save_weights
from fewset.io.files import digest_path

SMALL = ModelConfig(
    backbone_options={"input_size": 16, "dim": 8}, adapter="attention", adapter_options={"heads": 2}
)


def test_a_weights_file_is_self_describing_and_reproducible(tmp_path: Path) -> None:
    model = build_model(SMALL, seed=3)
    for name in ("one", "two"):
        save_weights(model, SMALL, tmp_path / f"{name}.safetensors")
    assert (tmp_path / "one.safetensors").read_bytes() == (tmp_path / "two.safetensors").read_bytes()
    loaded, config = load_weights(tmp_path / "one.safetensors")
    assert config == SMALL
    assert not loaded.training
    images = torch.randint(
        0, 256, (3, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    torch.testing.assert_close(loaded.embed(images), model.eval().embed(images), rtol=0, atol=0)


def changed(path: Path, config: ModelConfig, tensors: dict[str, torch.Tensor], **model: object) -> Path:
    """A weights file with other values, or with another description of its model."""
    save_weights(build_model(config), config, path)
    description = {"format": 1, "model": plain(config) | model}
    save_file(load_file(path) | tensors, path, metadata={"fewset": json.dumps(description)})
    digest_path(path).unlink()
    return path


def test_weights_that_do_not_fit_are_named(tmp_path: Path) -> None:
    small = ModelConfig(backbone_options=SMALL.backbone_options)
    tensors = {"extra": torch.zeros(3), "backbone.blocks.1.0.bias": torch.zeros(5)}
    with pytest.raises(UserError) as error:
        load(changed(tmp_path / "weights", small, tensors, adapter="attention"))
    for part in ("missing adapter.layers.0.", "unexpected extra", "bias has shape (5,), expected (8,)"):
        assert part in str(error.value)


def test_values_that_are_not_finite_are_rejected_by_name(tmp_path: Path) -> None:
    bias = torch.zeros(8)
    bias[3] = torch.nan
    path = changed(tmp_path / "weights", SMALL, {"backbone.blocks.1.0.bias": bias})
    with pytest.raises(UserError, match=r"not finite in backbone\.blocks\.1\.0\.bias"):
        load(path)


def test_a_mean_that_is_not_set_yet_is_no_damage(tmp_path: Path) -> None:
    small = {"input_size": 16, "dim": 8}
    centred = ModelConfig(backbone_options=small, feature_transform=("centre",))
    path = changed(tmp_path / "weights", centred, {})
    assert load(path).feature_transform.mean.isnan().all()
    half = torch.ones(8)
    half[0] = torch.nan
    with pytest.raises(UserError, match=r"not finite in feature_transform\.mean"):
        load(changed(path, centred, {"feature_transform.mean": half}))


def test_another_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"not weights at all")
    with pytest.raises(UserError, match="not a weights file"):
        load(tmp_path / "weights")
    with pytest.raises(UserError, match="unknown run directory, weights file or released model"):
        load(tmp_path / "absent")
    with pytest.raises(UserError, match="unfinished"):
        load(tmp_path)


@pytest.mark.parametrize("place", [0.0, 0.5, 0.999])
def test_a_flipped_bit_is_noticed(place: float, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_weights(build_model(SMALL), SMALL, path)
    load(path)
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"model\.safetensors is damaged: its sha256 is not the one") as error:
        load(path)
    assert "\n" not in str(error.value)


def test_threads_that_load_leave_the_random_state_alone() -> None:
    before = torch.random.get_rng_state()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(fewset.load, ["miniimagenet-conv4-feat-1shot"] * 24))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_users_own_directory_may_be_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "run").mkdir()
    save_weights(build_model(SMALL), SMALL, tmp_path / "run" / "model.safetensors")
    assert load("~/run").dim == 8


def test_weights_that_claim_more_than_the_memory_holds_are_rejected(tmp_path: Path) -> None:
    config = ModelConfig(backbone="features", backbone_options={"dim": 7}, adapter="attention")
    path = changed(tmp_path / "weights", config, {}, backbone_options={"dim": 10**9})
    with pytest.raises(UserError, match="describes a model that cannot be built"):
        load(path)
