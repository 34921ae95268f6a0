"""Shapes are checked while testing only: jaxtyping with beartype over the whole package."""

import os

# Two-thread code on small operations collapses beside another busy process (pytest-xdist).
os.environ.setdefault("OMP_NUM_THREADS", "1")

from jaxtyping import install_import_hook

install_import_hook("fewset", "beartype.beartype")

from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(autouse=True)
def _private_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's own image sets."""
    monkeypatch.setenv("FEWSET_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The real image sets, where they are at hand."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"the real image sets of shared/data are not here: {SHARED_DATA}")
    return SHARED_DATA
