"""Shapes are checked while testing only: jaxtyping with beartype over the whole package."""

import os

# Two-thread code on small operations collapses beside another busy process (pytest-xdist).
os.environ.setdefault("OMP_NUM_THREADS", "1")

from jaxtyping import install_import_hook

install_import_hook("fewset", "tests.check")

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from fewset.data.features.table import FeatureTable
from fewset.data.images.store import ImageSet, open_set, set_path, write_store
from fewset.experiments import plugins
from fewset.runtime.registry import Registry
from tests.helpers import results
from tests.helpers.features import make_table

torch.set_num_threads(1)

# `FEWSET_PLUGINS=my_adapter.py make test` runs every contract test over your own adapters too.
for _plugin in filter(None, os.environ.get("FEWSET_PLUGINS", "").split(os.pathsep)):
    plugins.load_plugin(Path(_plugin))


@pytest.fixture(autouse=True)
def _private_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's own image sets."""
    monkeypatch.setenv("FEWSET_HOME", str(tmp_path / "home"))


@pytest.fixture(autouse=True)
def _private_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    for registry in Registry.kinds.values():
        len(registry)  # its own members are loaded for good
        monkeypatch.setattr(registry, "_members", dict(registry._members))
    monkeypatch.setattr(plugins, "_loaded", set(plugins._loaded))


@pytest.fixture
def tiny_set() -> ImageSet:
    """An image set "tiny": 13 / 7 / 7 classes, noisy colour patterns, 11 items of 20x20 each, two domains."""
    generator = np.random.default_rng(0)
    classes = np.arange(27)
    labels = np.repeat(classes, 11)
    patterns = generator.integers(0, 256, size=(27, 5, 5, 3)).repeat(4, axis=1).repeat(4, axis=2)
    noise = generator.normal(scale=60, size=(len(labels), 20, 20, 3))
    with write_store(
        set_path("tiny"),
        size=20,
        labels=labels,
        class_names=[f"class{number:02}" for number in classes],
        splits=np.repeat([0, 1, 2], [13, 7, 7]).repeat(11),
        domains=np.arange(len(labels)) % 2,
        domain_names=("even", "odd"),
        source="made by a test",
    ) as draft:
        draft.images[:] = np.clip(patterns[labels] + noise, 0, 255).astype(np.uint8)
    return open_set("tiny")


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
