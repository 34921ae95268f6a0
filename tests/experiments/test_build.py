import pytest
import torch
from torch import nn

from fewset.core.errors import UserError
from fewset.experiments.build import build_model
from fewset.experiments.config import ModelConfig
from fewset.models.backbones import register_backbone


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (ModelConfig(adapter="atention"), "unknown adapter 'atention'. Did you mean 'attention'"),
        (ModelConfig(backbone="vgg"), "unknown backbone 'vgg'"),
        (ModelConfig(head="forest"), "unknown head 'forest'"),
        (
            ModelConfig(adapter="attention", adapter_options={"head": 2}),
            "unknown option of adapter 'attention' 'head'",
        ),
        (ModelConfig(adapter="attention", adapter_options={"heads": "2"}), "adapter_options.heads is '2'"),
        (ModelConfig(head_options={"similarity": "dot"}), "unknown similarity 'dot'"),
        (ModelConfig(backbone_options={"dim": 0}), "backbone_options.dim is 0, expected 1 or more"),
        (ModelConfig(backbone_options={"dim": 2**70}), "cannot be made with backbone_options"),
        (ModelConfig(backbone_options={"dim": -1}), "cannot be made with backbone_options {'dim': -1}"),
        (ModelConfig(backbone_options={"input_size": 15}), "input_size is 15, expected 16 or more"),
        (ModelConfig(backbone_options={"std": [0.2, 0.0, 0.2]}), "backbone_options.std is"),
        (ModelConfig(adapter="attention", adapter_options={"dropout": 2.0}), "between 0 and 1, but got 2.0"),
    ],
)
def test_unknown_parts_and_impossible_options_are_rejected(config: ModelConfig, message: str) -> None:
    with pytest.raises(UserError) as error:
        build_model(config)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_initial_weights_come_from_the_seed() -> None:
    small = ModelConfig(backbone_options={"input_size": 16, "dim": 8}, adapter="attention")
    first, again, other = (build_model(small, seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_a_model_on_features_needs_their_size() -> None:
    with pytest.raises(UserError, match=r"backbone_options.dim is not given"):
        build_model(ModelConfig(backbone="features"))
    assert build_model(ModelConfig(backbone="features", backbone_options={"dim": 7})).dim == 7


def test_a_size_that_no_tensor_has_is_refused_in_one_line() -> None:
    with pytest.raises(UserError, match="cannot be made with backbone_options") as caught:
        build_model(ModelConfig(backbone_options={"dim": 2**70}))
    assert "\n" not in str(caught.value)


def test_a_part_without_options_needs_no_initialiser() -> None:
    @register_backbone("no-initialiser")
    class NoInitialiser(nn.Module):
        dim, input_size, mean, std = 3, 8, (0.5,) * 3, (0.5,) * 3

    assert isinstance(build_model(ModelConfig(backbone="no-initialiser")).backbone, NoInitialiser)
    with pytest.raises(UserError, match="unknown option"):
        build_model(ModelConfig(backbone="no-initialiser", backbone_options={"args": 1}))
