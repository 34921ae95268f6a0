"""The study of what the set adds."""

from typing import Any

from fewset.paper.runner import StudyRunner
from fewset.paper.study import PlannedNumber, PlannedRun, StudyPlan
from fewset.tasks.scores import SET_ADDS

_FUNCTIONS = ("BiLSTM", "DeepSets", "GCN", "FEAT", "Weighing", "Recall")
_NEAREST = 8  # among which the other classes of a related task are


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
            f"Related tasks have a class and others of its {_NEAREST} nearest. The set adds: the accuracy "
            "less that of the same weights with each class as a set of one, paired by task. Rows “on sets of "
            "one” are trained so.",
        ),
    )
