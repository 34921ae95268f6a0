"""Means of the classes of a table of features, which may be larger than the memory.

All functions read the rows once, in the order of the file, a few at a time.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from fewset.core.errors import UserError
from fewset.data.features.table import FeatureTable
from fewset.evaluation.embedding import evaluating
from fewset.models.model import FewShotModel
from fewset.models.task_model import device_of


def check_table(model: FewShotModel, table: FeatureTable) -> None:
    """Raise for a model that does not fit this table."""
    takes = model.capabilities.takes
    if takes != "features" or model.dim != table.dim:
        raise UserError(
            f"the model takes {takes} (dimension {model.dim}), but {table.name!r} has features of dimension "
            f"{table.dim}; take the backbone 'features' with that dimension"
        )


def embed_rows(model: FewShotModel, features: Float[Tensor, "items D"]) -> Float[Tensor, "items D"]:
    """Rows of a table, after all that the model does to a row by itself."""
    embedded: Tensor = model.feature_transform(model.backbone(features))
    return embedded


def embed_table(
    model: FewShotModel, table: FeatureTable, rows: Int[np.ndarray, " items"]
) -> Float[Tensor, "items D"]:
    """The embeddings of some rows of a table."""
    check_table(model, table)
    with evaluating(model) as evaluated:
        parts = [
            embed_rows(evaluated, torch.from_numpy(features).to(device_of(model)))
            for _, features in table.chunks(rows)
        ]
    return torch.cat(parts)


def fit_centre(model: FewShotModel, table: FeatureTable) -> None:
    """Take the mean of the seen classes' training rows, where `model.feature_transform` subtracts it."""
    check_table(model, table)
    transform = model.feature_transform
    if transform.mean is not None:
        rows = table.rows(table.classes("seen"), "train")

        def embed(features: Float[Tensor, "items D"]) -> Float[Tensor, "items D"]:
            return transform.before_centre(model.backbone(features))

        total = _sums(embed, table, rows, np.zeros_like(rows), 1, device_of(model))
        transform.mean.copy_(total[0] / len(rows))


def training_means(
    model: FewShotModel, table: FeatureTable, classes: Int[np.ndarray, " N"], chunk: int | None = None
) -> Float[Tensor, "N D"]:
    """The mean of all training rows of each class, after the model's input. `chunk` does not change it."""
    check_table(model, table)
    rows = table.rows(classes, "train")
    groups = table.places(classes, rows)
    counts = np.bincount(groups, minlength=len(classes))
    if counts.min() == 0:
        name = table.class_names[classes[counts.argmin()]]
        raise UserError(f"class {name!r} of {table.name!r} has no training rows, expected at least one")
    sums = _sums(partial(embed_rows, model), table, rows, groups, len(classes), device_of(model), chunk)
    return (sums / torch.from_numpy(counts).unsqueeze(1)).float().to(device_of(model))


@torch.no_grad()
def _sums(
    embed: Callable[[Tensor], Tensor],
    table: FeatureTable,
    rows: Int[np.ndarray, " n"],
    groups: Int[np.ndarray, " n"],
    count: int,
    device: torch.device,
    chunk: int | None = None,
) -> Float64[Tensor, "count D"]:
    """The sum of the rows of each of `count` groups.

    Rows are added one by one, so that the chunk does not matter, and in double precision, so that a class of
    a thousand rows loses nothing. On the CPU: not every GPU has that.
    """
    sums = torch.zeros(count, table.dim, dtype=torch.float64)
    done = 0
    for part, features in table.chunks(rows, chunk):
        group = torch.from_numpy(groups[done : done + len(part)])
        sums.index_add_(0, group, embed(torch.from_numpy(features).to(device)).cpu().double())
        done += len(part)
    return sums
