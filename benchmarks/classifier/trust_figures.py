"""Whether what a classifier says about itself is so: its probabilities and its interval."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from benchmarks.classifier.accuracy import drawn_tasks
from benchmarks.classifier.embedded import EmbeddedSet
from fewset.classify.model import Learned, learn
from fewset.classify.photos.support import group_names, support_of_rows
from fewset.classify.scoring import expected_calibration_error
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


def trust_figures(head: str, items: EmbeddedSet, spec: TaskSpec) -> TrustFigures:
    """Fit a classifier to the shots of each task, and hold it to what it says."""
    observed = [_observed(head, items, drawn[0], spec) for drawn in drawn_tasks(items, spec)]
    sure, right, *columns = zip(*observed, strict=True)
    shares = np.array([part.mean() for part in right])
    low, left_out, high = (np.array(column) for column in columns)
    told = ~np.isnan(left_out)
    bias = (left_out - shares)[told]
    return TrustFigures(
        calibration_error=expected_calibration_error(np.concatenate(sure), np.concatenate(right)),
        overconfidence=float(np.concatenate(sure).mean() - np.concatenate(right).mean()),
        covered=Score.of(((low <= shares) & (shares <= high))[told].astype(np.float64)),
        left_out_bias=Score.of(bias),
        left_out_error=Score.of(np.abs(bias)),
    )


def _observed(
    head: str, items: EmbeddedSet, drawn: Int[np.ndarray, "N KQ"], spec: TaskSpec
) -> tuple[Float[np.ndarray, " m"], Bool[np.ndarray, " m"], float, float, float]:
    """Probabilities of the answers and whether they are right, then numbers of the task."""
    learned = learned_of(head, items, drawn[:, : spec.shot])
    probabilities = learned.probabilities(items.features[drawn[:, spec.shot :].flatten()])
    right = probabilities.argmax(axis=1) == np.arange(spec.way).repeat(spec.query)
    interval, trust = learned.trust.interval, learned.trust
    low, left_out, high = (
        (np.nan,) * 3 if interval is None else (interval.low, trust.right / trust.tested, interval.high)
    )
    return probabilities.max(axis=1), right, low, left_out, high


def learned_of(head: str, items: EmbeddedSet, shots: Int[np.ndarray, "N K"]) -> Learned:
    """The classifier of the shots of a task, as `FewShotClassifier.fit` learns it from photos."""
    rows = shots.flatten()
    origins = None if items.origins is None else group_names(items.origins[rows], len(rows))
    support = support_of_rows(items.features[rows], np.arange(len(shots)).repeat(shots.shape[1]), origins)
    return learn(head, replace(support, fingerprints=items.fingerprints[rows]), None)
