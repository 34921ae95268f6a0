"""Whether what a classifier says about itself is so: its probabilities, its interval, its "none of these"."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.stats import rankdata

from benchmarks.classifier.accuracy import drawn_tasks
from benchmarks.classifier.embedded import EmbeddedSet
from fewset.classify.model import Learned, learn
from fewset.classify.photos.support import group_names, support_of_rows
from fewset.classify.scoring import expected_calibration_error
from fewset.classify.trust.rejection import SHARE
from fewset.tasks.scores import Score
from fewset.tasks.spec import TaskSpec


@dataclass(frozen=True, eq=False)
class TrustFigures:
    """What classifiers said of themselves on tasks, against what came of it."""

    calibration_error: float
    """Of the probabilities of all tasks together: see `expected_calibration_error`."""
    overconfidence: float
    """The mean probability of the answers less the share that is right."""
    covered: Score
    """Whether the accuracy on the queries lies in the interval of leave-one-out, where there is one."""
    left_out_bias: Score
    """The accuracy of leave-one-out less that on the queries."""
    left_out_error: Score
    """The same without its sign."""
    auroc: Score
    """Of "none of these": the share of pairs in which the query is closer than the stranger."""
    turned_away: Score
    """The share of queries that are taken for none of these, at the usual threshold."""
    strangers_found: Score
    """The same of the strangers."""


def trust_figures(head: str, items: EmbeddedSet, spec: TaskSpec) -> TrustFigures:
    """Fit a classifier to the shots of each task, and hold it to what it says.

    The queries of as many other classes, which are those of the task with twice the ways, are the strangers.
    """
    wider = replace(spec, way=2 * spec.way)
    observed = [_observed(head, items, drawn[0], spec) for drawn in drawn_tasks(items, wider)]
    sure, right, *columns = zip(*observed, strict=True)
    shares = np.array([part.mean() for part in right])
    low, left_out, high, auroc, turned_away, strangers_found = (np.array(column) for column in columns)
    told = ~np.isnan(left_out)
    bias = (left_out - shares)[told]
    return TrustFigures(
        calibration_error=expected_calibration_error(np.concatenate(sure), np.concatenate(right)),
        overconfidence=float(np.concatenate(sure).mean() - np.concatenate(right).mean()),
        covered=Score.of(((low <= shares) & (shares <= high))[told].astype(np.float64)),
        left_out_bias=Score.of(bias),
        left_out_error=Score.of(np.abs(bias)),
        auroc=Score.of(auroc),
        turned_away=Score.of(turned_away),
        strangers_found=Score.of(strangers_found),
    )


def area_under_curve(known: Float[np.ndarray, " k"], strangers: Float[np.ndarray, " s"]) -> float:
    """The share of pairs of a known one and a stranger in which the known one is larger; ties count half."""
    ranks = rankdata(np.concatenate([known, strangers]))[: len(known)]
    return float((ranks.sum() - len(known) * (len(known) + 1) / 2) / (len(known) * len(strangers)))


def _observed(
    head: str, items: EmbeddedSet, drawn: Int[np.ndarray, "N2 KQ"], spec: TaskSpec
) -> tuple[Float[np.ndarray, " m"], Bool[np.ndarray, " m"], float, float, float, float, float, float]:
    """Probabilities of the answers and whether they are right, then numbers of the task."""
    learned = learned_of(head, items, drawn[: spec.way, : spec.shot])
    known, strangers = (
        items.features[rows[:, spec.shot :].flatten()] for rows in (drawn[: spec.way], drawn[spec.way :])
    )
    probabilities = learned.probabilities(known)
    right = probabilities.argmax(axis=1) == np.arange(spec.way).repeat(spec.query)
    interval, trust = learned.trust.interval, learned.trust
    low, left_out, high = (
        (np.nan,) * 3 if interval is None else (interval.low, trust.right / trust.tested, interval.high)
    )
    near = [learned.closeness.of(rows) for rows in (known, strangers)]
    away = [float((part < learned.threshold(SHARE)).mean()) for part in near]
    return probabilities.max(axis=1), right, low, left_out, high, area_under_curve(*near), *away


def learned_of(head: str, items: EmbeddedSet, shots: Int[np.ndarray, "N K"]) -> Learned:
    """The classifier of the shots of a task, as `FewShotClassifier.fit` learns it from photos."""
    rows = shots.flatten()
    origins = None if items.origins is None else group_names(items.origins[rows], len(rows))
    support = support_of_rows(items.features[rows], np.arange(len(shots)).repeat(shots.shape[1]), origins)
    return learn(head, replace(support, fingerprints=items.fingerprints[rows]), None)
