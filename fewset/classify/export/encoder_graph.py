"""An encoder as ONNX: ``images`` (B, 3, H, W), normalised, in; ``rows`` (B, D) out."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from fewset.classify.export.tracing import traced
from fewset.core.errors import UserError
from fewset.core.extras import import_extra
from fewset.encoders import Encoder
from fewset.encoders.onnx_rows import IMAGES, ROWS, OnnxForm
from fewset.encoders.preprocessing import Preprocessing


@runtime_checkable
class NetworkParts(Protocol):
    """What an encoder must have to be exported, as a `NetworkEncoder` has it."""

    preprocessing: Preprocessing
    network: Callable[[Tensor], Tensor]


def parts_of(encoder: Encoder) -> NetworkParts:
    """The encoder's preprocessing and network, or an error for one that does not tell them apart."""
    if not isinstance(encoder, NetworkParts):
        raise UserError(
            f"the encoder {encoder.id} cannot be exported: it has no `preprocessing` and `network`; make it "
            "a NetworkEncoder, or fit the classifier with another encoder"
        )
    return encoder


def encoder_graph(encoder: Encoder) -> Any:
    """The graph (a `ModelProto`). A network that has an ONNX form says so, any other is traced."""
    onnx = import_extra("onnx", "export")
    parts = parts_of(encoder)
    network: object = parts.network
    if isinstance(network, OnnxForm):
        return onnx.load_from_string(network.onnx_model())
    size = (2, 3, parts.preprocessing.height, parts.preprocessing.width)
    images = torch.randn(size, generator=torch.Generator().manual_seed(0)).to(encoder.device)
    what = f"the encoder {encoder.id}"
    return traced(parts.network, {IMAGES: images}, {IMAGES: {0: "B"}}, ROWS, what)
