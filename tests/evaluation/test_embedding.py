import numpy as np
import torch
from torch import nn

from fewset.evaluation.embedding import embed_images, evaluating
from fewset.models.adapters.identity import Identity
from fewset.models.heads.prototype import PrototypeHead
from fewset.models.model import FewShotModel

DIM = 14


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
    model = FewShotModel(Pixels(), Identity(DIM), PrototypeHead(DIM))
    found = embed_images(model, images, rows, batch=2)
    assert model.backbone.seen == 5
    for place, row in enumerate(rows):
        crop = images[row, 1:6, 1:6].astype(np.float64) / 255
        expected = np.tile((crop.mean((0, 1)) - 0.5) / 0.25, 5)[:DIM]
        np.testing.assert_allclose(found[place].numpy(), expected, atol=1e-6)


def test_evaluating_gives_every_module_its_own_mode_back() -> None:
    model = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout())).train()
    model[1].eval()
    with evaluating(model):
        assert not model[0].training
        assert torch.is_inference_mode_enabled()
    assert model[0].training
    assert not model[1].training
