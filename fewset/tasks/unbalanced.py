"""Tasks whose classes have different numbers of queries, as a pure function of the seed and the task.

The shares of the classes are drawn from a Dirichlet distribution with all parameters equal (Veilleux et al.,
2021: 2); the total number of queries stays the same. Many transductive methods silently assume that classes
have equally many.
"""

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Int

from fewset.core.errors import UserError
from fewset.core.randomness import hash_keys
from fewset.tasks.episode import Episode
from fewset.tasks.sampling import ClassIndex, sample_tasks
from fewset.tasks.spec import TaskSpec


def check_unbalanced(index: ClassIndex, spec: TaskSpec) -> None:
    """Raise if such tasks cannot be drawn: all queries of a task may be of one class."""
    queries, spare = spec.way * spec.query, int(index.spare(spec.shot, 0).min())
    if spare < queries:
        raise UserError(
            f"when they are unbalanced, all {queries} queries of a task ({spec.way} x {spec.query}) may be "
            f"of one class, but a class here has {max(spare, 0)} besides its shots; lower the query"
        )


def sample_unbalanced(
    index: ClassIndex, spec: TaskSpec, concentration: int, first: int, last: int
) -> Episode:
    """The rows of tasks `first` to `last` (excluded), queries class by class; the shots of balanced tasks."""
    drawn = sample_tasks(index, replace(spec, query=spec.way * spec.query), first, last)
    counts = query_counts(spec, concentration, first, last)
    taken = np.arange(spec.way * spec.query) < counts[..., None]
    _, labels, _ = taken.nonzero()
    queries = drawn[:, :, spec.shot :][taken]
    support, query, query_labels = (
        torch.from_numpy(np.ascontiguousarray(each))
        for each in (drawn[:, :, : spec.shot], *(a.reshape(len(drawn), -1) for a in (queries, labels)))
    )
    return Episode(support, query, query_labels)


def query_counts(spec: TaskSpec, concentration: int, first: int, last: int) -> Int[np.ndarray, "T N"]:
    """How many queries each class of a task has: in all `spec.way * spec.query`, for a class 0 or more.

    A Dirichlet share is a gamma variable over the sum of all; a gamma variable of integer shape is a sum of
    exponential ones. Shares are rounded to integers by the largest remainders.
    """
    tasks = np.arange(first, last, dtype=np.uint64)[:, None, None]
    keys = hash_keys(spec.seed, tasks, np.arange(spec.way)[:, None], np.arange(concentration), 1)
    uniform = ((keys >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    gamma = -np.log(uniform).sum(axis=-1)
    queries = spec.way * spec.query
    exact = queries * gamma / gamma.sum(axis=-1, keepdims=True)
    counts = np.floor(exact).astype(np.int64)
    places = np.argsort(np.argsort(counts - exact, axis=-1, kind="stable"), axis=-1, kind="stable")
    whole: np.ndarray = counts + (places < queries - counts.sum(axis=-1, keepdims=True))
    return whole
