"""Process-wide settings for speed on a CPU, and a description of the machine for result files.

The command line calls `tune()` at its start; library users call it themselves. `FEWSET_TUNE=0` turns it off.
"""

import ctypes
import os
import platform
import subprocess
import sys
from pathlib import Path

import fewset

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


def tune(with_torch: bool = True) -> None:
    """Keep freed memory in the process, flush denormal values to zero, let idle threads sleep soon.

    - By default glibc returns large freed buffers to the system, and the page faults of getting them again
      dominate a convolutional training step.
    - Weights trained with weight decay hold denormal values, which make convolutions up to a hundred times
      slower.
    - OpenMP's threads spin while they wait, which slows all threads as soon as another program runs. Torch
      reads the time when it is first imported, so call `tune` before.

    Torch computes with `OMP_NUM_THREADS` threads, else with one for each core that this process may use.

    :param with_torch: False where it may turn out that torch is not needed: it is tuned if it is imported,
        so call `tune` again as soon as it may be
    """
    if os.environ.get("FEWSET_TUNE", "1") == "0":
        return
    if sys.platform == "linux" and platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)

    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

    if not with_torch and "torch" not in sys.modules:
        return
    import torch

    torch.set_flush_denormal(True)
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(usable_cores())


def computing_threads() -> int:
    """As many threads as torch computes with, or would if it were imported."""
    if "torch" in sys.modules:
        return int(sys.modules["torch"].get_num_threads())
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdecimal() and int(given) else usable_cores()


def usable_cores() -> int:
    """Physical cores that this process may use, at most its share of processor time."""
    if sys.platform != "linux":
        return os.cpu_count() or 1
    allowed = os.sched_getaffinity(0)
    siblings = (Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") for cpu in allowed)
    cores = {file.read_text() if file.exists() else str(file) for file in siblings}
    return max(1, min(len(cores), int(_processor_share(Path("/sys/fs/cgroup")))))


def _processor_share(control: Path) -> float:
    """The limit of this process's control group, in processors."""
    if (control / "cpu.max").exists():
        quota, period = (control / "cpu.max").read_text().split()
        if quota != "max":
            return int(quota) / int(period)
    return float(os.cpu_count() or 1)


def peak_memory(process: int | None = None) -> int:
    """The peak memory in bytes of this process, or on Linux of another one by its id.

    On Linux from /proc: `ru_maxrss` would count the memory of the parent when it started this process.
    """
    status = Path("/proc") / str(process or "self") / "status"
    if status.exists():
        return 1024 * int(status.read_text().partition("VmHWM:")[2].split()[0])
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def describe() -> dict[str, str | int]:
    """Versions, processor and commit, for result files."""
    import numpy
    import torch

    return {
        "fewset": fewset.__version__,
        "commit": commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count() or 0,
        "threads": torch.get_num_threads(),
    }


def commit(file: Path = Path(__file__)) -> str:
    """The commit of the source tree that this package runs from, or "unknown" for an installed wheel.

    The repository must track `file`, this module: a wheel may be installed into the tree of another one.
    """
    file = file.resolve()
    tree = file.parents[2]
    if not (tree / ".git").exists():
        return "unknown"

    def git(*words: str) -> str:
        command = ["git", "-C", str(tree), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", str(file))
        head, changed = git("rev-parse", "HEAD"), git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+changes" if changed else "")


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
