"""Shapes are checked while testing only: jaxtyping with beartype over the whole package."""

import os

# Two-thread code on small operations collapses beside another busy process (pytest-xdist).
os.environ.setdefault("OMP_NUM_THREADS", "1")

from jaxtyping import install_import_hook

install_import_hook("fewset", "tests.check")

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch

from fewset.core.registry import Registry
from fewset.data.features.table import FeatureTable
from fewset.data.images.store import ImageSet
from fewset.experiments import plugins
from fewset.experiments.train_run import execute
from tests.helpers import results
from tests.helpers.disks import small_disk_at
from tests.helpers.features import make_table
from tests.helpers.tiny_recipes import PRETRAIN, recipe
from tests.helpers.tiny_set import make_tiny_set

torch.set_num_threads(1)

# `FEWSET_PLUGINS=my_adapter.py make test` runs every contract test over your own members too.
for _plugin in filter(None, os.environ.get("FEWSET_PLUGINS", "").split(os.pathsep)):
    plugins.load_plugin(Path(_plugin))


@pytest.fixture(autouse=True)
def _private_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's own image sets."""
    monkeypatch.setenv("FEWSET_HOME", str(tmp_path / "home"))


@pytest.fixture(autouse=True)
def _private_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that a test registers, itself or by a plugin, is gone after it."""
    for registry in Registry.kinds.values():
        len(registry)  # its own members are loaded for good
        monkeypatch.setattr(registry, "_members", dict(registry._members))
    monkeypatch.setattr(plugins, "_loaded", set(plugins._loaded))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory with room for 8 MB."""
    with small_disk_at(tmp_path / "disk") as place:
        yield place


@pytest.fixture
def tiny_set() -> ImageSet:
    return make_tiny_set()


@pytest.fixture
def tiny_table() -> FeatureTable:
    """A table of features "tiny-features": 11 seen and 7 unseen classes, noisy clusters, 5 numbers a row.

    Seen and unseen classes are mixed, and so are the two setups.
    """
    return make_table("tiny-features", shift=0)


@pytest.fixture
def make_run(tmp_path: Path) -> results.MakeRun:
    """Makes a run directory in a folder of the test's own."""
    return partial(results.write_run, tmp_path / "runs")


@pytest.fixture(scope="session")
def _pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one epoch of pre-training on "tiny", made once."""
    folder = tmp_path_factory.mktemp("pretrained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEWSET_HOME", str(folder / "home"))
        make_tiny_set()
        execute(recipe(PRETRAIN, epochs=1), "pretrain", folder / "pre")
    return folder / "pre"


@pytest.fixture
def runs(tmp_path: Path, tiny_set: ImageSet, _pretrained: Path) -> Path:  # noqa: ARG001
    """A directory of runs with a pre-trained one, "pre", in it."""
    shutil.copytree(_pretrained, tmp_path / "runs" / "pre")
    return tmp_path / "runs"
