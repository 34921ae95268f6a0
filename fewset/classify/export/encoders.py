"""Encoders as ONNX graphs."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from fewset.core.errors import UserError
from fewset.core.extras import import_extra
from fewset.encoders import Encoder
from fewset.encoders.onnx_rows import IMAGES, ROWS, OnnxForm
from fewset.encoders.preprocessing import Preprocessing


@runtime_checkable
class NetworkParts(Protocol):
    """The attributes that an encoder needs for the export, as a `NetworkEncoder` has them."""

    preprocessing: Preprocessing
    network: Callable[[Any], Any]


def parts_of(encoder: Encoder) -> NetworkParts:
    """The encoder's preprocessing and network, or an error for one without them."""
    if not isinstance(encoder, NetworkParts):
        raise UserError(
            f"the encoder {encoder.id} cannot be exported: it has no `preprocessing` and `network`; make it "
            "a NetworkEncoder, or fit the classifier with another encoder"
        )
    return encoder


def encoder_graph(encoder: Encoder) -> Any:
    """The graph (a `ModelProto`): the ONNX form of a network that has one, else a trace."""
    onnx = import_extra("onnx", "export")
    parts = parts_of(encoder)
    network: object = parts.network
    if isinstance(network, OnnxForm):
        return onnx.load_from_string(network.onnx_model())
    import torch

    from fewset.classify.export.tracing import traced

    size = (2, 3, parts.preprocessing.height, parts.preprocessing.width)
    images = torch.randn(size, generator=torch.Generator().manual_seed(0)).to(encoder.device)
    what = f"the encoder {encoder.id}"
    return traced(parts.network, {IMAGES: images}, {IMAGES: {0: "B"}}, ROWS, what)
