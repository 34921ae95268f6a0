"""What the frozen part of a backbone makes of the images: shared by those that would make the same."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fewset.data.images.store import ImageSet, open_set, set_path, write_store
from fewset.evaluation.embedding import embed_images
from fewset.io.files import digest_path
from fewset.models.adapters.attention import Attention
from fewset.models.backbones.conv4 import Conv4
from fewset.models.heads.prototype import PrototypeHead
from fewset.models.model import FewShotModel
from fewset.training import frozen
from fewset.training.batches import TrainingItems
from fewset.training.episodic import TrainConfig
from fewset.training.frozen import FrozenTraining

DIM = 7


class Scaled(nn.Module):
    """An activation with options of every kind that neither the weights nor its `repr` show."""

    def __init__(
        self,
        factor: float = 1.0,
        shift: Tensor | None = None,
        offset: float = 0.0,
        function: Callable[[Tensor], Tensor] = torch.relu,
    ) -> None:
        super().__init__()
        self.factor, self.function = {"of the output": factor}, function
        self.shift = torch.zeros(1) if shift is None else shift
        self.register_buffer("offset", torch.tensor(offset), persistent=False)

    def forward(self, features: Tensor) -> Tensor:
        return self.factor["of the output"] * self.function(features + self.shift.sum()) + self.offset


def shift_at(place: int) -> Tensor:
    """Large: the `repr` of such a tensor shows only its corners."""
    shift = torch.zeros(5001)
    shift[place] = 0.5
    return shift * torch.arange(5001)


class Options(nn.Module):
    """A backbone of a block with options, and one without."""

    dim, mean, std = DIM, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)

    def __init__(self, input_size: int = 16, **options: Any) -> None:
        super().__init__()
        self.input_size = input_size
        self.first = nn.Sequential(nn.Conv2d(3, DIM, 3, stride=4), Scaled(**options))
        self.last = nn.Conv2d(DIM, DIM, 3, padding=1)
        self.pool = nn.Sequential(nn.AdaptiveMaxPool2d(1), nn.Flatten())

    def forward(self, images: Tensor) -> Tensor:
        return self.pool(self.last(self.first(images)))

    def cut(self, _: int) -> tuple[nn.Module, nn.Module]:
        return self.first, self.last


OPTIONS: dict[str, dict[str, Any]] = {
    "number": {"factor": 1.25},
    "tensor": {"shift": shift_at(2501)},
    "other tensor": {"shift": shift_at(2502)},
    "buffer": {"offset": 0.5},
    "function": {"function": torch.tanh},
    "size": {"input_size": 12},
}
WHOLE = TrainConfig(way=2, query=2, validation_way=2, validation_query=2, freeze_backbone=True)
PARTLY = replace(WHOLE, freeze_backbone=False, frozen_blocks=1)


def model_of(backbone: Any) -> FewShotModel:
    """With weights that depend on their names and shapes alone."""
    model = FewShotModel(backbone, Attention(DIM), PrototypeHead(DIM))
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator)
    return model.eval()


def stage_of(images: ImageSet, config: TrainConfig, backbone: Any) -> FrozenTraining:
    return FrozenTraining(model_of(backbone), TrainingItems.of(images), config, seed=0)


@pytest.fixture(autouse=True)
def _nothing_shared_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen, "_tables", {})


@pytest.fixture
def larger_set() -> ImageSet:
    """Images of 37 pixels: the last block leaves several positions to the pool."""
    with write_store(
        set_path("larger"),
        size=37,
        labels=np.arange(7).repeat(5),
        class_names=[f"class {number}" for number in range(7)],
        splits=np.repeat([0, 1, 2], [3, 2, 2]).repeat(5),
        source="made by a test",
    ) as draft:
        draft.images[:] = np.random.default_rng(0).integers(0, 256, draft.images.shape)
    return open_set("larger")


def test_two_pools_of_the_same_weights_have_tables_of_their_own(larger_set: ImageSet) -> None:
    rows = larger_set.select("train").rows
    for pool in ("maximum", "average", "maximum"):
        stage = stage_of(larger_set, WHOLE, Conv4(37, dim=DIM, pool=pool))
        expected = embed_images(stage.model, larger_set.images, rows).numpy()
        np.testing.assert_array_equal(stage.table, expected, err_msg=pool)


def test_the_pool_behind_the_frozen_blocks_does_not_matter(larger_set: ImageSet) -> None:
    one, other = (
        stage_of(larger_set, PARTLY, Conv4(37, dim=DIM, pool=pool)) for pool in ("maximum", "average")
    )
    assert one.table is other.table


@pytest.mark.parametrize("config", [WHOLE, PARTLY], ids=["whole", "partly"])
@pytest.mark.parametrize("kept", [False, True], ids=["in the process", "in files"])
def test_every_option_counts(
    config: TrainConfig, kept: bool, tiny_set: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kept:
        monkeypatch.setenv("FEWSET_TABLES", str(tmp_path / "tables"))
    for options in ({}, *OPTIONS.values()):
        found = stage_of(tiny_set, config, Options(**options)).table
        frozen._tables.clear()
        monkeypatch.delenv("FEWSET_TABLES", raising=False)
        fresh = stage_of(tiny_set, config, Options(**options)).table
        np.testing.assert_array_equal(found, fresh, err_msg=str(options))
        frozen._tables.clear()
        if kept:
            monkeypatch.setenv("FEWSET_TABLES", str(tmp_path / "tables"))
        stage_of(tiny_set, config, Options())  # the tables that the next one must not take
        assert stage_of(tiny_set, config, Options()).table is stage_of(tiny_set, config, Options()).table


@pytest.mark.parametrize("damage", ["a bit", "truncated", "no digest", "a pickle"])
def test_a_kept_table_that_is_damaged_is_made_anew(
    damage: str, tiny_set: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEWSET_TABLES", str(tmp_path / "tables"))
    expected = np.array(stage_of(tiny_set, PARTLY, Options()).table)
    for file in (tmp_path / "tables").glob("*.npy"):
        content = bytearray(file.read_bytes())
        content[-1] ^= 0x40
        given = {"truncated": content[:100], "a pickle": pickle.dumps([1])}.get(damage, content)
        file.write_bytes(given)
        if damage == "no digest":
            digest_path(file).unlink()
    frozen._tables.clear()
    np.testing.assert_array_equal(stage_of(tiny_set, PARTLY, Options()).table, expected)


def test_names_and_shapes_of_the_weights_count(tiny_set: ImageSet) -> None:
    """Two kernels of the same numbers in the same order: 2 x 3 and 3 x 2."""
    tables = []
    for shape in ((2, 3), (3, 2)):
        backbone = Options()
        backbone.first[0] = nn.Conv2d(3, DIM, shape, stride=4)
        backbone.last = nn.Conv2d(DIM, DIM, 3, padding=1)
        tables.append(stage_of(tiny_set, WHOLE, backbone).table)
    assert not np.array_equal(*tables)
