"""What models can do, by what their parts say; and parts that cannot be combined."""

import pytest
from torch import nn

from fewset.core.errors import UserError
from fewset.models.adapters.attention import Attention
from fewset.models.adapters.identity import Identity
from fewset.models.backbones.conv4 import Conv4
from fewset.models.backbones.features import FeatureInput
from fewset.models.heads.prototype import PrototypeHead
from fewset.models.method_info import MethodInfo, method_info
from fewset.models.model import FewShotModel, embedding_model, image_embedder
from fewset.models.task_model import Capabilities

DIM = 7


def model(backbone: nn.Module | None = None, adapter: nn.Module | None = None, head: nn.Module | None = None):
    parts = backbone or Conv4(dim=DIM), adapter or Identity(DIM), head or PrototypeHead(DIM)
    return FewShotModel(*parts)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({}, Capabilities("images", embeds=True, adapts=False)),
        ({"adapter": Attention(DIM)}, Capabilities("images", embeds=True, adapts=True)),
        ({"backbone": FeatureInput(DIM)}, Capabilities("features", embeds=True, adapts=False)),
    ],
    ids=["ProtoNet", "FEAT", "features"],
)
def test_a_model_can_do_what_its_parts_can(parts: dict[str, nn.Module], expected: Capabilities) -> None:
    found = model(**parts)
    assert found.capabilities == expected
    assert embedding_model(found, "a test") is found


def test_a_custom_part_without_attributes_takes_images_and_adapts() -> None:
    adapts = model(nn.Identity(), nn.Identity(), nn.Identity()).capabilities
    assert adapts == Capabilities("images", embeds=True, adapts=True)


def test_a_model_on_features_embeds_no_images() -> None:
    assert image_embedder(model(), "a test").capabilities.takes == "images"
    with pytest.raises(UserError, match="takes features"):
        image_embedder(model(FeatureInput(DIM)), "a test")


def test_the_summary_of_a_custom_member_is_the_first_line_of_its_docstring() -> None:
    class Custom:
        """Somebody's head.

        With more to say.
        """

    assert method_info(Custom) == method_info(Custom()) == MethodInfo("Somebody's head.")


class OnMaps(PrototypeHead):
    about = MethodInfo("a head on maps", "nobody", takes="maps")


def test_a_head_on_maps_follows_no_adapter() -> None:
    with pytest.raises(UserError, match="OnMaps takes maps, and adapters adapt embeddings"):
        FewShotModel(Conv4(dim=DIM), Attention(DIM), OnMaps(DIM))
    assert isinstance(FewShotModel(Conv4(dim=DIM), Identity(DIM), OnMaps(DIM)).head, OnMaps)
