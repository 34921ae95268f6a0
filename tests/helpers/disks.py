"""Disks that are soon full or cannot be written to, and what is no file."""

import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def small_disk_at(place: Path, size: str = "8m") -> Iterator[Path]:
    """A directory with little room, as root may mount one; the test is skipped elsewhere."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "fewset-test", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root on Linux may mount a small disk; run the tests as root")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path) -> None:
    """Leave no room on a small disk."""
    with suppress(OSError), (place / "filling").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(2**12))


def make_read_only(place: Path) -> None:
    """Nothing can be written to a small disk any more."""
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)


SPECIAL = ("pipe", "device", "socket")


def make_special(path: Path, kind: str) -> None:
    """What is no file, in its place: whoever reads a pipe waits for ever, and a device may have no end."""
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        with socket.socket(socket.AF_UNIX) as server, tempfile.TemporaryDirectory() as short:
            server.bind(f"{short}/s")  # the length of such names is limited
            Path(short, "s").rename(path)
