"""The embeddings that methods are compared on: a table of features with validation and test classes."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from fewset.core.errors import UserError
from fewset.data.features.table import SETUPS, FeatureTable, open_features


@dataclass(frozen=True, eq=False)
class Embeddings:
    """A table of features, its seen classes to train on, and the unseen ones of two setups to score on."""

    table: FeatureTable
    device: torch.device

    @classmethod
    def open(cls, name: str, device: torch.device) -> "Embeddings":
        """The table of that name, or an error that says how one is made."""
        table = open_features(name)
        if set(table.setups[table.unseen].tolist()) != {SETUPS.index("validation"), SETUPS.index("test")}:
            raise UserError(
                f"the table {name!r} has no classes for validation, on which options are chosen; make one "
                "with `fewset embed RUN --val --out FILE.npz` and `fewset data import features FILE.npz`"
            )
        return cls(table, device)

    @cached_property
    def train(self) -> Float[Tensor, "items D"]:
        """The rows that are learned from."""
        return self._read(self.table.rows(self.table.classes("seen"), "train"))

    @cached_property
    def spread(self) -> float:
        """The mean squared distance of the train rows from their mean."""
        return float((self.train - self.train.mean(dim=0)).square().sum(dim=1).mean())

    def unseen(self, setup: Any) -> tuple[Float[Tensor, "items D"], Int64[np.ndarray, " items"]]:
        """All rows of the classes of a setup, and the class of each."""
        rows = np.flatnonzero(np.isin(self.table.labels, self.table.classes("unseen", setup)))
        return self._read(rows), self.table.labels[rows]

    def _read(self, rows: Int64[np.ndarray, " n"]) -> Float[Tensor, "n D"]:
        return torch.from_numpy(self.table.read(rows)).to(self.device)
