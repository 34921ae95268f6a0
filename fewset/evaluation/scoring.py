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
from fewset.models.task_model import TaskModel, device_of
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
        features: One row of embeddings an item, as `model.embed` makes them, of any real type. For a head
            that takes maps, one map an item, as `model.maps` makes them.
        labels: The class of each row, as an integer.
        spec: Which tasks to draw.
        class_names: The name of each class, for errors that mention one.
        chunk: How many tasks to compute at once. It changes the result by rounding at most.
        title: The title of a progress bar; without it none is shown.

    Returns:
        The mean accuracy, its interval, and the accuracy of each task.

    Raises:
        ValueError: There are too few classes or items to draw the tasks; the features are not finite, not of
            the model's dimension, or not as many as the labels; or the logits are not finite.

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
            f"{classes.dtype}, expected (items, D), or (items, H, W, D) of maps, and (items,) integers"
        )
    index = ClassIndex(classes, class_names)
    with evaluating(model) as evaluated:
        return score_tasks(evaluated, _as_input(table, model), index, spec, chunk=chunk, title=title)


def _tensor(values: Shaped[Tensor, "..."] | Shaped[np.ndarray, "..."]) -> Shaped[Tensor, "..."]:
    """The values as a tensor; a read-only array, of which torch warns, is copied."""
    return values if isinstance(values, Tensor) else torch.as_tensor(np.require(values, requirements="W"))


def _as_input(
    features: Shaped[Tensor, "items *places D"], model: TaskModel
) -> Shaped[Tensor, "items *places D"]:
    """The features on the model's device and of its type; raises where the model takes others."""
    can = model.capabilities
    dim = getattr(model, "dim", features.shape[-1]) if can.embeds else 3 * model.input_size**2
    if (features.ndim == 4) != can.maps or features.shape[-1] != dim:
        raise UserError(
            f"got features of shape {tuple(features.shape)}, and this model takes "
            f"{'maps' if can.maps else 'rows'} of dimension {dim}; embed the items with this model"
        )
    features = features.to(device_of(model))
    if can.embeds:  # other models take pixels
        if features.dtype != torch.float16 or features.ndim == 2:  # maps stay in half precision
            features = features.to(next((value.dtype for value in model.parameters()), torch.float32))
        check_finite_rows(features)
    return features


def check_finite_rows(features: Shaped[Tensor, "items *places D"]) -> None:
    """Raise if a row is not finite, or so large that squared distances are not."""
    if not features.is_floating_point():
        return
    at_least_single = torch.promote_types(features.dtype, torch.float32)
    lengths = torch.linalg.vector_norm(features.flatten(1), dim=1, dtype=at_least_single)
    wrong = (~(2 * lengths).square().isfinite()).nonzero().flatten()
    if len(wrong):
        raise UserError(
            f"{len(wrong)} of {len(features)} rows of features are not finite, or too large to square; the "
            f"first is row {wrong[0]}; leave them out, scale them or embed them again"
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
            raise UserError("the logits of some tasks are not finite; scale the features down")
        per_task[first:last] = task_accuracy(logits, labels).cpu().numpy()
    return Score.of(per_task) if draw else Score.of(per_task, spec, index.digest)


def gather(features: Shaped[Tensor, " items *item"], rows: Int[Tensor, "*batch"]) -> Shaped[Tensor, "..."]:
    """`features[rows]`, three times as fast; maps in half precision are returned in single precision."""
    gathered = features.index_select(0, rows.reshape(-1)).view(*rows.shape, *features.shape[1:])
    return gathered.float() if gathered.dtype == torch.float16 else gathered


def task_accuracy(logits: Float[Tensor, "T M N"], labels: Int[Tensor, "T M"]) -> Float[Tensor, " T"]:
    """The share of each task's queries that are classified correctly."""
    return (logits.argmax(-1) == labels).float().mean(-1)


def task_chunks(
    tasks: int, size: int, chunk: int | None = None, title: str = "", *, results: Sequence[np.ndarray]
) -> Iterator[tuple[int, int]]:
    """The first and last (excluded) task of each chunk; a task has `size` embedding values.

    Each of several processes gets a part of the chunks and fills in its part of the `results`. After the last
    chunk every process has the results of all tasks.
    """
    chunk = chunk or max(1, _CHUNK_SIZE // size)
    begin, end = distributed.shard(tasks, chunk)
    with progress(title, end - begin, shown=bool(title)) as advance:
        for first, last in distributed.own_chunks(tasks, chunk):
            yield first, last
            advance(last - first)
    for values in results:
        distributed.all_gather_shards_(values, chunk)
