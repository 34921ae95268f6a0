"""Runs that differ only in the seed of their training: one row, and their spread."""

from collections.abc import Sequence
from statistics import fmean

from fewset.report.loading import LoadedResult
from fewset.report.tables import Column, Estimate, Table, Value, text_of
from fewset.tasks.scores import compare

_OWN = ("seed", "name", "train.init", "pretrain.init")  # keys in which seeds differ

Family = list[LoadedResult]
"""Results on the same tasks that are alike but for the seed, by their seeds."""


def families(results: Sequence[LoadedResult]) -> list[Family]:
    """The results on the same tasks, each with those of the same training with other seeds."""
    found: list[Family] = []
    for result in sorted(results, key=_seed):
        known = next((family for family in found if _differs_in_seed(family, result)), None)
        if known is None:
            found.append([result])
        else:
            known.append(result)
    return found


def _seed(result: LoadedResult) -> int:
    return int(result.recipe.get("seed", 0))


def _differs_in_seed(family: Family, result: LoadedResult) -> bool:
    first = family[0]
    shared = (first.recipe.keys() & result.recipe.keys()) - set(_OWN)  # versions may have others
    return (
        bool(shared)
        and first.record.method == result.record.method
        and _seed(result) not in map(_seed, family)
        and all(first.recipe[key] == result.recipe[key] for key in shared)
    )


def spread_table(found: Sequence[Family]) -> Table | None:
    """The spread of the training seeds; None where each training has one."""
    several = [family for family in found if len(family) > 1]
    if not several:
        return None
    baseline = next((family for family in several if family[0].record.method == "ProtoNet"), [])
    by_seed = {_seed(result): result for result in baseline}

    def over(family: Family) -> Value:
        """Seed by seed, over the baseline of the same seed."""
        pairs = [(each, by_seed[_seed(each)]) for each in family if _seed(each) in by_seed]
        texts = (text_of(compare(each.score, other.score)) for each, other in pairs)
        return None if family is baseline else ", ".join(texts) or None

    columns: dict[Column, list[Value]] = {
        Column("Method", "method"): [family[0].record.method for family in several],
        Column("Seeds", "seeds"): [", ".join(str(_seed(each)) for each in family) for family in several],
    }
    for title, number in (("Mean of the seeds", fmean), ("Lowest", min), ("Highest", max)):
        means = [number([result.score.mean for result in family]) for family in several]
        columns[Column(title, title.lower(), True)] = [Estimate(mean, None) for mean in means]
    if baseline:
        columns[Column("Over ProtoNet, seed by seed", "over")] = [over(family) for family in several]
    rows = tuple(zip(*columns.values(), strict=True))
    return Table("The same trainings with several seeds", tuple(columns), rows)
