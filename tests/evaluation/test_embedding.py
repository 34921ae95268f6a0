from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn

from fewset.core.errors import UserError
from fewset.evaluation import embedding
from fewset.evaluation.embedding import embed_images, evaluating, temporary_table
from fewset.evaluation.scoring import evaluate
from fewset.models.adapters import ADAPTERS
from fewset.models.adapters.identity import Identity
from fewset.models.heads.prototype import PrototypeHead
from fewset.models.heads.relation import RelationHead
from fewset.models.model import FewShotModel
from fewset.tasks.spec import TaskSpec
from tests.helpers.embedded import DIM, Nothing, table


class Pixels(nn.Module):
    """A backbone that counts the images it sees: their mean colour, repeated."""

    dim, input_size, mean, std = DIM, 5, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.seen = 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.seen += len(images)
        return self.scale * images.mean((2, 3)).repeat(1, 5)[:, :DIM]


def test_every_image_is_embedded_once_in_order() -> None:
    images = np.random.default_rng(0).integers(0, 256, size=(23, 7, 7, 3), dtype=np.uint8)
    rows = np.array([5, 3, 19, 7, 11])
    model = FewShotModel(Pixels(), Identity(DIM), PrototypeHead(DIM)).eval()
    found = embed_images(model, images, rows, batch=2)
    assert model.backbone.seen == 5
    for place, row in enumerate(rows):
        crop = images[row, 1:6, 1:6].astype(np.float64) / 255
        expected = np.tile((crop.mean((0, 1)) - 0.5) / 0.25, 5)[:DIM]
        np.testing.assert_allclose(found[place].numpy(), expected, atol=1e-6)


class Corner(nn.Module):
    """A backbone that gives the corner pixel, the middle pixel, and the mean of what it sees."""

    dim, input_size, mean, std = 9, 6, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.ones(1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.cat([images[:, :, 0, 0], images[:, :, 3, 3], images.mean((2, 3))], dim=1)


def noisy_model() -> nn.Sequential:
    """Its outputs are random while it trains, and its statistics change."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.Dropout(), nn.Sequential(nn.BatchNorm1d(7), nn.LSTM(7, 3)))


def test_evaluating_leaves_every_module_in_its_mode() -> None:
    model = noisy_model().train()
    model[2].eval()
    modes = [module.training for module in model.modules()]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with evaluating(model) as evaluated:
        assert [module.training for module in model.modules()] == modes
        assert not any(module.training for module in evaluated.modules())
        assert torch.is_inference_mode_enabled()
        evaluated(torch.randn(11, 5))
    assert [module.training for module in model.modules()] == modes
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


def test_threads_evaluate_one_model_at_once() -> None:
    model = FewShotModel(Nothing(), ADAPTERS["attention"](DIM, dropout=0.5), PrototypeHead(DIM)).train()
    features, labels = table()
    spec = TaskSpec(way=3, shot=2, query=5, tasks=50)
    expected = evaluate(model, features, labels, spec).per_task
    with ThreadPoolExecutor(4) as pool:
        scores = list(
            pool.map(lambda chunk: evaluate(model, features, labels, spec, chunk=chunk), range(1, 25))
        )
    for score in scores:
        np.testing.assert_array_equal(score.per_task, expected)
    assert model.training


class Places(Corner):
    """The pixels themselves, from 0 to 1: a map."""

    dim, factor = 3, 1.0

    def maps(self, images: torch.Tensor) -> torch.Tensor:
        return self.factor * images

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.maps(images).mean((2, 3))


def test_maps_lie_in_half_precision_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(
        embedding, "temporary_table", lambda shape: made.append(temporary_table(shape)) or made[-1]
    )
    images = np.random.default_rng(0).integers(0, 256, size=(11, 6, 6, 3), dtype=np.uint8)
    model = FewShotModel(Places(), Identity(3), RelationHead(3)).eval()
    rows = np.array([5, 3, 7])
    table = embed_images(model, images, rows, batch=2)
    assert table.dtype == torch.float16
    assert isinstance(made[0], np.memmap)
    assert table.data_ptr() == made[0].ctypes.data
    np.testing.assert_allclose(table.float().numpy(), images[rows] / 255, atol=1e-3)
    model.backbone.factor = 1e6
    with pytest.raises(UserError, match="exceed half precision"):
        embed_images(model, images, rows)


class MeanColour(nn.Module):
    """The example of `register_backbone`: a backbone without parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.dim, self.input_size, self.mean, self.std = 3, 7, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.mean(dim=(2, 3))


def test_a_backbone_without_parameters_embeds_images_and_is_scored() -> None:
    model = FewShotModel(MeanColour(), Identity(3), PrototypeHead(3))
    labels = np.repeat(np.arange(5), 11)
    images = np.broadcast_to((40 * labels).astype(np.uint8)[:, None, None, None], (55, 7, 7, 3))
    features = embed_images(model, images, np.arange(55))
    assert evaluate(model, features, labels, TaskSpec(way=5, query=3, tasks=2)).mean == 1


def test_no_images_are_an_error_in_words() -> None:
    model = FewShotModel(MeanColour(), Identity(3), PrototypeHead(3))
    with pytest.raises(UserError, match="there are no images to embed"):
        embed_images(model, np.zeros((2, 7, 7, 3), dtype=np.uint8), np.zeros(0, dtype=np.int64))
