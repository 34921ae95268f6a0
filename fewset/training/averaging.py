"""A moving average of the weights in training, which is validated and kept in place of the last ones."""

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


def follow(model: nn.Module, optimiser: torch.optim.Optimizer, decay: float) -> AveragedModel:
    """The exponential moving average of a model over the optimiser's steps, its first being a copy.

    After each step it is `decay` times what it was plus the rest of what the model is. So are the statistics
    of BatchNorm: those of the last epochs, by the same weights. It is a module, so a checkpoint holds it.
    """
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True)  # type: ignore[no-untyped-call]
    average.requires_grad_(False)
    optimiser.register_step_post_hook(lambda *_: average.update_parameters(model))
    return average
