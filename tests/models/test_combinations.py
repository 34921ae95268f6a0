"""Any adapter before any head, any transform of the features before either."""

import pytest
import torch
from torch import nn

from fewset.models.adapters import ADAPTERS
from fewset.models.heads import HEADS
from fewset.models.layers.transform import FeatureTransform
from fewset.models.method_info import method_info
from fewset.models.model import FewShotModel
from tests.helpers.heads import QUERIES, SHOT, TASKS, WAY, normal

DIM = 18  # of images of 3 x 2 x 3; a BiLSTM halves it


@pytest.mark.parametrize("head", [name for name in HEADS if method_info(HEADS[name]).takes != "maps"])
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_gradients_go_through_every_head_and_every_adapter_to_the_images(adapter: str, head: str) -> None:
    torch.manual_seed(5)
    chosen = HEADS[head](DIM)
    steps = FeatureTransform(DIM, ("power", "l2", "centre"))
    steps.fit(normal(13, DIM, seed=4, dtype=torch.float32))
    average = "post" if method_info(chosen).every_shot else "pre"
    parts = nn.Flatten(1), ADAPTERS[adapter](DIM), chosen, average
    model = FewShotModel(*parts, feature_transform=steps).double()
    images = normal(TASKS * (WAY * SHOT + QUERIES), 3, 2, 3, seed=1).requires_grad_()
    support, query = model.embed(images).view(TASKS, -1, DIM).split([WAY * SHOT, QUERIES], dim=1)
    logits = model(support.reshape(TASKS, WAY, SHOT, DIM), query)
    assert logits.shape == (TASKS, QUERIES, WAY)
    logits.log_softmax(-1)[..., 0].sum().backward()
    for name, tensor in [("images", images), *model.adapter.named_parameters()]:
        assert tensor.grad is not None, name
        assert tensor.grad.isfinite().all(), name
    assert images.grad is not None
    assert images.grad.any()
