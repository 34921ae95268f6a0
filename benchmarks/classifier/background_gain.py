"""What a background is worth: classifiers with FEAT, learned from other classes, against those without."""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.classifier.accuracy import drawn_tasks, head_accuracy, task_spec
from benchmarks.classifier.embedded import EmbeddedSet, SetSource, embedded_set
from fewset.classify.background.comparison import HeldOutComparison
from fewset.classify.background.training import learn_background
from fewset.classify.heads import DEFAULT, find_classifier_head
from fewset.classify.photos.support import support_of_rows
from fewset.compute.machine import describe
from fewset.encoders import Encoder
from fewset.experiments.result import command_line
from fewset.io.files import write_json
from fewset.tasks.scores import Difference, Score, compare
from fewset.tasks.spec import TaskSpec

_TASKS = {5: 10_000}
_TASKS_OF_MANY_WAYS = 100


@dataclass(frozen=True)
class GainCell:
    """Tasks of one size: the accuracy without the background, and the paired gain with it.

    `comparison` is what the classifier itself found on held-out classes of the background. Where it does not
    keep FEAT the two are one.
    """

    spec: TaskSpec
    alone: Score
    adapted: Score
    gain: Difference
    comparison: HeldOutComparison


def background_gain(
    background: EmbeddedSet, items: EmbeddedSet, way: int, shot: int, tasks: int, seed: int = 0
) -> GainCell:
    """Learn from a background as `fit` does, and score many tasks of other classes with it and without."""
    spec = task_spec(items, way, shot, tasks, seed)
    shots = next(drawn_tasks(items, spec))[0, :, :shot].flatten()
    task = support_of_rows(items.features[shots], items.labels[shots])
    others = support_of_rows(background.features, background.labels)
    learned = learn_background(others, task, DEFAULT, seed)
    alone = find_classifier_head(DEFAULT)
    scores = [Score.of(head_accuracy(head, items, spec)) for head in (alone, learned.head or alone)]
    return GainCell(spec, scores[0], scores[1], compare(scores[1], scores[0]), learned.comparison)


def measure_background(
    background: SetSource, tested: SetSource, encoder: Encoder, out: Path, seed: int, most: int | None
) -> list[GainCell]:
    """5 ways and all classes, 1 and 5 shots; written to a file with all that made it."""
    begin = time.monotonic()
    others, items = (embedded_set(where, encoder) for where in (background, tested))
    cells = [
        background_gain(others, items, way, shot, min(tasks, most or tasks), seed)
        for way, tasks in {**_TASKS, len(items.class_names): _TASKS_OF_MANY_WAYS}.items()
        for shot in (1, 5)
    ]
    versions = describe()
    record = {
        "background": _described(background, others),
        "tested": _described(tested, items),
        "encoder": encoder.id,
        "encoder_digest": encoder.digest,
        "head": DEFAULT,
        "seed": seed,
        "cells": [_plain(cell) for cell in cells],
        "command": command_line(),
        "commit": str(versions.pop("commit")),
        "versions": versions,
        "seconds": round(time.monotonic() - begin, 1),
    }
    write_json(out, record)
    return cells


def _described(where: SetSource, items: EmbeddedSet) -> dict[str, Any]:
    return {
        "kind": where.kind,
        "source": where.source.name,
        "split": where.split,
        "domain": where.domain,
        "images": len(items.labels),
        "classes": len(items.class_names),
        "digest": items.images_digest,
    }


def _plain(cell: GainCell) -> dict[str, Any]:
    means = {
        name: {"mean": part.mean, "ci95": part.ci95}
        for name, part in (("alone", cell.alone), ("adapted", cell.adapted), ("gain", cell.gain))
    }
    held_out = {**asdict(cell.comparison), "kept": cell.comparison.kept}
    return {**asdict(cell.spec), **means, "held_out_classes": held_out}
