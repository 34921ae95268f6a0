"""The gate of a model: how much of its adaptation to keep, chosen on validation tasks."""

from collections.abc import Callable

from fewset.models.task_model import TaskModel
from fewset.tasks.scores import Score

GATES = (0.0, 0.25, 0.5, 0.75, 1.0)


def score_with_best_gate(model: TaskModel, score: Callable[[], Score]) -> Score:
    """The best of the scores with each of `GATES`, and leave the model with that gate.

    Of equal gates the larger one is taken. A model without a gate is scored as it is. All gates see the same
    tasks, so on these the model is never behind its unadapted self, which is gate 0.
    """
    gate = dict(model.named_buffers(recurse=False)).get("gate")
    if gate is None:
        return score()
    scores = {}
    for value in GATES:
        gate.fill_(value)
        scores[value] = score()
    best = max(GATES, key=lambda value: (scores[value].mean, value))
    gate.fill_(best)
    return scores[best]
