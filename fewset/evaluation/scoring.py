"""Embed a split once, then score any number of tasks on the table of embeddings."""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from fewset.compute import distributed
from fewset.core.errors import UserError
from fewset.core.progress import progress
from fewset.evaluation.embedding import evaluating
from fewset.models.task_model import TaskModel
from fewset.tasks.episode import Episode, split
from fewset.tasks.sampling import ClassIndex, sample_tasks
from fewset.tasks.scores import Score
from fewset.tasks.spec import TaskSpec

Classify = Callable[[Tensor, Tensor], Tensor]
"""From support (T, N, K, D) and queries (T, M, D), or from maps, to logits (T, M, N)."""

_CHUNK_SIZE = 2**21  # embedding values gathered at once: 8 MB, which stays in the cache


def evaluate(
    model: TaskModel,
    features: Shaped[Tensor, "..."] | Shaped[np.ndarray, "..."],
    labels: Shaped[Tensor, "..."] | Shaped[np.ndarray, "..."],
    spec: TaskSpec,
    *,
    class_names: Sequence[str] | None = None,
    chunk: int | None = None,
    title: str = "",
) -> Score:
    """Score a model on tasks that are drawn from a table of embeddings.

    Args:
        model: The model, in any mode: it is scored in evaluation mode and left as it was.
        features: One row of embeddings an item, as `model.embed` makes them, of any type of numbers. For a
            head that takes maps, one map an item, as `model.maps` makes them.
        labels: The class of each row, as a whole number.
        spec: Which tasks to draw.
        class_names: The name of each class, for errors that mention one.
        chunk: How many tasks to compute at once. It changes the result by rounding at most.
        title: What a progress bar says; without it none is shown.

    Returns:
        The mean accuracy, its interval, and the accuracy of each task.

    Raises:
        ValueError: The tasks cannot be drawn, because there are too few classes or items; the features are
            not finite, not of the model's size, or not as many as the labels; or they are so large that the
            logits are not finite.

    Example:
        >>> import fewset
        >>> import numpy as np
        >>> model = fewset.load("miniimagenet-conv4-protonet-1shot")
        >>> labels = np.repeat(np.arange(10), 20)
        >>> features = np.eye(10, 64, dtype=np.float32)[labels]  # each class in one point
        >>> spec = fewset.TaskSpec(way=5, shot=1, query=15, tasks=100)
        >>> print(fewset.evaluate(model, features, labels, spec))
        100.00 ± 0.00 %
    """
    table, classes = _tensor(features), _tensor(labels).numpy(force=True)
    if table.ndim not in (2, 4) or classes.shape != table.shape[:1] or classes.dtype.kind not in "iu":
        raise UserError(
            f"got features of shape {tuple(table.shape)} and labels of shape {classes.shape} and type "
            f"{classes.dtype}, expected (items, D), or (items, H, W, D) of maps, and (items,), one whole "
            "number a row"
        )
    if table.is_complex() or table.is_quantized or table.is_meta or table.layout != torch.strided:
        raise UserError(
            f"got features of type {table.dtype} ({table.layout}, on {table.device}), expected real numbers, "
            "each in its place; convert them with `.dequantize()`, `.to_dense()` or `.real`"
        )
    index = ClassIndex(classes, class_names)
    with evaluating(model) as evaluated:
        return score_tasks(evaluated, _checked(table, model), index, spec, chunk=chunk, title=title)


def _tensor(values: Shaped[Tensor, "..."] | Shaped[np.ndarray, "..."]) -> Shaped[Tensor, "..."]:
    """The values as a tensor; a read-only array, of which torch warns, is copied."""
    return values if isinstance(values, Tensor) else torch.as_tensor(np.require(values, requirements="W"))


def _checked(
    features: Shaped[Tensor, "items *places D"], model: TaskModel
) -> Shaped[Tensor, "items *places D"]:
    """The features as the model takes them, or an error."""
    embeds = model.capabilities.embeds
    if (features.ndim == 4) != model.capabilities.maps:
        there, wanted = ("maps", "embed") if features.ndim == 4 else ("rows of embeddings", "maps")
        raise UserError(
            f"the features are {there} of shape {tuple(features.shape)}, and this model takes what "
            f"`model.{wanted}` makes; take that, or another head"
        )
    parts = dict(model.named_children())
    widths = {name: getattr(parts[name], "dim", None) for name in ("backbone", "head") if embeds}
    for name, dim in (widths or {"input": 3 * model.input_size**2}).items():
        if dim not in (None, features.shape[-1]):
            raise UserError(
                f"the features have {features.shape[-1]} numbers a row, and the {name} of this model has "
                f"{dim}; embed the items with this model"
            )
    if not embeds:
        return features  # pixels
    kinds = [parameter.dtype for parameter in model.parameters()]
    if features.ndim == 2 or features.dtype != torch.float16:  # maps stay as small as they are
        features = features.to(kinds[0] if kinds else torch.float32)
    check_finite_rows(features)
    return features


def check_finite_rows(features: Shaped[Tensor, "items *places D"]) -> None:
    """Reject rows with numbers that are not finite, or so large that squared distances are not."""
    if not features.numel() or not features.is_floating_point():
        return
    largest = max(abs(bound.item()) for bound in torch.aminmax(features))
    if 4 * features[0].numel() * largest * largest <= torch.finfo(torch.float32).max:
        return
    if features.dtype != torch.float64:
        features = features.float()
    squares = features.flatten(1).square().sum(dim=1)
    strange = (~(4 * squares).isfinite()).nonzero().flatten()
    if len(strange):
        raise UserError(
            f"{len(strange)} of {len(features)} rows of features have numbers that are too large to square "
            f"or not finite, the first is row {strange[0]}; leave them out, scale them or embed them again"
        )


def score_tasks(
    classify: Classify,
    features: Shaped[Tensor, "items *places D"],
    index: ClassIndex,
    spec: TaskSpec,
    *,
    chunk: int | None = None,
    title: str = "",
    draw: Callable[[int, int], Episode] | None = None,
) -> Score:
    """Score any function from support and queries to logits; a model must come from `evaluating`.

    `draw(first, last)` returns the rows of other tasks than those of the specification.
    """
    per_task = np.empty(spec.tasks, dtype=np.float32)
    size = spec.way * (spec.shot + spec.query) * math.prod(features.shape[1:])
    for first, last in task_chunks(spec.tasks, size, chunk, title, results=[per_task]):
        if draw is None:
            rows = split(torch.from_numpy(sample_tasks(index, spec, first, last)), spec.shot)
        else:
            rows = draw(first, last)
        support, query, labels = (each.to(features.device) for each in rows)
        logits = classify(gather(features, support), gather(features, query))
        if not logits.isfinite().all():
            raise UserError(
                "the logits of some tasks are not finite: the features are too large for this model; scale "
                "them"
            )
        per_task[first:last] = task_accuracy(logits, labels).cpu().numpy()
    return Score.of(per_task) if draw else Score.of(per_task, spec, index.digest)


def gather(features: Shaped[Tensor, " items *item"], rows: Int[Tensor, "*batch"]) -> Shaped[Tensor, "..."]:
    """`features[rows]`, three times as fast; maps in half precision become single precision."""
    gathered = features.index_select(0, rows.reshape(-1)).view(*rows.shape, *features.shape[1:])
    return gathered.float() if gathered.dtype == torch.float16 else gathered


def task_accuracy(logits: Float[Tensor, "T M N"], labels: Int[Tensor, "T M"]) -> Float[Tensor, " T"]:
    """The share of each task's queries that are classified correctly."""
    return (logits.argmax(-1) == labels).float().mean(-1)


def task_chunks(
    tasks: int,
    size: int,
    chunk: int | None = None,
    title: str = "",
    *,
    results: Sequence[np.ndarray],
) -> Iterator[tuple[int, int]]:
    """The first and last (excluded) task of each chunk; a task has `size` embedding values.

    Each of several processes gets a part of the chunks and fills in its tasks of the `results`. After the
    last chunk every process has the results of all tasks.
    """
    chunk = chunk or max(1, _CHUNK_SIZE // size)
    begin, end = distributed.shard(tasks, chunk)
    with progress(title, end - begin, shown=bool(title)) as advance:
        for first, last in distributed.own_chunks(tasks, chunk):
            yield first, last
            advance(last - first)
    for values in results:
        distributed.all_gather_shards_(values, chunk)
