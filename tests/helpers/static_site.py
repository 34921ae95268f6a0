"""onnxruntime-web by npm, and a folder served as a user would: by Python's own server."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.helpers.npm import run_npm

VERSION = "1.30.0"


def installed_runtime(folder: Path) -> Path:
    """The directory with the files of onnxruntime-web, which npm installs into a folder."""
    options = ("--ignore-scripts", "--no-audit", "--no-fund")
    run_npm("install", *options, f"onnxruntime-web@{VERSION}", "--prefix", ".", folder=folder)
    return folder / "node_modules" / "onnxruntime-web" / "dist"


@contextmanager
def served_folder(folder: Path) -> Iterator[str]:
    """`python -m http.server` in a folder; its address."""
    words = ["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(folder)]
    process = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+/", process.stdout.readline())
        assert found is not None
        yield found[0]
    finally:
        process.terminate()
        process.wait(timeout=30)
