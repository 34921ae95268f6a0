"""Encoders: photographs in, rows of features out. One file each, `@register_encoder("name")`.

The contract: fewset calls the registered function or class with the name of a device, `make("cuda:1")`, and
gets an encoder, which maps a sequence of Pillow images (upright, of any mode and size) to a float32 array
(n, `dim`), in their order, a few images in memory at a time. Preprocessing belongs to the encoder, as it
belongs to the weights. A name that ends in a colon is a family: `hf:DIRECTORY` calls
`make("DIRECTORY", device)`.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32

from fewset.compute.device_names import find_device
from fewset.core.errors import UserError
from fewset.core.registry import Registered, Registry
from fewset.encoders.preprocessing import PilImage

DEFAULT = "efficientnet-lite0"
FEW = 4
"""Images that a `ThreadedEncoder` embeds in one thread; more are divided between threads."""


@runtime_checkable
class Encoder(Protocol):
    """The encoder of a classifier."""

    @property
    def id(self) -> str:
        """The name under which `find_encoder` finds it again."""

    @property
    def dim(self) -> int: ...

    @property
    def input_size(self) -> int:
        """The least pixels that a side of an image should have; larger images are made smaller."""

    @property
    def digest(self) -> str:
        """The sha256 of its weights and of its preprocessing: rows of one digest go together."""

    @property
    def device(self) -> str:
        """Where it computes, as torch calls it: "cpu", "cuda:1", "mps"."""

    def __call__(self, images: Sequence[PilImage]) -> Float32[np.ndarray, "n D"]: ...


@runtime_checkable
class ThreadedEncoder(Encoder, Protocol):
    """An encoder that several threads may call at once."""

    @property
    def threads(self) -> int:
        """The number of threads that are worth it."""


ENCODERS: Registry[Callable[..., Encoder]] = Registry("encoder", __name__)


def register_encoder(name: str) -> Callable[[Registered], Registered]:
    """Make an encoder known by name: a decorator for the function or class that makes it.

    What is registered is called with the name of a device, such as "cpu" or "cuda:1", and returns an encoder
    (`Encoder`).

    Args:
        name: The name, which must be free. One that ends in a colon is a family: `hf:DIRECTORY` calls what
            is registered as `hf:` with the directory and the device.

    Returns:
        The decorator; it returns the function or class unchanged.

    Raises:
        ValueError: The name is taken.

    Example:
        >>> import fewset
        >>> import numpy as np
        >>> @fewset.register_encoder("mean-colour")
        ... class MeanColour:
        ...     id, dim, input_size, digest = "mean-colour", 3, 1, "mean-colour-1"
        ...
        ...     def __init__(self, device):
        ...         self.device = device
        ...
        ...     def __call__(self, images):
        ...         rows = [np.asarray(image.convert("RGB")).mean(axis=(0, 1)) for image in images]
        ...         return np.asarray(rows, dtype=np.float32)
    """
    return ENCODERS.register(name)


def is_encoder(name: str) -> bool:
    """Whether an encoder, or a family of encoders, has this name."""
    return _registered_name(name) in ENCODERS


def find_encoder(name: str = "auto", device: str = "auto") -> Encoder:
    """The encoder of that name; "auto" is the one that every installation has.

    Runs and released models are encoders too: see `fewset.experiments.run_encoder.load_encoder`.
    """
    registered = _registered_name(name)
    make = ENCODERS[registered]
    if not registered.endswith(":"):
        return make(find_device(device))
    argument = name.removeprefix(registered)
    if not argument:
        raise UserError(f"the encoder {name!r} needs a name after the colon, as in {name}my-model")
    return make(argument, find_device(device))


def _registered_name(name: str) -> str:
    family, colon, _ = name.partition(":")
    return DEFAULT if name == "auto" else family + colon
