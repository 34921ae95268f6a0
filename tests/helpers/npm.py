"""npm, for packages of the web that tests need and the product does not ship."""

import shutil
import subprocess
from pathlib import Path

import pytest

_PATIENCE = 120  # seconds: without its registry npm tries again for many minutes


def run_npm(*words: str, folder: Path) -> str:
    """What npm prints in a folder; where it is not there or gets nothing, the test is skipped, saying why."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm; install it: apt-get install npm")
    try:
        done = subprocess.run(
            [npm, *words], cwd=folder, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"`npm {words[0]}` had no answer in {_PATIENCE} s; set up its registry")
    if done.returncode:
        pytest.skip(f"`npm {words[0]}` failed; set up its registry: {done.stderr.strip()[-300:]}")
    return done.stdout
