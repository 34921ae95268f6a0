"""A measurement from photos to its file, and back."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.classifier import measurement
from benchmarks.classifier.accuracy import drawn_tasks, head_accuracy, task_spec
from benchmarks.classifier.measurement import (
    PlannedSet,
    measure_cell,
    measure_set,
    read_measurement,
    write_measurement,
)
from fewset.classify.heads import CLASSIFIER_HEADS, DEFAULT, find_classifier_head
from fewset.core.errors import UserError
from fewset.tasks.scores import Score, compare
from fewset.tasks.spec import TaskSpec
from tests.helpers.embedded_sets import embedded, write_many_classes
from tests.helpers.photos import TinyEncoder


def test_every_head_on_the_same_tasks_against_the_better_reference() -> None:
    items, spec = embedded(), TaskSpec(5, 2, 3, 13)
    cell = measure_cell(items, spec)
    assert set(cell.accuracy) == set(CLASSIFIER_HEADS)
    scores = {
        name: Score.of(head_accuracy(find_classifier_head(name), items, spec)) for name in CLASSIFIER_HEADS
    }
    better = max(("ridge", "logistic"), key=lambda name: scores[name].mean)
    assert cell.reference == better
    for name, score in scores.items():
        ahead = compare(score, scores[better])
        assert (cell.accuracy[name].mean, cell.accuracy[name].ci95) == (score.mean, score.ci95)
        assert (cell.ahead[name].mean, cell.ahead[name].ci95) == (ahead.mean, ahead.ci95)


def test_a_measurement_is_what_its_file_gives_back(tmp_path: Path) -> None:
    planned = PlannedSet("many", "Many classes", "folder", "photos", notes=("drawn",))
    write_many_classes(tmp_path / "photos", 11, 7)
    measured = measure_set(planned, tmp_path, TinyEncoder(), {"commit": "c0", "torch": "2"}, seed=3, tasks=5)
    assert [(cell.way, cell.shot, cell.query, cell.tasks) for cell in measured.cells] == [
        (5, 1, 6, 5),
        (5, 5, 2, 5),
        (11, 1, 6, 5),
        (11, 5, 2, 5),
    ]
    assert (measured.images, measured.classes, measured.seed) == (77, 11, 3)
    assert (measured.trust.head, measured.trust.tasks, measured.trust.query) == (DEFAULT, 5, 2)
    assert measured.encoder_digest == "d1" * 32
    assert (measured.commit, measured.versions) == ("c0", {"torch": "2"})
    write_measurement(measured, tmp_path / "many.json")
    assert read_measurement(tmp_path / "many.json") == measured


def test_tasks_of_related_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Related by an encoder that is not the measured one."""
    write_many_classes(tmp_path / "photos", 11, 7)
    planned = PlannedSet("many", "Many classes", "folder", "photos", related_by="other")
    encoders = {"other": TinyEncoder(id="other", digest="d2" * 32), "same": TinyEncoder()}
    monkeypatch.setattr(measurement, "load_encoder", encoders.__getitem__)
    measured = measure_set(planned, tmp_path, TinyEncoder(), {"commit": "c0"}, tasks=5)
    assert [cell.name for cell in measured.cells[-2:]] == ["5-way 1-shot, related", "5-way 5-shot, related"]
    assert [cell.related for cell in measured.cells[-2:]] == [8, 8]
    with pytest.raises(UserError, match="nearness must come from another encoder"):
        measure_set(replace(planned, related_by="same"), tmp_path, TinyEncoder(), {"commit": "c0"}, tasks=5)


def test_related_classes_are_near() -> None:
    """Each task has classes of one group, which the class means tell."""
    items = embedded(classes=15)
    near = np.array([[other for other in range(15) if other != label] for label in range(15)])
    order = np.argsort(near // 5 != np.arange(15)[:, None] // 5, axis=1, kind="stable")
    items = replace(items, nearest=np.take_along_axis(near, order, axis=1))
    spec = task_spec(items, 5, 1, 20, seed=0, related=4)
    for drawn in drawn_tasks(items, spec):
        assert len(set((items.labels[drawn[0, :, 0]] // 5).tolist())) == 1
