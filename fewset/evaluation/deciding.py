"""How many queries of a task are answered rightly: by logits or, where a model has one, by a linear form."""

from collections.abc import Callable
from typing import Protocol, cast

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from fewset.evaluation.near_ties import answers, check_finite_logits
from fewset.models.linear_form import LinearForm
from fewset.tasks.episode import Episode

Classify = Callable[[Tensor, Tensor], Tensor]
"""Support (T, N, K, D) and queries (T, M, D) to logits (T, M, N), as a TaskModel does it; or of maps."""

Decide = Callable[[Episode], Tensor]
"""Tasks as rows of a table to the share (T,) of each task's queries that is classified rightly."""

_FAR = 100.0  # squared distance of a table's mean from 0, in variances: two digits of seven are lost
_LOOKED_AT = 1000  # rows of a table that tell its variance


class _Linear(Protocol):
    """A model that may have a linear form; `transductive`: given the queries as the context."""

    transductive: bool

    def linear_form(self, support: Tensor, context: Tensor | None) -> LinearForm | None: ...


def decision(classify: Classify, features: Shaped[Tensor, "items *places D"], compiled: bool) -> Decide:
    """What scores tasks on a table; with `compiled` loops the same in less time."""

    def by_logits(rows: Episode) -> Float[Tensor, " T"]:
        logits = classify(gather(features, rows.support), gather(features, rows.query))
        check_finite_logits(logits)
        return task_accuracy(logits, rows.query_labels)

    if not hasattr(classify, "linear_form") or not _near_zero(features):
        return by_logits
    model, lengths = cast(_Linear, classify), torch.linalg.vector_norm(features, dim=1)
    count = _counting(features, lengths) if compiled else None

    def by_form(rows: Episode) -> Float[Tensor, " T"]:
        context = gather(features, rows.query) if model.transductive else None
        form = model.linear_form(gather(features, rows.support), context)
        if form is None:
            return by_logits(rows)
        counted = None if count is None else count(form, rows)
        if counted is not None:
            return counted
        found = answers(form, gather(features, rows.query), gather(lengths, rows.query))
        return (found == rows.query_labels).float().mean(-1)

    return by_form


def gather(features: Shaped[Tensor, " items *item"], rows: Int[Tensor, "*batch"]) -> Shaped[Tensor, "..."]:
    """`features[rows]`, in a third of the time; maps are computed with in single precision."""
    gathered = features.index_select(0, rows.reshape(-1)).view(*rows.shape, *features.shape[1:])
    return gathered.float() if gathered.dtype == torch.float16 else gathered


def task_accuracy(logits: Float[Tensor, "T M N"], labels: Int[Tensor, "T M"]) -> Float[Tensor, " T"]:
    """The share of each task's queries that are classified rightly."""
    return (logits.argmax(-1) == labels).float().mean(-1)


def _near_zero(features: Shaped[Tensor, "items *places D"]) -> bool:
    """Whether a linear form of these rows is exact enough."""
    if features.ndim != 2 or not features.is_floating_point():
        return False
    centre = features.mean(dim=0)
    spread = (features[:: max(1, len(features) // _LOOKED_AT)] - centre).square().mean()
    return bool(centre.square().mean() <= _FAR * spread)


_Count = Callable[[LinearForm, Episode], Tensor | None]


def _counting(features: Float[Tensor, "items D"], lengths: Float[Tensor, " items"]) -> _Count | None:
    """The same by a compiled loop; None where it cannot, or (its result) where numbers are not finite."""
    single = features.device.type == "cpu" and features.dtype == torch.float32
    if not single or torch.get_float32_matmul_precision() != "highest":
        return None
    from fewset.evaluation.counting_loop import count_right

    table = features.contiguous().numpy()

    def count(form: LinearForm, rows: Episode) -> Float[Tensor, " T"] | None:
        right = torch.empty(len(rows.query), dtype=torch.float32)
        given = (lengths, rows.query, rows.query_labels, form.weights, form.offset, right)
        finite = count_right(table, *(each.contiguous().numpy() for each in given))
        return right / rows.query.shape[1] if finite else None

    return count
