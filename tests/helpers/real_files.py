"""Real image sets and the paper's source, which are too large or not ours to be kept here."""

import os
from pathlib import Path

import pytest

VARIABLE = "FEWSET_TEST_DATA"
_DEFAULT = Path(__file__).parents[3] / "shared" / "data"


def real_file(name: str) -> Path:
    """A file such as "cub.zip" in the directory that the variable names, or in `paper` beside it.

    A test that asks for a file that is not there is skipped.
    """
    folder = Path(os.environ.get(VARIABLE, _DEFAULT))
    for place in (folder, folder.parent / "paper"):
        if (place / name).exists():
            return place / name
    pytest.skip(f"there is no {name} in {folder}: set {VARIABLE} to a directory that has it")
