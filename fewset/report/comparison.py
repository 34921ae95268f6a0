"""Results side by side: who is measured against whom, on which tasks, and by how much they differ."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from fewset.core.errors import UserError
from fewset.experiments.result import TASK_FIELDS
from fewset.report.loading import LoadedResult
from fewset.tasks.scores import ALONE, FOREIGN, Difference, Score, compare


class Comparison(NamedTuple):
    """A result beside the others: `difference` is its score less that of `baseline`, on the same tasks.

    Both are None for a baseline itself and for a result whose tasks no other result shares, which is
    `alone`. `gain` is what the adaptation brings, None where there is none, and `set_adds` the part of it
    that is lost when each item is adapted as a set of one. `over_foreign` is the gain over the same weights
    with another task's items in place of the others.
    """

    result: LoadedResult
    label: str
    gain: Difference | None
    set_adds: Difference | None
    over_foreign: Difference | None
    baseline: str | None
    difference: Difference | None
    alone: bool
    tasks: int  # that the difference is over


def compare_results(results: Sequence[LoadedResult], baseline: int | None = None) -> list[Comparison]:
    """Each result against the baseline: the one at that place in the list, which must share all tasks.

    Without a place, the baseline of a result is ProtoNet, or else the first one given, among those that
    share its tasks.
    """
    others = [_baseline_of(item, results) if baseline is None else results[baseline] for item in results]
    labels = dict(zip(results, _labels(results), strict=True))
    return [
        Comparison(
            result,
            labels[result],
            gain=None if result.unadapted is None else compare(result.score, result.unadapted),
            set_adds=compare(result.score, result.scores[ALONE]) if ALONE in result.scores else None,
            over_foreign=compare(result.score, result.scores[FOREIGN]) if FOREIGN in result.scores else None,
            baseline=None if other is result else labels[other],
            difference=None if other is result else difference(result, other),
            alone=others.count(result) == 1 and other is result,
            tasks=min(result.record.tasks, other.record.tasks),
        )
        for result, other in zip(results, others, strict=True)
    ]


def difference(first: LoadedResult, second: LoadedResult) -> Difference:
    """The paired difference first - second on the tasks of both, or an error that says why there is none."""
    if differing_fields(first, second):
        raise UserError(
            f"{first.path} and {second.path} are not on the same tasks ({describe_fields(first, second)}); "
            "score both alike with `fewset eval`"
        )
    shared = min(first.record.tasks, second.record.tasks)
    return compare(*(Score.of(result.score.per_task[:shared]) for result in (first, second)))


def differing_fields(first: LoadedResult, second: LoadedResult) -> list[str]:
    """The fields, of those that define the tasks, in which two results differ."""
    return [name for name in TASK_FIELDS if getattr(first.record, name) != getattr(second.record, name)]


def describe_fields(first: LoadedResult, second: LoadedResult) -> str:
    """How the tasks of two results differ, in words: "shot is 5, not 1"."""
    return ", ".join(
        f"{name} is {getattr(first.record, name)}, not {getattr(second.record, name)}"
        for name in differing_fields(first, second)
    )


def _baseline_of(result: LoadedResult, results: Sequence[LoadedResult]) -> LoadedResult:
    """The result on the same tasks that `result` is measured against; possibly itself."""
    candidates = [other for other in results if not differing_fields(result, other)]
    return next((other for other in candidates if other.record.method == "ProtoNet"), candidates[0])


def _labels(results: Sequence[LoadedResult]) -> list[str]:
    """The shortest unique name for each result."""
    candidates = [
        (
            ", ".join(filter(None, (record.method, record.variant))),
            f"{record.method}, {record.way}-way {record.shot}-shot",
            ", ".join(filter(None, (record.method, record.setting, record.variant, record.domain))),
            f"{record.method} ({record.run})",
            f"{record.method} ({record.run}, {result.path.stem})",
            f"{record.method} ({result.path})",
        )
        for result, record in ((result, result.record) for result in results)
    ]
    counts = Counter(name for names in candidates for name in names)
    return [next(name for name in names if counts[name] == 1 or name == names[-1]) for names in candidates]
