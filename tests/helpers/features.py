"""Tables of features and models on them."""

import numpy as np
from torch import nn

from fewset.data.features.table import (
    FeatureTable,
    open_features,
    table_path,
    write_features,
)
from fewset.models.adapters.identity import Identity
from fewset.models.backbones.features import FeatureInput
from fewset.models.heads.prototype import PrototypeHead
from fewset.models.layers.transform import FeatureTransform
from fewset.models.model import FewShotModel

SEEN, UNSEEN, DIM, ROWS = 11, 7, 5, 397
SIMPLESHOT = {"none": (), "l2n": ("l2",), "cl2n": ("centre", "l2")}


def make_table(
    name: str = "table",
    *,
    seen: int = SEEN,
    unseen: int = UNSEEN,
    rows: int = ROWS,
    shift: float = 3.0,
    flags: np.ndarray | None = None,
    setups: np.ndarray | None = None,
) -> FeatureTable:
    """A table whose classes are overlapping clusters, `shift` away from the origin.

    Unless given, unseen classes (`flags`) are mixed with seen ones, and half of each are of each setup.
    """
    generator = np.random.default_rng(0)
    classes = seen + unseen
    labels = generator.permutation(np.arange(rows) % classes)
    centres = generator.normal(size=(classes, DIM)) + shift
    if flags is None:
        flags = generator.permutation(np.repeat([False, True], [seen, unseen]))
    if setups is None:
        setups = np.zeros(classes, dtype=int)
        for group in (flags, ~flags):
            setups[group] = 1 + generator.permutation(np.arange(group.sum()) % 2)
    write_features(
        table_path(name),
        [(centres[labels] + generator.normal(size=(rows, DIM))).astype(np.float32)],
        dim=DIM,
        labels=labels,
        roles=(generator.random(rows) < 0.4).astype(int),
        class_names=[f"class {number}" for number in range(classes)],
        unseen=flags,
        setups=setups,
        source="made by a test",
        command="none",
    )
    return open_features(name)


def feature_model(adapter: nn.Module | None = None, transform: str = "none") -> FewShotModel:
    head = PrototypeHead(DIM, temperature=3.0)
    steps = FeatureTransform(DIM, SIMPLESHOT[transform])
    return FewShotModel(FeatureInput(DIM), adapter or Identity(DIM), head, feature_transform=steps)


def transformed(features: np.ndarray, transform: str, mean: np.ndarray) -> np.ndarray:
    if transform == "cl2n":
        features = features - mean
    return features if transform == "none" else features / np.linalg.norm(features, axis=-1, keepdims=True)


def seen_mean(table: FeatureTable) -> np.ndarray:
    rows = [row for row in range(ROWS) if not table.unseen[table.labels[row]] and table.roles[row] == 0]
    mean: np.ndarray = table.read(np.arange(ROWS)).astype(np.float64)[rows].mean(axis=0)
    return mean
