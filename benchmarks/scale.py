"""Job arrays: photos a second with one worker and with two, and memory with few names and with a million.

The photos are made up: JPEG files of noise, 640 x 480 pixels. Workers are `fewset predict --shard` with one
thread each. The time that a worker takes to begin is measured with a photo and subtracted.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fewset.compute.machine import describe
from fewset.core.errors import UserError
from fewset.experiments.result import command_line
from fewset.io.parquet import write_table

NAMES = 10**6
_LARGE = 10**8
_SIZE = 640, 480


@dataclass(frozen=True)
class _Run:
    seconds: float
    memory: int
    """The largest of a worker, in bytes."""


def measure_scale(directory: Path, photos: int, beside: str) -> dict[str, Any]:
    """The record; `beside` says what else ran on the machine."""
    files = _write_photos(directory / "photos", photos)
    _predict(directory, "fit", [["fit", "photos", "-o", "my.fewset"]])
    _list(directory / "one.parquet", files[:1])
    _list(directory / "few.parquet", files)
    _list(directory / "many.parquet", _more_names(directory, files, NAMES // photos))
    begin = _shards(directory, "begin", "one", [0], 1)
    one = _shards(directory, "one", "few", [0], 1)
    two = _shards(directory, "two", "few", [0, 1], 2)
    many = _shards(directory, "many", "many", [0], NAMES // photos)
    names = _shards(directory, "names", "many", [0], 9_999_991)  # of which this shard has none or hardly any
    speeds = [round(photos / (run.seconds - begin.seconds), 2) for run in (one, two)]
    name_seconds = (names.seconds - begin.seconds) / NAMES
    hours = _LARGE / speeds[0] / 3600
    machine = describe()
    return {
        "format": 1,
        "part": "scale",
        "photos": photos,
        "names": NAMES,
        "seconds_to_begin": round(begin.seconds, 2),
        "photos_per_second": {"1 worker": speeds[0], "2 workers": speeds[1]},
        "peak_memory": {f"{photos} names": one.memory, f"{NAMES} names": many.memory},
        "seconds_to_read_names": round(name_seconds * NAMES, 2),
        "extrapolated": {
            "photos": _LARGE,
            "core_hours": round(hours),
            "hours_with_1000_workers": round(hours / 1000 + _LARGE * name_seconds / 3600, 2),
        },
        "beside": beside,
        "command": command_line(),
        "commit": machine.pop("commit"),
        "machine": machine,
    }


def scale_text(record: dict[str, Any]) -> str:
    """The record as a part of the page on speed."""
    speeds, memory, large = record["photos_per_second"], record["peak_memory"], record["extrapolated"]
    few, many = (f"{size / 2**20:,.0f} MiB" for size in memory.values())
    machine = record["machine"]
    return "\n".join(
        [
            "## scale\n",
            f"`fewset predict --shard` on {record['photos']:,} photos of {_SIZE[0]} x {_SIZE[1]} pixels "
            "(JPEG, noise), one thread a worker; the time to begin is subtracted "
            f"({record['seconds_to_begin']:.0f} s).\n",
            "| Workers | Photos/s |\n| :--- | :--- |",
            *(f"| {name} | {speed:.1f} |" for name, speed in speeds.items()),
            f"\nA worker takes {few} for a list of {record['photos']:,} names and {many} for its "
            f"{record['photos']:,} photos of a list of {record['names']:,} names, which it reads in "
            f"{record['seconds_to_read_names']:.1f} s.\n",
            f"By calculation: {large['photos']:,} photos take {large['core_hours']:,} hours of one core, "
            f"as busy as this one, or {large['hours_with_1000_workers']:.1f} hours with 1,000 workers, of "
            f"which each reads all names once. At 0.04 dollars for an hour of a core that is "
            f"{0.04 * large['core_hours']:,.0f} dollars.\n",
            f"`{record['command']}`; beside it ran: {record['beside']}; commit {record['commit'][:10]}, "
            f"torch {machine['torch']}, {machine['processor']}, {machine['cores']} cores.\n",
        ]
    )


def _write_photos(folder: Path, count: int) -> list[str]:
    generator = np.random.default_rng(0)
    for number in range(count):
        label = folder / ("light" if number % 2 else "dark")
        label.mkdir(parents=True, exist_ok=True)
        coarse = generator.integers(100 * (number % 2), 156 + 100 * (number % 2), (30, 40, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize(_SIZE).save(label / f"{number}.jpg")
    return sorted(str(path.relative_to(folder.parent)) for path in folder.rglob("*.jpg"))


def _more_names(directory: Path, files: Sequence[str], times: int) -> list[str]:
    """So many different names for each file, by links to the folder."""
    for number in range(times):
        (directory / str(number)).symlink_to("photos")
    return [file.replace("photos", str(number), 1) for number in range(times) for file in files]


def _list(path: Path, files: Sequence[str]) -> None:
    write_table(path, {"path": ("string", files)}, "")


def _shards(directory: Path, out: str, names: str, numbers: Sequence[int], count: int) -> _Run:
    words = ["predict", "my.fewset", f"{names}.parquet", "--parquet", out, "--shard"]
    return _predict(directory, out, [[*words, f"{number}/{count}"] for number in numbers])


def _predict(directory: Path, what: str, commands: Sequence[list[str]]) -> _Run:
    """Run commands at the same time."""
    environ = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
    }
    began = time.perf_counter()
    processes = [
        subprocess.Popen([sys.executable, "-m", "fewset", *words], cwd=directory, env=environ)
        for words in commands
    ]
    memory = 0
    for process in processes:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise UserError(f"a worker of {what!r} has failed; its message is above")
        memory = max(memory, usage.ru_maxrss * 1024)
    return _Run(time.perf_counter() - began, memory)
