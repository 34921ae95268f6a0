"""The ablations: one function for each study of a part of the method, as in `fewset.paper.catalogue`."""

from collections.abc import Callable, Iterable
from typing import Any

from fewset.paper.runner import StudyRunner
from fewset.paper.study import PlannedNumber, PlannedRun, StudyPlan
from fewset.tasks.scores import ALONE, SET_ADDS

Plan = Callable[[StudyRunner], StudyPlan]

SHOTS = {"1-shot 5-way": 1, "5-shot 5-way": 5}
"""The columns of most tables of the paper."""

_FUNCTIONS = ("BiLSTM", "DeepSets", "GCN", "FEAT", "Weighing", "Recall")
_NEAREST = 8  # among which the other classes of a related task are
_COSINE_TEMPERATURES = {1: 0.05, 5: 0.03}


def adaptation(_: StudyRunner) -> StudyPlan:
    """The embeddings before and after adaptation, and what of it is left without the set."""
    rows = {"Pre-Adapt": "before", "Post-Adapt": "", "Post-Adapt, sets of one": ALONE}
    return StudyPlan(
        "Before against after adaptation",
        tuple(
            PlannedNumber(row, column, PlannedRun("feat", shot), score=score)
            for row, score in rows.items()
            for column, shot in SHOTS.items()
        ),
        corner="embeddings",
        notes=(
            "Sets of one: the same weights, each prototype adapted by itself. What is above that is due to "
            "the rest of the set.",
        ),
    )


def averaging(_: StudyRunner) -> StudyPlan:
    """The mean of each class before or after the set-to-set function."""
    columns = {
        "Pre-Avg": PlannedRun("feat", 5),
        "Post-Avg": PlannedRun("feat", 5, "post-average", ('model.average="post"',)),
    }
    return StudyPlan(
        "Averaging before or after adaptation",
        tuple(
            PlannedNumber(str(shot), column, run, tasks={"shot": shot})
            for shot in (5, 15, 30)
            for column, run in columns.items()
        ),
        corner="shots",
        notes=("Both models are trained on 5-shot tasks.",),
    )


def heads(_: StudyRunner) -> StudyPlan:
    """The number of heads of the Transformer."""
    return _ablation("Number of heads", "heads", "model.adapter_options.heads", (1, 2, 4, 8), usual=1)


def layers(_: StudyRunner) -> StudyPlan:
    """The number of layers of the Transformer."""
    return _ablation("Number of layers", "layers", "model.adapter_options.layers", (1, 2, 3), usual=1)


def contrastive(_: StudyRunner) -> StudyPlan:
    """The weight of the contrastive term."""
    return _ablation("Weight of the contrastive term", "weight", "train.balance", (10, 1, 0.1, 0.01))


def similarity(_: StudyRunner) -> StudyPlan:
    """Cosine similarity, with its own temperatures, against Euclidean distance."""

    def cosine(shot: int) -> tuple[str, tuple[str, ...]]:
        temperature = _COSINE_TEMPERATURES[shot]
        keys = "model.head_options.temperature", "train.contrastive_temperature"
        return "cosine", ('model.head_options.similarity="cosine"', *(f"{key}={temperature}" for key in keys))

    temperatures = " and ".join(map(str, _COSINE_TEMPERATURES.values()))
    return StudyPlan(
        "Cosine similarity against Euclidean distance",
        tuple(
            PlannedNumber(row, column, PlannedRun("feat", shot, *(cosine(shot) if row == "Cosine" else ())))
            for row in ("Cosine", "Euclidean")
            for column, shot in SHOTS.items()
        ),
        corner="similarity",
        notes=(
            f"Cosines are divided by temperatures of {temperatures}, which validation tasks of CUB chose, "
            "distances by that of the recipe.",
        ),
    )


def context(_: StudyRunner) -> StudyPlan:
    """What the set adds, and where: set-to-set functions and functions without a set, equally trained."""
    blind = {"ProtoNet": "protonet", "ProtoNet + LayerNorm": "norm", "Item-wise network": "itemwise"}
    functions = {name: name.lower() for name in _FUNCTIONS}
    runs: list[tuple[str, str, tuple[Any, ...]]] = [(row, method, ()) for row, method in blind.items()]
    for row, method in functions.items():
        runs.append((f"{row} on sets of one", method, ("alone", ("model.sets_of_one=true",))))
        runs.append((row, method, ()))
    columns: dict[str, dict[str, int]] = {"random": {}, "related": {"related": _NEAREST}}
    return StudyPlan(
        "What the set adds",
        tuple(
            PlannedNumber(
                row,
                f"{column}, the set adds" if score else column,
                PlannedRun(method, shot, *changed),
                panel=f"{shot}-shot",
                tasks=tasks,
                score=score,
            )
            for shot in (1, 5)
            for row, method, changed in runs
            for score in ("", SET_ADDS)
            for column, tasks in columns.items()
        ),
        corner="function",
        notes=(
            f"Related tasks have a class and others of its {_NEAREST} nearest. Rows “on sets of one” are "
            "trained so.",
        ),
    )


def _ablation(
    title: str, corner: str, key: str, values: Iterable[float], usual: float | None = None
) -> StudyPlan:
    """FEAT with one key of its recipe at each of the values; at the usual one it is the recipe as it is."""

    def run(value: float, shot: int) -> PlannedRun:
        changed = () if value == usual else (f"{corner}-{value}", (f"{key}={value}",))
        return PlannedRun("feat", shot, *changed)

    numbers = [
        PlannedNumber(str(value), column, run(value, shot))
        for value in values
        for column, shot in SHOTS.items()
    ]
    return StudyPlan(title, tuple(numbers), corner=corner)


def named(*studies: Plan) -> dict[str, Plan]:
    """The studies by the names that the commands have for them."""
    return {study.__name__.replace("_", "-"): study for study in studies}


ABLATIONS = named(adaptation, averaging, heads, layers, contrastive, similarity, context)
