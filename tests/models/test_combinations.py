"""Any adapter before any head, any transform of the features before either."""

import pytest
import torch
from torch import nn

from fewset.models.about import about_of
from fewset.models.adapters import ADAPTERS
from fewset.models.heads import HEADS
from fewset.models.layers.transform import FeatureTransform
from fewset.models.model import FewShotModel
from tests.helpers.heads import QUERIES, SHOT, TASKS, WAY, normal

DIM = 18  # of images of 3 x 2 x 3; a BiLSTM halves it


@pytest.mark.parametrize("average", ["pre", "post"])
@pytest.mark.parametrize("head", [name for name in HEADS if not about_of(HEADS[name]).alone])
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_every_adapter_learns_through_every_head(adapter: str, head: str, average: str) -> None:
    torch.manual_seed(5)
    chosen = HEADS[head](DIM)
    if about_of(chosen).fitted:
        chosen.fit(normal(13, DIM, seed=3))
    steps = FeatureTransform(DIM, ("power", "l2", "centre"))
    steps.fit(normal(13, DIM, seed=4, dtype=torch.float32))
    backbone = nn.Flatten(1)
    model = FewShotModel(backbone, ADAPTERS[adapter](DIM), chosen, average, feature_transform=steps).double()
    embedded = model.embed(normal(TASKS * (WAY * SHOT + QUERIES), 3, 2, 3, seed=1))
    support, query = embedded.view(TASKS, -1, DIM).split([WAY * SHOT, QUERIES], dim=1)
    logits = model(support.reshape(TASKS, WAY, SHOT, DIM), query)
    assert logits.shape == (TASKS, QUERIES, WAY)
    logits.log_softmax(-1)[..., 0].sum().backward()
    for name, parameter in model.adapter.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    assert any(parameter.grad.any() for parameter in model.adapter.parameters()) or adapter == "identity"
