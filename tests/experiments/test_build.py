import pytest
import torch

from fewset.experiments.build import build_model
from fewset.experiments.config import ModelConfig
from fewset.runtime.errors import UserError


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
    ],
)
def test_an_unknown_part_or_option_is_named(config: ModelConfig, message: str) -> None:
    with pytest.raises(UserError) as error:
        build_model(config)
    assert message in str(error.value)


def test_initial_weights_come_from_the_seed() -> None:
    small = ModelConfig(backbone_options={"input_size": 16, "dim": 8}, adapter="attention")
    first, again, other = (build_model(small, seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_a_model_on_features_needs_their_size() -> None:
    with pytest.raises(UserError, match=r"backbone_options.dim is not given"):
        build_model(ModelConfig(backbone="features"))
    assert build_model(ModelConfig(backbone="features", backbone_options={"dim": 7})).dim == 7
