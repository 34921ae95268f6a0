"""Embed a split once, then score any number of tasks on the table of embeddings."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import sqrt

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped, UInt8
from torch import Tensor, nn

from fewset import distributed
from fewset.data.augment import center_crop
from fewset.data.store import ImageSet, Selection
from fewset.devices import send
from fewset.episode import split
from fewset.errors import UserError
from fewset.model import FewShotModel
from fewset.progress import progress
from fewset.sampling import ClassIndex, TaskSpec, sample_tasks

Classify = Callable[[Tensor, Tensor], Tensor]
"""Support (T, N, K, D) and queries (T, M, D) to logits (T, M, N), as a FewShotModel does it."""

_CHUNK_NUMBERS = 2**21  # embedding numbers gathered at once: 8 MB, which stays in the cache
_BATCH_PIXELS = 2**19  # embedded at once: 74 images of 84 pixels a side, 668 of 28


def interval95(values: Float[np.ndarray, "n"]) -> float:
    """Half the width of the 95 % interval of the mean: 1.96 s / sqrt(n)."""
    return 1.96 * float(values.std(ddof=1)) / sqrt(len(values)) if len(values) > 1 else float("nan")


@dataclass(frozen=True, eq=False)
class Score:
    """Accuracy over tasks, as fractions: the mean, its 95 % interval (± `ci95`), the value of each task."""

    mean: float
    ci95: float
    per_task: Float[np.ndarray, "tasks"]

    @classmethod
    def of(cls, per_task: Float[np.ndarray, "tasks"]) -> "Score":
        exact = per_task.astype(np.float64)
        return cls(float(exact.mean()), interval95(exact), per_task)

    def __str__(self) -> str:
        return f"{100 * self.mean:.2f} ± {100 * self.ci95:.2f} %"


@dataclass(frozen=True)
class Difference:
    """The mean difference of two scores on the same tasks and its 95 % interval (± `ci95`)."""

    mean: float
    ci95: float

    @property
    def excludes_zero(self) -> bool:
        return abs(self.mean) > self.ci95

    def __str__(self) -> str:
        return f"{100 * self.mean:+.2f} ± {100 * self.ci95:.2f} points"


def compare(first: Score, second: Score) -> Difference:
    """`first - second`, paired by task: both must have been scored on the same tasks."""
    if len(first.per_task) != len(second.per_task):
        raise UserError(
            f"the scores cover {len(first.per_task)} and {len(second.per_task)} tasks; "
            "a paired comparison needs the same tasks: evaluate both with the same task options and seed"
        )
    differences = first.per_task.astype(np.float64) - second.per_task.astype(np.float64)
    return Difference(float(differences.mean()), interval95(differences))


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; every module's own mode comes back afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def embed_images(
    model: FewShotModel,
    images: UInt8[np.ndarray, "all H W 3"],
    rows: Int[np.ndarray, "items"],
    batch: int | None = None,
    title: str = "",
) -> Shaped[Tensor, "items D"]:
    """The table of embeddings of the chosen rows of an image store, each image embedded once.

    No more than a `batch` of the images is in memory at once. With a `title` a progress bar is shown. Several
    processes each embed a part of the batches.
    """
    device = next(model.parameters()).device
    batch = batch or max(1, _BATCH_PIXELS // model.input_size**2)
    first, last = distributed.share(len(rows), batch)

    def load(chosen: Int[np.ndarray, "some"]) -> UInt8[Tensor, "some 3 size size"]:
        pixels = send(torch.from_numpy(images[chosen]), device).permute(0, 3, 1, 2)
        return center_crop(pixels, model.input_size)

    with evaluating(model), progress(title, last - first, shown=bool(title)) as advance:
        folded = model.folded(load(rows[:2]))  # tried on the same images in every process
        parts = []
        for start in range(first, last, batch):
            chosen = rows[start : min(start + batch, last)]
            parts.append(folded.embed(load(chosen)))
            advance(len(chosen))
        return distributed.join(torch.cat(parts), len(rows), batch)


def evaluate(
    model: FewShotModel,
    features: Shaped[Tensor, "items D"] | Shaped[np.ndarray, "items D"],
    labels: Int[Tensor, "items"] | Int[np.ndarray, "items"],
    spec: TaskSpec,
    *,
    class_names: Sequence[str] | None = None,
    chunk: int | None = None,
    title: str = "",
) -> Score:
    """Score tasks on a table of embeddings. `chunk` tasks are computed at once, with the same result.

    With a `title` a progress bar is shown.
    """
    index = ClassIndex(np.asarray(labels), class_names)
    with evaluating(model):
        return score_tasks(model, torch.as_tensor(features), index, spec, chunk=chunk, title=title)


def evaluate_selection(model: FewShotModel, images: ImageSet, selection: Selection, spec: TaskSpec) -> Score:
    """Embed the items of an image set and score tasks on them."""
    features = embed_images(model, images.images, selection.rows)
    with evaluating(model):
        return score_tasks(model, features, class_index(selection), spec)


def class_index(selection: Selection) -> ClassIndex:
    """What tasks are drawn from, for items of an image set."""
    return ClassIndex(
        selection.labels, selection.class_names, origins=selection.origins, domains=selection.domains
    )


def score_tasks(
    classify: Classify,
    features: Shaped[Tensor, "items D"],
    index: ClassIndex,
    spec: TaskSpec,
    *,
    chunk: int | None = None,
    title: str = "",
) -> Score:
    """Score whatever turns support and queries into logits; its modules are to be `evaluating` already."""
    per_task = np.empty(spec.tasks, dtype=np.float32)
    # Drawing a task takes a few numbers for each item of its classes.
    numbers = spec.way * max((spec.shot + spec.query) * features.shape[1], 4 * index.rows.shape[1])
    for first, last in task_chunks(spec.tasks, numbers, chunk, title, results=[per_task]):
        rows = torch.from_numpy(sample_tasks(index, spec, first, last)).to(features.device)
        episode = split(features[rows], spec.shot)
        logits = classify(episode.support, episode.query)
        per_task[first:last] = task_accuracy(logits, episode.query_labels).cpu().numpy()
    return Score.of(per_task)


def task_chunks(
    tasks: int,
    numbers: int,
    chunk: int | None = None,
    title: str = "",
    *,
    results: Sequence[np.ndarray],
) -> Iterator[tuple[int, int]]:
    """The first and last (excluded) task of each chunk, of tasks with so many embedding numbers each.

    Each of several processes is given a part of the chunks, and fills in its tasks of the `results`; after
    the last chunk these hold all tasks in every process.
    """
    chunk = chunk or max(1, _CHUNK_NUMBERS // numbers)
    begin, end = distributed.share(tasks, chunk)
    with progress(title, end - begin, shown=bool(title)) as advance:
        for first in range(begin, end, chunk):
            last = min(first + chunk, end)
            yield first, last
            advance(last - first)
    for values in results:
        distributed.collect(values, chunk)


def task_accuracy(logits: Float[Tensor, "T M N"], labels: Int[Tensor, "T M"]) -> Float[Tensor, "T"]:
    """The share of each task's queries that are classified rightly."""
    return (logits.argmax(-1) == labels).float().mean(-1)
