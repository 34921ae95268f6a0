"""One's own domain: FEAT, trained on labelled photos of other classes, and kept where it pays."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from jaxtyping import Float32, Int

from fewset.classify.adapted_head import AdaptedHead
from fewset.classify.background import Background, HeldOutComparison
from fewset.classify.heads import ClassifierHead, find_classifier_head, resolved_name, solved_episode
from fewset.classify.linear import prepared
from fewset.classify.support import Support
from fewset.data.features.table import FeatureTable, open_features, write_features
from fewset.evaluation.scoring import score_tasks
from fewset.runtime.errors import UserError
from fewset.tasks.sampling import ClassIndex
from fewset.tasks.scores import Score, compare
from fewset.tasks.spec import TaskSpec
from fewset.training.checkpoint import TrainingFiles
from fewset.training.episodic import TrainConfig
from fewset.training.features import FeatureTraining
from fewset.training.loop import fit
from fewset.training.optimiser import OptimiserConfig

LEAST_CLASSES = 20
"""Of the background: to learn from, and to see on others what was learned."""
_QUERY = 5
_WAY = 20  # of the tasks to learn from: on birds they teach twice as much as 5-way ones, for 5 ways too
_MOST_SHOTS = 5
_HELD_OUT = 0.2
_COMPARED = 3000  # classes of all tasks that are compared on, with at least 100 tasks and at most 600
_TASKS_A_STEP = 4
_STEPS = 300
_RATE = 2e-4  # a tenth of the adapter's; of birds 3e-5 learns a third as much, and 1e-3 does harm


def learn_background(background: Support, support: Support, head: str, seed: int = 0) -> Background:
    """Train FEAT on a background, and compare it with a head on classes of the background that were held out.

    It is trained with as many photos of a class as `support` has (5 at most), and compared on tasks with as
    many classes, too, where so many are held out.
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
    torch.manual_seed(seed)
    model = AdaptedHead(dims[0])
    features = background.features[chosen]
    rows = prepared(features, model.power).astype(np.float32)
    held_out = round(_HELD_OUT * len(good))
    config = TrainConfig(
        way=min(_WAY, len(good) - held_out),
        shot=shot,
        query=_QUERY,
        epochs=1,  # the held-out classes are seen once, at the end, and choose nothing
        tasks_per_epoch=_STEPS * _TASKS_A_STEP,
        tasks_per_step=_TASKS_A_STEP,
        validation_tasks=1,
        validation_way=min(way, held_out),
        validation_query=_QUERY,
        optimiser=OptimiserConfig(lr=_RATE, schedule="cosine"),
    )
    with TemporaryDirectory(prefix="fewset-") as directory:
        table = _table(
            Path(directory) / "background", rows, np.unique(labels[chosen], return_inverse=True)[1]
        )
        stage = FeatureTraining(model, table, config, seed)
        fit(stage, TrainingFiles(Path(directory)))
        validated = table.rows(stage.validated, "train")
    adapted = model.finished()
    comparison = _compared(
        adapted, head, features[validated], table.labels[validated], config, len(good), seed
    )
    return Background(comparison, adapted if comparison.kept else None)


def _compared(
    adapted: AdaptedHead,
    head: str,
    features: Float32[np.ndarray, "m D"],
    labels: Int[np.ndarray, "m"],
    config: TrainConfig,
    classes: int,
    seed: int,
) -> HeldOutComparison:
    way = config.validation_way
    tasks = min(max(100, _COMPARED // way), 600)
    spec = TaskSpec(way, config.shot, config.validation_query, tasks, seed)
    index = ClassIndex(labels)

    def score(one: ClassifierHead) -> Score:
        rows = torch.from_numpy(prepared(features, one.power))
        return score_tasks(
            lambda support, query: solved_episode(one, support).logits(query), rows, index, spec
        )

    alone, with_feat = score(find_classifier_head(head)), score(adapted)
    gain = compare(with_feat, alone)
    return HeldOutComparison(
        resolved_name(head),
        classes,
        len(index.classes),
        way,
        config.shot,
        tasks,
        alone.mean,
        with_feat.mean,
        gain.mean,
        gain.ci95,
    )


def _table(path: Path, rows: Float32[np.ndarray, "m D"], labels: Int[np.ndarray, "m"]) -> FeatureTable:
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
