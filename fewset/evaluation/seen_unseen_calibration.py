"""Calibration of seen against unseen classes, on the margins of queries alone.

A query is of a seen or of an unseen class, and so is the answer. Only the difference of its best seen and its
best unseen score decides between the two groups: subtracting a constant from the seen scores moves the
threshold on that margin. So the scores are computed once, and all constants follow by sorting the margins.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from fewset.tasks.scores import Score

OBJECTIVES = ("harmonic", "combined")


@dataclass(frozen=True, eq=False)
class Margins:
    """Best seen score less best unseen score of every query; NaN where its own group is answered wrongly.

    So a query of a seen class is right where its margin is above the constant, a query of an unseen class
    where it is not above it, and NaN is right for no constant.
    """

    seen: Float[np.ndarray, "tasks seen queries"]
    unseen: Float[np.ndarray, "tasks N Q"]


def json_number(value: float) -> float | str:
    """JSON has no infinity: it is written as "inf" or "-inf", which `float` reads."""
    return str(value) if np.isinf(value) else value


def scores_at(margins: Margins, constant: float) -> dict[str, Score]:
    """The accuracies when `constant` is subtracted from the seen scores; `seen` and `unseen` do without it.

    At +∞ nothing is taken for a seen class, at -∞ everything is. COMBINED counts every class alike, which the
    paper's intervals and chance level, 1/69, fit. The harmonic mean is that of a task's two accuracies among
    all classes, as in the authors' later work.
    """
    threshold = np.float64(constant)  # a Python float would be rounded to the margins' float32
    seen = (margins.seen > threshold).mean(axis=(1, 2))
    unseen = (margins.unseen <= threshold).mean(axis=(1, 2))
    accuracies = {
        "seen": (~np.isnan(margins.seen)).mean(axis=(1, 2)),
        "unseen": (~np.isnan(margins.unseen)).mean(axis=(1, 2)),
        "combined": _combined(margins, seen, unseen),
        "seen_among_all": seen,
        "unseen_among_all": unseen,
        "harmonic": _harmonic(seen, unseen),
    }
    # In single precision, as they are stored.
    return {name: Score.of(per_task.astype(np.float32)) for name, per_task in accuracies.items()}


def calibrate(margins: Margins, objective: str = "harmonic") -> float:
    """The constant that maximises the harmonic mean of the mean accuracies among all classes, or COMBINED.

    The paper only says that it is selected on the validation set; the authors' later code maximises the
    harmonic mean. COMBINED counts 64 seen classes against 5, so its best constant can be -∞.
    """
    seen, unseen = _ordered(margins.seen), _ordered(margins.unseen)
    # Between two margins nothing changes, and only at an unseen one is something gained.
    candidates = np.concatenate([[-np.inf], unseen])
    lost = np.searchsorted(seen, candidates, side="right")
    won = np.searchsorted(unseen, candidates, side="right")
    rates = (len(seen) - lost) / margins.seen.size, won / margins.unseen.size
    best = int((_harmonic(*rates) if objective == "harmonic" else _combined(margins, *rates)).argmax())
    if best == 0:
        return -np.inf
    # Half-way to the next margin, so that the last digit of a score decides nothing.
    above = np.concatenate([seen[lost[best] :][:1], unseen[won[best] :][:1], [np.inf]]).min()
    return float((candidates[best] + above) / 2)


def curve(margins: Margins, points: int = 200) -> dict[str, Any]:
    """Mean accuracy among all classes of seen against unseen queries, as plain values for a file.

    `constants` are `points` of them, spread over the margins, and -∞ and +∞. `area` is the exact area under
    the whole curve (AUSUC), not that under these points alone.
    """
    seen, unseen = _ordered(margins.seen), _ordered(margins.unseen)
    spread = [_thinned(seen, points // 2), _thinned(unseen, points - points // 2)]
    constants = np.sort(np.concatenate([[-np.inf], *spread, [np.inf]]))
    kept = (len(seen) - np.searchsorted(seen, constants, side="right")) / margins.seen.size
    won = np.searchsorted(unseen, constants, side="right") / margins.unseen.size
    # When a seen query is lost, at its margin, the unseen ones of smaller margin are won, and half the ties.
    pairs = np.searchsorted(unseen, seen, side="left") + np.searchsorted(unseen, seen, side="right")
    return {
        "constants": [json_number(constant) for constant in constants.tolist()],
        "seen": kept.tolist(),
        "unseen": won.tolist(),
        "area": float(pairs.sum()) / 2 / (margins.seen.size * margins.unseen.size),
    }


def _ordered(margins: Float[np.ndarray, "tasks classes queries"]) -> Float[np.ndarray, " right"]:
    return np.sort(margins[~np.isnan(margins)]).astype(np.float64)


def _thinned(values: Float[np.ndarray, " n"], count: int) -> Float[np.ndarray, " at_most_count"]:
    places = np.linspace(0, len(values), count, endpoint=False).astype(np.int64)
    return values[np.unique(places)[: len(values)]]


def _harmonic(first: Float[np.ndarray, " n"], second: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """The harmonic mean of two accuracies; 0 where both are 0."""
    return np.asarray(2 * first * second / np.maximum(first + second, np.finfo(np.float64).tiny))


def _combined(
    margins: Margins, seen: Float[np.ndarray, " n"], unseen: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    classes, way = margins.seen.shape[1], margins.unseen.shape[1]
    return np.asarray((classes * seen + way * unseen) / (classes + way))
