"""The sides of `fewset bench classify`: rows of photos, and a folder of photos to a saved classifier."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from fewset.bench.workers import Repetition
from fewset.classify.classifier import FewShotClassifier
from fewset.compute.device_names import find_device
from fewset.data.images.decoding import decode_photo, encode
from fewset.encoders import DEFAULT
from fewset.encoders.efficientnet_lite import (
    EPSILON,
    layer_state,
    load_efficientnet_lite,
    published_state,
)
from fewset.encoders.network import NetworkEncoder
from fewset.encoders.torch_networks.efficientnet_lite import SameConvolution

SEED = 0
_CLASSES = 5
_CELLS = (15, 20)  # patches of one colour, down and across


class _Normalised(nn.Module):
    """A convolution and the normalisation after it; the names are those of `layer_state`."""

    def __init__(self, conv: SameConvolution) -> None:
        super().__init__()
        conv.bias = None
        self.conv, self.norm = conv, nn.BatchNorm2d(conv.out_channels, eps=EPSILON)

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D h w"]:
        normalised: Tensor = self.norm(self.conv(images))
        return normalised


def plain_encoder(name: str, device: str, folded: bool = False) -> NetworkEncoder:
    """An EfficientNet-Lite as published code has it: NCHW, a convolution and then its normalisation.

    With `folded` the normalisation stays folded into the convolution.
    """
    encoder = load_efficientnet_lite(name, device, "torch")
    network: Any = encoder.network
    if not folded:
        for place, layer in list(network.named_modules()):
            if isinstance(layer, SameConvolution):
                network.set_submodule(place, _Normalised(layer))
        state = layer_state(published_state(name))
        network.load_state_dict({key: torch.from_numpy(values) for key, values in state.items()})
    network.eval().requires_grad_(False).to(device, memory_format=torch.contiguous_format)
    return replace(encoder, network=lambda images: network(images.contiguous()))


ENGINES: dict[str, Callable[[str], NetworkEncoder]] = {
    "default": lambda device: load_efficientnet_lite(DEFAULT, device),
    "torch": lambda device: load_efficientnet_lite(DEFAULT, device, "torch"),
    "onnxruntime": lambda device: load_efficientnet_lite(DEFAULT, device, "onnxruntime"),
    "plain": lambda device: plain_encoder(DEFAULT, device),
    "plain and folded": lambda device: plain_encoder(DEFAULT, device, folded=True),
}


def write_photographs(folder: Path, count: int, width: int, height: int) -> None:
    """A folder a class with JPEG files, made up: patches of colour under the noise of a camera."""
    generator = np.random.default_rng(SEED)
    noise = generator.normal(scale=12, size=(height, width, 3)).astype(np.int16)
    down, across = (np.arange(side) * cells // side for side, cells in zip(noise.shape, _CELLS, strict=False))

    def write(number: int, patches: np.ndarray) -> None:
        pixels = (patches[down[:, None], across] + noise).clip(0, 255).astype(np.uint8)
        file = folder / f"class{number % _CLASSES}" / f"{number}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encode(pixels, "JPEG"))

    drawn = [generator.integers(0, 256, size=(*_CELLS, 3), dtype=np.int16) for _ in range(count)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(write, range(count), drawn))


class Rows:
    """Images in memory, of the size that the network takes, to rows of features."""

    def __init__(self, engine: str, device: str, images: int) -> None:
        self.encoder = ENGINES[engine](find_device(device))
        side = self.encoder.input_size
        pixels = np.random.default_rng(SEED).integers(256, size=(images, side, side, 3), dtype=np.uint8)
        self.images = [decode_photo(one, side) for one in pixels]

    def __call__(self) -> Repetition:
        began = time.perf_counter()
        rows = self.encoder(self.images)
        return {"seconds": time.perf_counter() - began, "images": len(rows), "row": rows[-1].tolist()}


_PREDICT = """
import sys
sys.modules.update(dict.fromkeys(sys.argv.pop().split()))
from fewset.__main__ import main
main()
"""


class Start:
    """`fewset predict` of one photo, as a new process. Seconds are those of the processor, not a clock's.

    :param hidden: libraries that the process does not find
    """

    def __init__(self, hidden: str = "") -> None:
        self.scratch = tempfile.TemporaryDirectory()
        self.folder, self.hidden = Path(self.scratch.name), hidden
        write_photographs(self.folder / "photographs", 2 * _CLASSES, 640, 480)
        FewShotClassifier().fit(self.folder / "photographs").save(self.folder / "my.fewset")

    def __call__(self) -> Repetition:
        photo = self.folder / "photographs" / "class0" / "0.jpg"
        command = [sys.executable, "-c", _PREDICT, "predict", "my.fewset", str(photo), self.hidden]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, cwd=self.folder, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {"seconds": seconds, "images": 1}


class Fit:
    """A folder of large photos to a saved classifier, with the encoder that users get, already loaded."""

    def __init__(self, device: str, photos: int, width: int, height: int) -> None:
        self.scratch, self.photos = tempfile.TemporaryDirectory(), photos
        self.folder = Path(self.scratch.name) / "photographs"
        write_photographs(self.folder, photos, width, height)
        self.encoder = load_efficientnet_lite(DEFAULT, find_device(device))

    def __call__(self) -> Repetition:
        ends, network_seconds = [], 0.0

        def watched(images: Any) -> Any:
            nonlocal network_seconds
            start = time.perf_counter()
            rows = self.encoder.network(images)
            if isinstance(rows, Tensor):  # a GPU is given work ahead of time
                rows = rows.cpu()
            ends.append(time.perf_counter())
            network_seconds += ends[-1] - start
            return rows

        began = time.perf_counter()
        classifier = FewShotClassifier(replace(self.encoder, network=watched)).fit(self.folder)
        classifier.save(Path(self.scratch.name) / "my.fewset")
        return {
            "seconds": time.perf_counter() - began,
            "embedded_seconds": ends[-1] - began,
            "network_seconds": network_seconds,
            "images": self.photos,
        }
