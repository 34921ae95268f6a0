"""FEAT, trained on labelled photos of other classes of the same domain, and kept where it pays."""

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from jaxtyping import Float32, Int

from fewset.classify.background.comparison import Background, HeldOutComparison
from fewset.classify.background.head import AdaptedHead, episode_logits
from fewset.classify.heads import ClassifierHead, find_classifier_head, prepared, resolved_name
from fewset.classify.photos.support import Support
from fewset.core.errors import UserError
from fewset.data.features.table import FeatureTable, open_features, write_features
from fewset.evaluation.scoring import score_tasks
from fewset.tasks.sampling import ClassIndex
from fewset.tasks.scores import Score, compare
from fewset.tasks.spec import TaskSpec
from fewset.training.checkpoint import TrainingFiles
from fewset.training.episodic import TrainConfig
from fewset.training.feature_training import FeatureTraining
from fewset.training.loop import fit
from fewset.training.optimiser import OptimiserConfig
from fewset.training.seeding import seeded

LEAST_CLASSES = 20
"""Of the background, for training and for the comparison on held-out classes."""
_QUERY = 5
_WAY = 20  # of the tasks to learn from: on birds they teach twice as much as 5-way ones, for 5 ways too
_MOST_SHOTS = 5
_HELD_OUT = 0.2
_COMPARED = 3000  # classes of all tasks that are compared on, with at least 100 tasks and at most 600
_TASKS_A_STEP = 4
_STEPS = 300
_RATE = 2e-4  # a tenth of the adapter's; of birds 3e-5 learns a third as much, and 1e-3 does harm


def learn_background(background: Support, support: Support, head: str, seed: int = 0) -> Background:
    """Train FEAT on a background, and compare it with a head on held-out classes of the background.

    FEAT is trained on the set of each task's prototypes and, as the control, on sets of one; the set is used
    where it adds. The tasks have the shots of `support` (5 at most) and, in the comparison, its ways too,
    where enough classes are held out.
    """
    dims = [part.features.shape[1] for part in (background, support)]
    if dims[0] != dims[1]:
        raise UserError(
            f"the background has rows of {dims[0]} features, expected {dims[1]}, as the classifier's own; "
            "embed both with one encoder"
        )
    way, shot = len(support.classes), min(max(1, round(support.shots.mean())), _MOST_SHOTS)
    labels = background.labels
    good = np.flatnonzero(background.shots >= shot + _QUERY)
    if len(good) < LEAST_CLASSES:
        raise UserError(
            f"the background has {len(good)} classes of {shot + _QUERY} photos or more, expected "
            f"{LEAST_CLASSES} or more; add classes or photos, or leave the background out"
        )
    chosen = np.isin(labels, good)
    features = background.features[chosen]
    held_out = round(_HELD_OUT * len(good))
    config = TrainConfig(
        way=min(_WAY, len(good) - held_out),
        shot=shot,
        query=_QUERY,
        epochs=1,  # the held-out classes are seen once, at the end, and choose no weights
        tasks_per_epoch=_STEPS * _TASKS_A_STEP,
        tasks_per_step=_TASKS_A_STEP,
        validation_tasks=1,
        validation_way=min(way, held_out),
        validation_query=_QUERY,
        optimiser=OptimiserConfig(lr=_RATE, schedule="cosine"),
    )
    rows = prepared(features, AdaptedHead.power).astype(np.float32)
    with TemporaryDirectory(prefix="fewset-") as directory:
        table = _table(Path(directory, "background"), rows, np.unique(labels[chosen], return_inverse=True)[1])
        on_set, classes = _trained(table, config, seed, uses_set=True)
        alone, _ = _trained(table, config, seed, uses_set=False)
        validated = table.rows(classes, "train")
    way, count = config.validation_way, min(max(100, _COMPARED // config.validation_way), 600)
    spec, index = TaskSpec(way, shot, _QUERY, count, seed), ClassIndex(table.labels[validated])

    def score(one: ClassifierHead) -> Score:
        ready = torch.from_numpy(prepared(features[validated], one.power))
        return score_tasks(partial(episode_logits, one), ready, index, spec)

    plain, with_set, without_set = map(score, (find_classifier_head(head), on_set, alone))
    set_adds = compare(with_set, without_set)
    adapted = with_set if set_adds.mean > set_adds.ci95 else without_set
    gain = compare(adapted, plain)
    comparison = HeldOutComparison(
        *(resolved_name(head), len(good), len(index.classes), way, shot, spec.tasks),
        *(plain.mean, adapted.mean, gain.mean, gain.ci95, set_adds.mean, set_adds.ci95),
    )
    used = on_set if comparison.uses_set else alone
    return Background(comparison, used if comparison.kept else None)


def _trained(
    table: FeatureTable, config: TrainConfig, seed: int, uses_set: bool
) -> tuple[AdaptedHead, Int[np.ndarray, " held_out"]]:
    """A trained head, and the classes that it has not seen."""
    with seeded(seed):
        model = AdaptedHead(table.dim, uses_set)
    stage = FeatureTraining(model, table, config, seed)
    with TemporaryDirectory(prefix="fewset-") as directory:
        fit(stage, TrainingFiles(Path(directory)))
    return model.finished(), stage.validated


def _table(path: Path, rows: Float32[np.ndarray, "m D"], labels: Int[np.ndarray, " m"]) -> FeatureTable:
    """The prepared rows as a table to train on, each class one that is seen."""
    classes = int(labels.max()) + 1
    write_features(
        path,
        [rows],
        dim=rows.shape[1],
        labels=labels,
        roles=np.zeros_like(labels),
        class_names=[str(number) for number in range(classes)],
        unseen=np.zeros(classes, dtype=bool),
        setups=np.zeros(classes, dtype=np.int64),
        source="background",
        command="",
    )
    return open_features(path)
