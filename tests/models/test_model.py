import numpy as np
import pytest
import torch
from torch import nn

from fewset.core.errors import UserError
from fewset.models.adapters import ADAPTERS
from fewset.models.adapters.attention import Attention
from fewset.models.adapters.identity import Identity
from fewset.models.backbones.features import FeatureInput
from fewset.models.heads.prototype import PrototypeHead
from fewset.models.layers.transform import FeatureTransform
from fewset.models.method_info import MethodInfo, method_info
from fewset.models.model import FewShotModel, embedding_model, image_embedder
from fewset.models.task_model import Capabilities

DIM = 14  # even, for the two directions of a BiLSTM


class Flat(nn.Module):
    """A backbone that keeps the pixels, to see what reaches it."""

    dim, input_size, mean, std = 75, 5, (0.1, 0.2, 0.3), (0.5, 0.25, 0.125)

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.flatten(1)

    def maps(self, images: torch.Tensor) -> torch.Tensor:
        return images


def model_with(adapter: str, **options: object) -> FewShotModel:
    torch.manual_seed(0)
    backbone = Flat()
    backbone.dim = DIM
    return FewShotModel(
        backbone, ADAPTERS[adapter](DIM), PrototypeHead(DIM, temperature=3.0), **options
    ).eval()


def tasks(seed: int = 0, places: tuple[int, ...] = ()) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = (2, 3, 5, *places, DIM), (2, 7, *places, DIM)
    support, query = (torch.randn(shape, generator=generator) for shape in shapes)
    return support, query


def test_bytes_are_normalised_with_the_backbones_own_numbers() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, size=(7, 3, 5, 5), dtype=np.uint8)
    model = FewShotModel(Flat(), Identity(75), PrototypeHead(75))
    mean, std = (np.array(values)[:, None, None] for values in (Flat.mean, Flat.std))
    expected = ((pixels / 255 - mean) / std).reshape(7, -1)
    np.testing.assert_allclose(model.embed(torch.from_numpy(pixels)).numpy(), expected, atol=1e-5)


def test_a_mirror_model_takes_the_mean_over_the_mirror_image_outside_training() -> None:
    images = torch.randn(7, 3, 5, 5)
    model = FewShotModel(Flat(), Identity(75), PrototypeHead(75), test_time_flip=True).eval()
    expected = ((images + images.flip(3)) / 2).flatten(1)
    torch.testing.assert_close(model.embed(images), expected)
    torch.testing.assert_close(model.embed(images.flip(3)), expected)
    torch.testing.assert_close(model.train().embed(images), images.flatten(1), rtol=0, atol=0)


def test_pre_and_post_averaging_against_a_loop() -> None:
    support, query = tasks()
    for average in ("pre", "post"):
        model = model_with("attention", average=average)
        found = model(support, query)
        for task in range(2):
            if average == "pre":
                adapted = model.adapter(support[task].mean(1)[None])[0]
            else:
                adapted = model.adapter(support[task].reshape(1, 15, DIM))[0].reshape(3, 5, DIM).mean(1)
            for place in range(7):
                for way in range(3):
                    expected = -((query[task, place] - adapted[way]) ** 2).sum() / 3
                    torch.testing.assert_close(found[task, place, way], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("average", ["pre", "post"])
@pytest.mark.parametrize("name", sorted(ADAPTERS))
def test_one_task_never_influences_another(name: str, average: str) -> None:
    model = model_with(name, average=average)
    support, query = tasks()
    together = model(support, query)
    support[0], query[0] = torch.nan, torch.nan
    torch.testing.assert_close(model(support, query)[1], together[1], rtol=1e-5, atol=1e-5)


def test_shots_that_differ_by_class_are_masked() -> None:
    support, query = tasks()
    counts = torch.tensor([[1, 2, 5], [3, 4, 1]])
    mask = torch.arange(5) < counts[..., None]
    padded = support.masked_fill(~mask.unsqueeze(-1), torch.nan)
    model = model_with("attention")
    found = model(padded, query, mask=mask)
    for task in range(2):
        means = torch.stack([support[task, way, : counts[task, way]].mean(0) for way in range(3)])
        expected = model(means[None, :, None], query[task : task + 1])
        torch.testing.assert_close(found[task : task + 1], expected, rtol=1e-4, atol=1e-4)


def test_an_adapted_shot_cannot_be_masked() -> None:
    support, query = tasks()
    mask = torch.ones(2, 3, 5, dtype=torch.bool)
    mask[0, 0, 0] = False
    with pytest.raises(UserError, match="average='pre'"):
        model_with("attention", average="post")(support, query, mask=mask)


def test_a_class_without_a_shot_is_rejected() -> None:
    support, query = tasks()
    mask = torch.ones(2, 3, 5, dtype=torch.bool)
    mask[1, 2] = False
    with pytest.raises(UserError, match="a class has no shot"):
        model_with("identity")(support, query, mask=mask)


def test_context_reaches_the_adapter() -> None:
    support, query = tasks()
    model = model_with("attention")
    found = model(support, query, context=query)
    adapted = model.adapter(torch.cat([support.mean(2), query], dim=1))[:, :3]
    expected = model.head(adapted.unsqueeze(2), query)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(found, model(support, query))


def test_a_transductive_model_takes_the_queries_as_its_context() -> None:
    support, query = tasks()
    inductive, transductive = model_with("attention"), model_with("attention", transductive=True)
    assert torch.equal(transductive(support, query), inductive(support, query, context=query))
    other = query[:, :3]
    assert torch.equal(transductive(support, query, context=other), inductive(support, query, context=other))


# The gate


@pytest.mark.parametrize("gate", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("average", ["pre", "post"])
def test_a_gate_keeps_a_part_of_the_adaptation(gate: float, average: str) -> None:
    gated = model_with("deepsets", gate=True, average=average)
    gated.gate.fill_(gate)
    support, query = tasks()
    adapted = model_with("deepsets", average=average).adapt(support)
    plain = model_with("identity", average=average).adapt(support)
    blended = gated.adapt(support)
    torch.testing.assert_close(blended, plain + gate * (adapted - plain))
    if gate in (0.0, 1.0):
        assert torch.equal(blended, adapted if gate else plain)
    unadapted = model_with("identity", average=average)(support, query)
    assert torch.equal(gated(support, query), unadapted) == (gate == 0)


def test_the_adapter_learns_as_if_there_were_no_gate() -> None:
    gated = model_with("deepsets", gate=True).train()
    gated.gate.fill_(0.0)
    support, query = tasks()
    assert torch.equal(gated(support, query), model_with("deepsets").train()(support, query))


def test_a_gate_is_part_of_the_state_where_there_is_one() -> None:
    assert "gate" not in model_with("attention").state_dict()
    assert model_with("attention", gate=True).state_dict()["gate"] == 1.0
    with pytest.raises(UserError, match="need an adapter that adapts"):
        model_with("identity", gate=True)


class OnMaps(PrototypeHead):
    """The head of the class means, on maps: each place of a query beside the same place of a class."""

    about = MethodInfo("a test", "nobody", takes="maps")

    def forward(self, support, query, mask=None):
        return super().forward(support.flatten(3), query.flatten(2), mask)


def test_a_head_on_maps_is_given_maps_with_the_channels_last() -> None:
    images = torch.randn(6, 3, 5, 4, generator=torch.Generator().manual_seed(0))
    model = FewShotModel(Flat(), Identity(3), OnMaps(3)).eval()
    assert model.capabilities.maps
    maps = model.items_of(images)
    torch.testing.assert_close(maps, images.permute(0, 2, 3, 1), rtol=0, atol=0)
    torch.testing.assert_close(
        model.embed(images), images.flatten(1), rtol=0, atol=0
    )  # what wants rows has rows
    support, query = maps[:4].unflatten(0, (1, 2, 2)), maps[4:].unsqueeze(0)
    for average in ("pre", "post"):
        model.average = average
        expected = -(query.unsqueeze(2) - support.mean(dim=2).unsqueeze(1)).square().sum(dim=(3, 4, 5))
        torch.testing.assert_close(model(support, query), expected)


def test_the_map_of_a_mirror_image_is_mirrored_back() -> None:
    """So that its places are those of the image, and a backbone that sees each pixel alone gives the same."""
    images = torch.randn(2, 3, 5, 4, generator=torch.Generator().manual_seed(0))
    model = FewShotModel(Flat(), Identity(3), OnMaps(3), test_time_flip=True).eval()
    torch.testing.assert_close(model.maps(images), images.permute(0, 2, 3, 1))


def test_a_transform_of_features_is_one_of_each_place() -> None:
    images = torch.randn(2, 3, 5, 4, generator=torch.Generator().manual_seed(0))
    steps = FeatureTransform(3, ("l2",))
    maps = FewShotModel(Flat(), Identity(3), OnMaps(3), feature_transform=steps).maps(images)
    torch.testing.assert_close(maps.norm(dim=-1), torch.ones(2, 5, 4))


def test_maps_and_what_works_on_embeddings_alone_are_told_apart() -> None:
    with pytest.raises(UserError, match="OnMaps takes maps, and FeatureInput gives none"):
        FewShotModel(FeatureInput(7), Identity(7), OnMaps(7))
    with pytest.raises(UserError, match="adapters adapt embeddings"):
        FewShotModel(Flat(), Attention(75), OnMaps(75))
    model = FewShotModel(Flat(), Identity(75), OnMaps(75))
    with pytest.raises(
        UserError, match="a test works on embeddings, and OnMaps takes maps; take another head"
    ):
        embedding_model(model, "a test")
    assert embedding_model(model, "a test", or_maps=True) is model
    embedder = image_embedder(model, "a test")
    assert not embedder.capabilities.maps
    assert embedder.backbone is model.backbone
    assert model.capabilities.maps


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((Flat(), Identity(7)), Capabilities("images", embeds=True, adapts=False)),
        ((Flat(), Attention(7)), Capabilities("images", embeds=True, adapts=True)),
        ((FeatureInput(7), Identity(7)), Capabilities("features", embeds=True, adapts=False)),
        ((nn.Identity(), nn.Identity()), Capabilities("images", embeds=True, adapts=True)),
    ],
    ids=["ProtoNet", "FEAT", "features", "custom parts without attributes"],
)
def test_a_model_can_do_what_its_parts_can(parts: tuple[nn.Module, ...], expected: Capabilities) -> None:
    found = FewShotModel(*parts, PrototypeHead(7))
    assert found.capabilities == expected
    assert embedding_model(found, "a test") is found
    if expected.takes == "features":
        with pytest.raises(UserError, match="takes features"):
            image_embedder(found, "a test")


def test_the_summary_of_a_custom_member_is_the_first_line_of_its_docstring() -> None:
    class Custom:
        """Somebody's head.

        With more to say.
        """

    assert method_info(Custom) == method_info(Custom()) == MethodInfo("Somebody's head.")
