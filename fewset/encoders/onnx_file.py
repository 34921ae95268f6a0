"""`onnx:FILE`: any network in an ONNX file, computed by onnxruntime.

The file takes normalised images (B, 3, H, W) in float32. Its first output of shape (B, D) is the embedding;
if there is none, the average over the positions of its first output of shape (B, D, h, w). `FILE.json` beside
it says how images are prepared; these are the defaults::

    {"size": 224, "resize": 224, "stretch": false, "resample": "bicubic",
     "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "scale": 0.00392156862745098}

The shorter side becomes `resize` pixels (by default `size`), or with `stretch` both sides; the central square
of `size` is cropped; pixels times `scale`, less `mean`, divided by `std`, are the input.
"""

import re
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float32

from fewset.core.errors import UserError
from fewset.core.parsing import parse
from fewset.encoders import register_encoder
from fewset.encoders.network import ArrayEncoder, tried
from fewset.encoders.onnx_rows import open_session, uniform_file
from fewset.encoders.preprocessing import FILTERS, Preprocessing
from fewset.io.paths import recorded_path, user_path
from fewset.io.reading import parsing, read_json, remedy
from fewset.models.channels import IMAGENET_MEAN, IMAGENET_STD, Channels

_LOCATION = re.compile(rb"\x0a\x08location\x12([\x80-\xff]{0,2}[\x00-\x7f])", re.DOTALL)


@dataclass(frozen=True)
class OnnxSettings:
    """The keys of `FILE.json`."""

    size: int = 224
    resize: int | None = None
    stretch: bool = False
    resample: Literal["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"] = "bicubic"
    mean: Channels = IMAGENET_MEAN
    std: Channels = IMAGENET_STD
    scale: float = 1 / 255

    def preprocessing(self) -> Preprocessing:
        side = self.resize or self.size
        resize = (side, side) if self.stretch else side
        resample = FILTERS[self.resample]
        return Preprocessing(self.size, self.size, resize, self.mean, self.std, resample, self.scale)


@register_encoder("onnx:")
def load_onnx(name: str, device: str) -> ArrayEncoder:
    """The encoder of an ONNX file and `FILE.json` beside it."""
    path = user_path(name)
    if not path.is_file():
        raise UserError(f"there is no file {path}; expected onnx:FILE with an ONNX file")
    with remedy("write it again"):
        preprocessing = _settings(path).preprocessing()
        with parsing(path):
            network = FileNetwork(open_session(path, device), path)
    digest = preprocessing.digest(parts_of(path))
    return tried(ArrayEncoder(f"onnx:{recorded_path(path)}", 0, digest, preprocessing, network, device), path)


def settings_of(path: Path) -> Path:
    """The file with the settings beside an ONNX file."""
    return path.with_name(f"{path.name}.json")


def parts_of(path: Path) -> list[Path]:
    """An ONNX file, and the files with its large weights.

    Their names follow the key "location" of an entry (`StringStringEntryProto`): the tag and the length of
    the key, the key, the tag of the value, its length, the value.
    """
    names = set()
    if not path.is_file() or not path.stat().st_size:  # a pipe would block
        return [path]
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        for found in _LOCATION.finditer(content):
            length = sum((byte & 127) << 7 * place for place, byte in enumerate(found[1]))
            names.add(content[found.end() : found.end() + length].decode(errors="replace"))
    others = (path.parent / name for name in sorted(names) if name and "\0" not in name)
    return [path, *(other for other in others if other.is_file())]


def _settings(path: Path) -> OnnxSettings:
    file = settings_of(path)
    if not file.exists():
        raise UserError(
            f'there is no {file}, which says how images are prepared; write for example {{"size": 224, '
            '"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]} into it'
        )
    with parsing(file):
        return parse(OnnxSettings, dict(read_json(file)), what=f"file {file}")


class FileNetwork:
    """The session as a function; a file with a fixed batch gets parts of that size, the last one padded."""

    def __init__(self, session: Any, path: Path) -> None:
        image, *others = session.get_inputs()
        if others or image.type != "tensor(float)" or len(image.shape) != 4:
            got = ", ".join(f"{each.name} {each.type} {each.shape}" for each in session.get_inputs())
            raise UserError(f"{path} takes {got}; expected one input: float32 images (B, 3, H, W)")
        self._session, self._path, self._image = session, path, image

    def __call__(self, images: Float32[np.ndarray, "B 3 H W"]) -> np.ndarray:
        fixed = self._image.shape[0]
        step = fixed if isinstance(fixed, int) else len(images)
        batch = np.pad(images, ((0, -len(images) % step), (0, 0), (0, 0), (0, 0)))
        parts = [
            _rows(self._session.run(None, {self._image.name: part}), self._path)
            for part in np.split(batch, len(batch) // step)
        ]
        return np.concatenate(parts)[: len(images)]

    def onnx_model(self) -> bytes:
        """The file with the embedding as its only output."""
        by_rank = {len(each.shape or ()): each.name for each in reversed(self._session.get_outputs())}
        for rank in (2, 4):
            if rank in by_rank:
                return uniform_file(self._path, by_rank[rank], pooled=rank == 4)
        raise UserError(f"{self._path} lacks the shapes of its outputs; write it with their shapes")


def _rows(outputs: list[np.ndarray], path: Path) -> np.ndarray:
    by_rank: dict[int, np.ndarray] = {output.ndim: output for output in reversed(outputs)}
    if 2 in by_rank:
        return by_rank[2]
    if 4 in by_rank:
        return np.asarray(by_rank[4].mean(axis=(2, 3)))
    shapes = ", ".join(str(output.shape) for output in outputs)
    raise UserError(f"{path} gives outputs of shape {shapes}; expected one of shape (B, D) or (B, D, h, w)")
