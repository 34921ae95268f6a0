"""Optimiser and schedule. The rate is a pure function of the step, so that a checkpoint holds no schedule."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import cos, pi
from typing import Literal

import torch
from torch import nn

from fewset.core.errors import UserError

_LARGEST = 1e30  # rate or decay: PyTorch cannot convert one that float32 does not hold


@dataclass(frozen=True)
class OptimiserConfig:
    """Adam or stochastic gradient descent, and how the learning rate changes."""

    kind: Literal["adam", "sgd"] = "adam"  # sgd has Nesterov's momentum
    lr: float = 1e-4  # the learning rate of the backbone
    other_lr_scale: float = 10.0  # of adapter, head and classifier, times lr
    weight_decay: float = 0.0  # L2 penalty
    momentum: float = 0.9  # of sgd
    schedule: Literal["constant", "step", "milestones", "cosine"] = "step"  # how the rate changes
    gamma: float = 0.5  # factor of "step" and "milestones"
    step_size: int = 20  # epochs between two drops of "step"
    milestones: tuple[int, ...] = ()  # epochs at which "milestones" drops
    warmup: float = 0.0  # epochs of linear warm-up, with any schedule

    def __post_init__(self) -> None:
        rates = {"lr": self.lr, "other_lr_scale * lr": self.other_lr_scale * self.lr}
        for name, rate in rates.items():
            if not 0 < rate <= _LARGEST:
                raise UserError(f"{name} is {rate}, expected a rate above 0 and at most {_LARGEST:g}")
        if not 0 <= self.weight_decay <= _LARGEST or self.warmup < 0:
            raise UserError(
                f"weight_decay must be from 0 to {_LARGEST:g} and warmup 0 or more, got {self.weight_decay} "
                f"and {self.warmup}"
            )
        if not 0 < self.gamma <= 1 or not 0 < self.momentum < 1:
            raise UserError(
                f"gamma must be above 0 and at most 1, and momentum between 0 and 1, got {self.gamma} and "
                f"{self.momentum}"
            )
        if self.schedule == "step" and self.step_size < 1:
            raise UserError(f"step_size is {self.step_size}, expected 1 epoch or more")
        if self.schedule == "milestones" and not self.milestones:
            raise UserError("the schedule 'milestones' needs milestones, a list of epochs")


def rate_factor(config: OptimiserConfig, epoch: float, epochs: int) -> float:
    """The factor of all learning rates at `epoch` (with its fraction) of `epochs`."""
    warmup = min(1.0, (epoch + 1e-9) / config.warmup) if config.warmup else 1.0
    match config.schedule:
        case "constant":
            factor = 1.0
        case "step":
            factor = config.gamma ** (int(epoch) // config.step_size)
        case "milestones":
            factor = config.gamma ** sum(epoch >= milestone for milestone in config.milestones)
        case "cosine":
            factor = 0.5 * (1 + cos(pi * epoch / epochs))
    return warmup * factor


def build_optimiser(
    config: OptimiserConfig, backbone: Iterable[nn.Parameter], others: Iterable[nn.Parameter]
) -> torch.optim.Optimizer:
    """Two groups of parameters with their own rates; `base_lr` keeps the full rate of a group."""
    rates = ((list(backbone), config.lr), (list(others), config.lr * config.other_lr_scale))
    groups = [{"params": parameters, "lr": lr, "base_lr": lr} for parameters, lr in rates if parameters]
    if config.kind == "adam":
        return torch.optim.Adam(groups, weight_decay=config.weight_decay)
    return torch.optim.SGD(
        groups, lr=config.lr, momentum=config.momentum, nesterov=True, weight_decay=config.weight_decay
    )


def set_rate(optimiser: torch.optim.Optimizer, factor: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = group["base_lr"] * factor
