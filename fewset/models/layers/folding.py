"""BatchNorm folded into the convolutions before it: the same embeddings with one pass less."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

_TOLERANCE = 1e-5  # relative to the largest value of the embeddings


def fold(backbone: nn.Module, images: Float[Tensor, "B 3 H W"]) -> nn.Module:
    """A copy for evaluation in which each normalisation of a convolution's output is part of the convolution.

    A pass over a few images finds the pairs, and the embeddings of these images are compared: a pair that
    would change them by more than 1e-5, because the output is used elsewhere too, is not folded. Returns the
    backbone itself if nothing can be folded.
    """
    folded = deepcopy(backbone).eval()
    done = 0
    with torch.no_grad():
        expected: Tensor = folded(images)
        for names in _pairs(folded, images):
            convolution, normalisation = before = [folded.get_submodule(name) for name in names]
            fused = fuse_conv_bn_eval(convolution, normalisation)  # type: ignore[type-var, arg-type]
            _set(folded, names, [fused, nn.Identity()])
            change = (folded(images) - expected).abs().max()
            if change <= _TOLERANCE * expected.abs().max():
                done += 1
            else:
                _set(folded, names, before)
    return folded if done else backbone


def _set(backbone: nn.Module, names: Sequence[str], modules: Sequence[nn.Module]) -> None:
    for name, module in zip(names, modules, strict=True):
        backbone.set_submodule(name, module)


def _pairs(backbone: nn.Module, images: Float[Tensor, "B 3 H W"]) -> list[tuple[str, str]]:
    """The names of each convolution and of the BatchNorm that takes its output as it is."""
    names = {module: name for name, module in backbone.named_modules()}
    outputs: list[tuple[Tensor, str]] = []
    pairs: list[tuple[str, str]] = []

    def note(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if isinstance(module, nn.Conv2d):
            outputs.append((output, names[module]))
        elif isinstance(module, nn.BatchNorm2d) and module.track_running_stats:
            pairs.extend((name, names[module]) for made, name in outputs if made is inputs[0])

    hooks = [module.register_forward_hook(note) for module in names]
    try:
        backbone(images)
    finally:
        for hook in hooks:
            hook.remove()
    return pairs
