"""Which device a name means. Torch takes a second to import, so it is asked only where it may find a GPU."""

import os
import sys
from pathlib import Path

from fewset.compute.distributed import local_rank, world_size
from fewset.core.errors import UserError
from fewset.core.names import shortened
from fewset.core.parsing import whole_number

_DRIVERS = ("nvidia*", "nvhost*", "nvmap", "dxg", "kfd")  # of NVIDIA, also under WSL, and of AMD


def find_device(name: str = "auto") -> str:
    """The device of that name, as torch calls it; "auto" is a GPU with CUDA if there is one.

    Each process of a machine has its own GPU. `mps` is the GPU of a Mac, which is used only where it is asked
    for.
    """
    if name == "auto":
        name = "cuda" if _has_cuda() else "cpu"
    kind, colon, number = name.partition(":")
    asked = whole_number(number)
    if kind not in ("cpu", "cuda", "mps") or (colon and (kind != "cuda" or asked is None)):
        raise UserError(
            f"--device is {shortened(name)!r}, expected cpu, cuda, cuda:1 (and so on), mps or auto"
        )
    if kind == "cpu":
        return kind
    if world_size() > 1 and (colon or kind == "mps"):
        other = "cpu" if kind == "mps" else "cuda"
        raise UserError(
            f"--device {name} is one GPU, but there are {world_size()} processes; give --device {other}"
        )
    import torch

    if kind == "mps":
        if not torch.backends.mps.is_available():
            raise UserError("--device mps needs a Mac with an Apple GPU; take --device cpu")
        return kind
    count, wanted = torch.cuda.device_count(), local_rank() if asked is None else asked
    if wanted >= count:
        raise UserError(
            f"--device {name} needs GPU {wanted}, but torch finds {count} here; take another, or --device cpu"
        )
    torch.cuda.set_device(wanted)
    return f"cuda:{wanted}"


def _has_cuda() -> bool:
    if "torch" not in sys.modules and not _has_driver():
        return False
    import torch

    return torch.cuda.is_available()


def _has_driver() -> bool:
    """Whether the system has the driver of a GPU that torch would call "cuda"."""
    if sys.platform == "win32":
        return Path(os.environ.get("SYSTEMROOT", "C:\\Windows"), "System32", "nvcuda.dll").exists()
    return any(any(Path("/dev").glob(driver)) for driver in _DRIVERS)
