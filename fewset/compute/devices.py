"""The device, and the precision of the backbone in training."""

import signal
import subprocess
import sys
from functools import cache
from typing import Literal

import torch
from jaxtyping import Shaped
from torch import Tensor

from fewset.compute.device_names import find_device
from fewset.compute.distributed import all_gather

Precision = Literal["float32", "bfloat16"]

# Training in bfloat16, small: a convolution, a matrix product, and their gradients.
_PROBE = """
import torch
convolution, linear = torch.nn.Conv2d(64, 64, 3), torch.nn.Linear(64, 64)
with torch.autocast("cpu", torch.bfloat16):
    total = linear(convolution(torch.ones(8, 64, 16, 16)).amax((2, 3))).sum()
total.backward()
"""


def pick_device(name: str = "auto") -> torch.device:
    """The device that `find_device` names."""
    return torch.device(find_device(name))


def device_name(device: torch.device) -> str:
    """The name of the device in records: "cpu", "mps", or the name of the GPU."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def send(values: Shaped[Tensor, "*any"], device: torch.device) -> Shaped[Tensor, "*any"]:
    """The values on the device; to a GPU through pinned memory, without waiting for the copy."""
    if device.type != "cuda":
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


def usable_precision(wanted: Precision, device: torch.device) -> tuple[Precision, str]:
    """The precision that all processes can use, and a message for the user if it is another one."""
    problems = [] if wanted == "float32" else list(filter(None, all_gather(_problem(device))))
    return ("float32", f"bfloat16 is not usable {problems[0]}: using float32") if problems else (wanted, "")


def _problem(device: torch.device) -> str:
    if device.type == "cpu":
        return _probe()
    supported = device.type == "cuda" and torch.cuda.is_bf16_supported()
    return "" if supported else f"on {device_name(device)}"


@cache
def _probe() -> str:
    """The problem with bfloat16 on this CPU, if any, found in another process.

    Some machines advertise instructions for it (AMX) that the system traps: a signal ends the process.
    """
    code = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, check=False).returncode
    if not code:
        return ""
    ended = f"ended with {signal.Signals(-code).name}" if code < 0 else f"failed with exit code {code}"
    return f"on this CPU (the probe {ended})"
