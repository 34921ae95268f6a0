from math import cos, pi

import pytest
import torch
from torch import nn

from fewset.core.errors import UserError
from fewset.training.optimiser import OptimiserConfig, build_optimiser, rate_factor, set_rate


def factors(config: OptimiserConfig, epochs: int) -> list[float]:
    return [rate_factor(config, epoch, epochs) for epoch in range(epochs)]


def test_step_schedule_is_torchs() -> None:
    parameter = nn.Parameter(torch.zeros(1))
    theirs = torch.optim.SGD([parameter], lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(theirs, step_size=3, gamma=0.5)
    mine = factors(OptimiserConfig(schedule="step", step_size=3, gamma=0.5), 11)
    for factor in mine:
        assert factor == pytest.approx(schedule.get_last_lr()[0])
        theirs.step()
        schedule.step()


def test_milestones_cosine_and_constant() -> None:
    milestones = OptimiserConfig(schedule="milestones", gamma=0.1, milestones=(2, 5))
    assert factors(milestones, 7) == pytest.approx([1, 1, 0.1, 0.1, 0.1, 0.01, 0.01])
    expected = [0.5 * (1 + cos(pi * epoch / 7)) for epoch in range(7)]
    assert factors(OptimiserConfig(schedule="cosine"), 7) == pytest.approx(expected)
    assert factors(OptimiserConfig(schedule="constant"), 3) == [1.0] * 3


def test_warmup_is_linear_and_ends() -> None:
    config = OptimiserConfig(schedule="constant", warmup=2.0)
    assert rate_factor(config, 0.0, 5) < 1e-6
    assert rate_factor(config, 0.5, 5) == pytest.approx(0.25)
    assert rate_factor(config, 2.0, 5) == pytest.approx(1.0)
    assert rate_factor(config, 4.0, 5) == 1.0


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_groups_have_their_own_rates(kind: str) -> None:
    backbone, other = nn.Linear(2, 3), nn.Linear(3, 5)
    config = OptimiserConfig(kind=kind, lr=0.01, other_lr_scale=10, weight_decay=0.125)
    optimiser = build_optimiser(config, backbone.parameters(), other.parameters())
    set_rate(optimiser, 0.5)
    assert [group["lr"] for group in optimiser.param_groups] == pytest.approx([0.005, 0.05])
    assert all(group["weight_decay"] == 0.125 for group in optimiser.param_groups)
    if kind == "sgd":
        assert all(group["nesterov"] and group["momentum"] == 0.9 for group in optimiser.param_groups)


def test_an_adapter_without_parameters_has_no_group() -> None:
    optimiser = build_optimiser(OptimiserConfig(), nn.Linear(2, 3).parameters(), [])
    assert len(optimiser.param_groups) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": 0.0}, "lr is 0"),
        ({"lr": 1e39}, "lr is 1e"),
        ({"other_lr_scale": 1e300}, "other_lr_scale"),
        ({"schedule": "milestones"}, "needs milestones"),
        ({"schedule": "step", "step_size": 0}, "step_size is 0"),
        ({"weight_decay": 1e39}, "weight_decay"),
        ({"warmup": -1.0}, "warmup"),
        ({"gamma": -0.5}, "gamma"),
        ({"momentum": 1.0}, "momentum"),
    ],
)
def test_impossible_values_are_rejected(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        OptimiserConfig(**options)
