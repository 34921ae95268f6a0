"""What every registered backbone must do; a new one is tested here without being named."""

from copy import deepcopy

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from fewset.models.backbones import BACKBONES, taken_by

B, SIZE = 3, 17
ON_IMAGES = [name for name, kind in BACKBONES.items() if taken_by(kind) == "images"]
ON_FEATURES = [name for name, kind in BACKBONES.items() if taken_by(kind) == "features"]


@pytest.fixture(scope="module", params=ON_IMAGES)
def backbone(request: pytest.FixtureRequest) -> nn.Module:
    """With running statistics and every other state as after some training."""
    torch.manual_seed(0)
    model = BACKBONES[request.param]()
    with torch.no_grad():
        for _ in range(2):
            model(torch.randn(B, 3, SIZE, SIZE))
    return model.eval()


def images(count: int = B) -> Tensor:
    return torch.randn(count, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_embeds_images_into_dim_numbers(backbone: nn.Module) -> None:
    embedded = backbone(images())
    assert embedded.shape == (B, backbone.dim)
    assert embedded.isfinite().all()
    assert len(embedded.unique(dim=0)) == B


@torch.no_grad()
def test_the_embedding_is_what_the_pool_makes_of_the_maps(backbone: nn.Module) -> None:
    if hasattr(backbone, "maps"):
        maps = backbone.maps(images())
        assert maps.shape[:2] == (B, backbone.dim)
        assert torch.equal(backbone.pool(maps), backbone(images()))
        if hasattr(backbone, "cut"):
            first, others = backbone.cut(2)
            torch.testing.assert_close(others(first(images())), maps)


@torch.no_grad()
def test_evaluation_twice_is_identical_and_leaves_no_trace(backbone: nn.Module) -> None:
    state = {key: value.clone() for key, value in backbone.state_dict().items()}
    assert torch.equal(backbone(images()), backbone(images()))
    assert all(torch.equal(value, state[key]) for key, value in backbone.state_dict().items())


@torch.no_grad()
def test_in_evaluation_one_image_never_influences_another(backbone: nn.Module) -> None:
    changed = images()
    changed[1] = -changed[1]
    first, second = backbone(images()), backbone(changed)
    assert torch.equal(first[[0, 2]], second[[0, 2]])
    assert not torch.equal(first[1], second[1])
    torch.testing.assert_close(backbone(images()[:1]), first[:1], rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_memory_format_changes_nothing(backbone: nn.Module) -> None:
    interleaved = images().contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(backbone(interleaved), backbone(images()), rtol=1e-4, atol=1e-4)


def test_the_gradient_reaches_every_parameter(backbone: nn.Module) -> None:
    """In evaluation mode, since batch normalisation takes the effect of a convolution's bias away."""
    embedded = backbone(images())
    (embedded * torch.randn(embedded.shape, generator=torch.Generator().manual_seed(2))).sum().backward()
    unreached = [
        name
        for name, parameter in backbone.named_parameters()
        if parameter.grad is None or not parameter.grad.any()
    ]
    assert unreached == []


@torch.no_grad()
def test_the_state_dict_holds_everything(backbone: nn.Module) -> None:
    other = type(backbone)()
    other.load_state_dict(load(save(backbone.state_dict())), strict=True)
    assert torch.equal(other.eval()(images()), backbone(images()))

    # Also what only training uses: with the same random numbers both go on in the same way.
    trained = []
    for model in (deepcopy(backbone), other):
        torch.manual_seed(3)
        trained.append(model.train()(images()))
    assert torch.equal(*trained)


@pytest.mark.parametrize("name", ON_IMAGES)
def test_size_mean_and_deviation_belong_to_the_backbone(name: str) -> None:
    given = {"input_size": 29, "mean": (0.1, 0.2, 0.3), "std": (0.5, 0.6, 0.7)}
    model = BACKBONES[name](**given)
    assert {key: getattr(model, key) for key in given} == given
    default = BACKBONES[name]()
    assert default.input_size > 0
    assert all(0 < value < 1 for value in (*default.mean, *default.std))
    assert (len(default.mean), len(default.std)) == (3, 3)


@pytest.mark.parametrize("name", ON_FEATURES)
@torch.no_grad()
def test_a_backbone_on_features_keeps_their_size_and_takes_each_row_by_itself(name: str) -> None:
    model = BACKBONES[name](7).eval()
    assert model.dim == 7
    rows = torch.randn(5, 3, 7, generator=torch.Generator().manual_seed(1))
    made = model(rows)
    assert made.shape == rows.shape
    assert made.isfinite().all()
    assert torch.equal(model(rows), made)
    torch.testing.assert_close(model(rows[2, 1]), made[2, 1])
