"""A disk that is soon full."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
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
