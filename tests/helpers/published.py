"""The networks of the paper once more, as plain functions over the state dict.

In the published order of operations and by the published names, by which the authors' checkpoints are read.
"""

import torch.nn.functional as F
from torch import Tensor

State = dict[str, Tensor]


def conv(state: State, name: str, features: Tensor, stride: int = 1) -> Tensor:
    weight = state[f"{name}.weight"]
    return F.conv2d(
        features, weight, state.get(f"{name}.bias"), stride=stride, padding=(weight.shape[-1] - 1) // 2
    )


def norm(state: State, name: str, features: Tensor) -> Tensor:
    mean, variance, weight, bias = (
        state[f"{name}.{part}"].view(1, -1, 1, 1)
        for part in ("running_mean", "running_var", "weight", "bias")
    )
    return (features - mean) / (variance + 1e-5).sqrt() * weight + bias


def conv4(state: State, features: Tensor) -> Tensor:
    for block in range(4):
        features = F.relu(norm(state, f"blocks.{block}.1", conv(state, f"blocks.{block}.0", features)))
        features = F.max_pool2d(features, 2)
    return F.max_pool2d(features, 5).flatten(1)


def resnet12(state: State, features: Tensor) -> Tensor:
    for layer in ("layer1.0", "layer2.0", "layer3.0", "layer4.0"):
        residual = features
        for i in (1, 2, 3):
            residual = norm(state, f"{layer}.bn{i}", conv(state, f"{layer}.conv{i}", residual))
            if i < 3:
                residual = F.leaky_relu(residual, 0.1)
        shortcut = norm(state, f"{layer}.downsample.1", conv(state, f"{layer}.downsample.0", features))
        features = F.max_pool2d(F.leaky_relu(residual + shortcut, 0.1), 2)
    return F.avg_pool2d(features, 5).flatten(1)


def resnet18(state: State, features: Tensor) -> Tensor:
    features = F.relu(norm(state, "bn1", conv(state, "conv1", features)))
    for layer, block in ((layer, block) for layer in (1, 2, 3, 4) for block in (0, 1)):
        name, stride = f"layer{layer}.{block}", 2 if layer > 1 and block == 0 else 1
        residual = F.relu(norm(state, f"{name}.bn1", conv(state, f"{name}.conv1", features, stride)))
        residual = norm(state, f"{name}.bn2", conv(state, f"{name}.conv2", residual))
        if f"{name}.downsample.0.weight" in state:
            features = conv(state, f"{name}.downsample.0", features, stride)
            features = norm(state, f"{name}.downsample.1", features)
        features = F.relu(residual + features)
    return F.adaptive_avg_pool2d(features, 1).flatten(1)


def wrn28_10(state: State, features: Tensor) -> Tensor:
    features = conv(state, "conv1", features)
    for layer, block in ((layer, block) for layer in (1, 2, 3) for block in (0, 1, 2, 3)):
        name, stride = f"layer{layer}.{block}", 2 if layer > 1 and block == 0 else 1
        residual = conv(state, f"{name}.conv1", F.relu(norm(state, f"{name}.bn1", features)))
        residual = conv(state, f"{name}.conv2", F.relu(norm(state, f"{name}.bn2", residual)), stride)
        if f"{name}.shortcut.0.weight" in state:
            features = conv(state, f"{name}.shortcut.0", features, stride)
        features = residual + features
    return F.avg_pool2d(F.relu(norm(state, "bn1", features)), features.shape[-1]).flatten(1)
