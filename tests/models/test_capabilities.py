"""What models say that they can do, from what their parts say."""

import pytest
from torch import nn

from fewset.core.errors import UserError
from fewset.models.adapters.attention import Attention
from fewset.models.adapters.identity import Identity
from fewset.models.backbones.conv4 import Conv4
from fewset.models.backbones.features import FeatureInput
from fewset.models.heads.prototype import PrototypeHead
from fewset.models.heads.simple_shot import SimpleShotHead
from fewset.models.model import FewShotModel, embedding_model, image_embedder
from fewset.models.task_model import Capabilities

DIM = 7


def model(backbone: nn.Module | None = None, adapter: nn.Module | None = None, head: nn.Module | None = None):
    parts = backbone or Conv4(dim=DIM), adapter or Identity(DIM), head or PrototypeHead(DIM)
    return FewShotModel(*parts)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({}, Capabilities("images", embeds=True, adapts=False, fitted=False)),
        ({"adapter": Attention(DIM)}, Capabilities("images", embeds=True, adapts=True, fitted=False)),
        ({"head": SimpleShotHead(DIM)}, Capabilities("images", embeds=True, adapts=False, fitted=True)),
        ({"backbone": FeatureInput(DIM)}, Capabilities("features", embeds=True, adapts=False, fitted=False)),
    ],
    ids=["ProtoNet", "FEAT", "SimpleShot", "features"],
)
def test_a_model_can_do_what_its_parts_can(parts: dict[str, nn.Module], expected: Capabilities) -> None:
    found = model(**parts)
    assert found.capabilities == expected
    assert embedding_model(found, "a test") is found


def test_a_part_that_says_nothing_takes_images_and_adapts() -> None:
    """As in a stranger's file."""
    adapts = model(nn.Identity(), nn.Identity(), nn.Identity()).capabilities
    assert adapts == Capabilities("images", embeds=True, adapts=True, fitted=False)


def test_a_model_on_features_embeds_no_images() -> None:
    assert image_embedder(model(), "a test").capabilities.takes == "images"
    with pytest.raises(UserError, match="a test embeds images, and this model takes features"):
        image_embedder(model(FeatureInput(DIM)), "a test")
