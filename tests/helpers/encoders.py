"""Photographs that are none, and small models as other libraries write them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
import transformers
from PIL import Image

from fewset.io.files import write_json

_VISION = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 37,
    "image_size": 30,
    "patch_size": 10,
}
_TEXT = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 13}
_SPECIAL = {"vocab_size": 99, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
_CONVOLUTIONS = {"hidden_sizes": [8, 12, 16, 23], "depths": [1, 1, 1, 1]}
_CROPPED = {"size": {"shortest_edge": 37}, "crop_size": {"height": 30, "width": 30}}

# Of each kind the configuration, the processor, and its options: each kind resizes in its own way.
HUGGINGFACE: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "vit": (
        transformers.ViTConfig(**_VISION),
        transformers.ViTImageProcessorPil,
        {"size": {"height": 30, "width": 30}},
    ),
    "dinov2": (
        transformers.Dinov2Config(**{**_VISION, "patch_size": 6}),
        transformers.BitImageProcessorPil,
        _CROPPED,
    ),
    "clip": (
        transformers.CLIPConfig(vision_config=_VISION, text_config=_TEXT | _SPECIAL, projection_dim=17),
        transformers.CLIPImageProcessorPil,
        _CROPPED,
    ),
    "convnext": (
        transformers.ConvNextConfig(**_CONVOLUTIONS),
        transformers.ConvNextImageProcessorPil,
        {"size": {"shortest_edge": 43}},
    ),
    "resnet": (
        transformers.ResNetConfig(embedding_size=8, **_CONVOLUTIONS),
        transformers.ConvNextImageProcessorPil,
        {"size": {"shortest_edge": 43}, "crop_pct": 0.8},
    ),
}


def write_huggingface(path: Path, kind: str = "vit") -> Path:
    """A random model of a kind of transformers with its processor, as saved by that library."""
    config, processor, options = HUGGINGFACE[kind]
    torch.manual_seed(0)
    transformers.AutoModel.from_config(config).save_pretrained(path)
    processor(**options).save_pretrained(path)
    return path


def write_onnx(
    path: Path,
    outputs: Sequence[str] = ("rows",),
    batch: int | str = "B",
    element: int = onnx.TensorProto.FLOAT,
    settings: dict[str, Any] | None = None,
) -> Path:
    """A network as a file, with some of these outputs: "maps" (B, 3, 19, 19) are the images, "tokens"
    (B, 361, 3) their pixels, "rows" (B, 5) their mean colour times `onnx_weight()`."""
    helper = onnx.helper
    shapes = {"maps": [batch, 3, 19, 19], "tokens": [batch, 361, 3], "rows": [batch, 5]}
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["images"], ["maps"], to=onnx.TensorProto.FLOAT),
            helper.make_node("Reshape", ["maps", "shape"], ["flat"]),
            helper.make_node("Transpose", ["flat"], ["tokens"], perm=[0, 2, 1]),
            helper.make_node("GlobalAveragePool", ["maps"], ["pooled"]),
            helper.make_node("Flatten", ["pooled"], ["colour"]),
            helper.make_node("MatMul", ["colour", "weight"], ["rows"]),
        ],
        "mean colour",
        [helper.make_tensor_value_info("images", element, [batch, 3, 19, 19])],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shapes[name]) for name in outputs],
        [
            onnx.numpy_helper.from_array(onnx_weight(), "weight"),
            onnx.numpy_helper.from_array(np.array([0, 3, 361]), "shape"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    write_json(path.with_name(f"{path.name}.json"), {"size": 19} if settings is None else settings)
    return path


def onnx_weight() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32)


def photograph(seed: int = 0, width: int = 97, height: int = 53) -> Image.Image:
    """Smooth colours, so that resizing leaves something of them."""
    pixels = np.random.default_rng(seed).integers(0, 256, size=(7, 5, 3), dtype=np.uint8)
    return Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC)
