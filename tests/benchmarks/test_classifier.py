"""Measurements of the classifier, against a classifier for each task and loops that are obviously right."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmarks.classifier import accuracy, measurement
from benchmarks.classifier.accuracy import drawn_tasks, head_accuracy, task_spec
from benchmarks.classifier.background_gain import background_gain
from benchmarks.classifier.embedded import EmbeddedSet, SetSource, embedded_set
from benchmarks.classifier.measurement import (
    PlannedSet,
    measure_cell,
    measure_set,
    read_measurement,
    write_measurement,
)
from benchmarks.classifier.trust_figures import (
    learned_of,
    trust_figures,
)
from fewset.classify.classifier import FewShotClassifier
from fewset.classify.embedding import embed
from fewset.classify.heads import CLASSIFIER_HEADS, DEFAULT, find_classifier_head
from fewset.classify.scoring import expected_calibration_error
from fewset.core.errors import UserError
from fewset.data.manifest import home
from fewset.tasks.scores import Score, compare
from fewset.tasks.spec import TaskSpec
from tests.helpers.backgrounds import domain_rows
from tests.helpers.embedded_sets import embedded, write_many_classes
from tests.helpers.photos import CLASSES, TinyEncoder, photo, write_photos

# Accuracy


@pytest.mark.parametrize("origins", [0, 5])
@pytest.mark.parametrize("name", sorted(CLASSIFIER_HEADS))
def test_accuracy_is_that_of_a_classifier_for_each_task(
    name: str, origins: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fewset.classify.trust.leave_one_out._PAIRED_FITS", 1)  # is not looked at, but slow
    items = embedded(origins=origins)
    spec = TaskSpec(way=7, shot=3, query=3, tasks=11, seed=5)
    expected = []
    for (task,) in drawn_tasks(items, spec):
        shots, queries = task[:, :3].flatten(), task[:, 3:].flatten()
        classifier = FewShotClassifier(head=name).fit(items.features[shots], items.labels[shots])
        expected.append(classifier.score(items.features[queries], items.labels[queries]))
    found = head_accuracy(find_classifier_head(name), items, spec)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert 0.3 < found.mean() < 0.98
    monkeypatch.setattr(accuracy, "_CHUNK_NUMBERS", 1)
    np.testing.assert_array_equal(head_accuracy(find_classifier_head(name), items, spec), found)


def test_tasks_have_as_many_queries_as_every_class_has() -> None:
    assert task_spec(embedded(each=7), 5, 1, 3, 0).query == 6
    assert task_spec(embedded(each=31), 5, 1, 3, 0).query == 15
    assert task_spec(embedded(each=10, origins=5), 5, 1, 3, 0).query == 4  # one of each other origin
    assert task_spec(embedded(each=10, origins=5), 5, 5, 3, 0).query == 4  # all of two origins


def test_shots_and_queries_have_other_origins() -> None:
    items = embedded(origins=4)
    assert items.origins is not None
    for task in drawn_tasks(items, TaskSpec(3, 2, 3, 17), 5):
        for rows in task.reshape(-1, 5):
            assert not set(items.origins[rows[:2]]) & set(items.origins[rows[2:]])


def test_every_head_is_compared_with_the_better_reference() -> None:
    items, spec = embedded(), TaskSpec(5, 2, 3, 13)
    cell = measure_cell(items, spec)
    scores = {
        name: Score.of(head_accuracy(find_classifier_head(name), items, spec)) for name in CLASSIFIER_HEADS
    }
    assert cell.reference == max(("ridge", "logistic"), key=lambda name: scores[name].mean)
    assert set(cell.accuracy) == set(scores)
    for name, score in scores.items():
        ahead = compare(score, scores[cell.reference])
        assert (cell.accuracy[name].mean, cell.accuracy[name].ci95) == (score.mean, score.ci95)
        assert (cell.ahead[name].mean, cell.ahead[name].ci95) == (ahead.mean, ahead.ci95)


def test_the_gain_of_a_background_is_paired_and_on_other_classes() -> None:
    def table(rows: np.ndarray, labels: np.ndarray) -> EmbeddedSet:
        names = tuple(f"class {label}" for label in range(labels.max() + 1))
        prints = np.zeros(len(labels), np.uint64)
        return replace(embedded(), features=rows, labels=labels, class_names=names, fingerprints=prints)

    items = table(*domain_rows(7, classes=20, shots=16))
    cell = background_gain(table(*domain_rows(0, 40, 11)), items, way=5, shot=1, tasks=200)
    assert cell.comparison.kept
    alone = head_accuracy(find_classifier_head(DEFAULT), items, cell.spec)
    np.testing.assert_array_equal(cell.alone.per_task, alone)
    assert cell.gain.mean == pytest.approx(cell.adapted.mean - cell.alone.mean, abs=1e-6)
    assert cell.gain.mean > cell.gain.ci95


# From photos to a file


def test_a_measurement_is_what_its_file_gives_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tasks of related classes, by an encoder that is not the measured one."""
    write_many_classes(tmp_path / "photos", 11, 7)
    planned = PlannedSet("many", "Many classes", "folder", "photos", notes=("drawn",), related_by="other")
    encoders = {"other": TinyEncoder(id="other", digest="d2" * 32), "same": TinyEncoder()}
    monkeypatch.setattr(measurement, "load_encoder", encoders.__getitem__)
    origin = {"commit": "c0", "torch": "2"}
    measured = measure_set(planned, tmp_path, TinyEncoder(), origin, seed=3, tasks=5)
    cells = [(cell.way, cell.shot, cell.query, cell.tasks, cell.related) for cell in measured.cells]
    assert cells[:4] == [(5, 1, 6, 5, 0), (5, 5, 2, 5, 0), (11, 1, 6, 5, 0), (11, 5, 2, 5, 0)]
    assert [cell[-1] for cell in cells[4:]] == [8, 8]
    assert (measured.images, measured.classes, measured.seed) == (77, 11, 3)
    assert (measured.trust.head, measured.trust.tasks, measured.trust.query) == (DEFAULT, 5, 2)
    assert (measured.encoder_digest, measured.commit, measured.versions) == ("d1" * 32, "c0", {"torch": "2"})
    write_measurement(measured, tmp_path / "many.json")
    assert read_measurement(tmp_path / "many.json") == measured
    with pytest.raises(UserError, match="another encoder"):
        measure_set(replace(planned, related_by="same"), tmp_path, TinyEncoder(), origin, tasks=5)


class CountingEncoder(TinyEncoder):
    seen = 0

    def __call__(self, images: Sequence[Image.Image]) -> np.ndarray:
        CountingEncoder.seen += len(images)
        return super().__call__(images)


def test_rows_are_those_of_the_classifier_and_are_kept(tmp_path: Path) -> None:
    folder = write_photos(tmp_path / "photos")
    source = SetSource("folder", folder)
    CountingEncoder.seen = 0
    items = embedded_set(source, CountingEncoder())
    np.testing.assert_array_equal(items.features, embed(folder, TinyEncoder()))
    assert items.class_names == tuple(sorted(CLASSES))
    assert items.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    again = embedded_set(source, CountingEncoder())
    assert CountingEncoder.seen == 12
    np.testing.assert_array_equal(again.features, items.features)
    np.testing.assert_array_equal(again.fingerprints, items.fingerprints)
    photo("grass", 99).save(folder / "grass" / "1.png")
    changed = embedded_set(source, CountingEncoder())
    assert changed.images_digest != items.images_digest
    assert (changed.features != items.features).any(axis=1).sum() == 1
    kept = len(list((home() / "embeddings").glob("*")))
    (folder / "grass" / "1.png").write_bytes(b"no image")
    with pytest.raises(UserError, match=r"grass/1\.png"):
        embedded_set(source, CountingEncoder())
    assert len(list((home() / "embeddings").glob("*"))) == kept


def test_sketches_of_one_photo_share_its_origin(tmp_path: Path) -> None:
    for label in CLASSES:
        for name in ("Photo/{}/p0.png", "Photo/{}/p1.png", "Sketch/{}/p0-1.png", "Sketch/{}/p0-2.png"):
            file = tmp_path / name.format(label)
            file.parent.mkdir(parents=True, exist_ok=True)
            photo(label, len(list(tmp_path.rglob("*.png")))).save(file)
    sketches = embedded_set(SetSource("domains", tmp_path, domain="Sketch"), TinyEncoder())
    assert sketches.origins is not None
    assert sketches.origins.tolist() == [0, 0, 1, 1, 2, 2]
    assert embedded_set(SetSource("domains", tmp_path, domain="Photo"), TinyEncoder()).origins is None


# Trust


def calibration_error(sure: list[float], right: list[bool], bins: int) -> float:
    total = 0.0
    for number in range(bins):
        low, high = number / bins, (number + 1) / bins
        inside = [k for k, p in enumerate(sure) if low <= p < high or (number == bins - 1 and p == 1)]
        if inside:
            probability = sum(sure[k] for k in inside) / len(inside)
            share = sum(right[k] for k in inside) / len(inside)
            total += len(inside) / len(sure) * abs(probability - share)
    return total


@pytest.mark.parametrize("bins", [7, 15])
def test_calibration_error(bins: int) -> None:
    generator = np.random.default_rng(0)
    sure = np.append(generator.uniform(0.2, 1, size=211), [1.0, 0.2])
    right = generator.uniform(size=213) < sure**2
    expected = calibration_error(sure.tolist(), right.tolist(), bins)
    assert expected_calibration_error(sure, right, bins) == pytest.approx(expected)
    assert expected > 0.1


@pytest.mark.parametrize("origins", [0, 5])
def test_trust_is_that_of_a_classifier_for_each_task(origins: int) -> None:
    items = embedded(classes=17, each=13, dim=53, origins=origins)
    spec = TaskSpec(way=5, shot=4, query=3, tasks=7, seed=3)
    sure, right, covered, bias = [], [], [], []
    for (task,) in drawn_tasks(items, spec):
        shots, queries = task[:, :4].flatten(), task[:, 4:].flatten()
        classifier = FewShotClassifier(head="ridge")
        groups = None if items.origins is None else items.origins[shots]
        classifier.fit(items.features[shots], items.labels[shots], groups)
        probabilities = classifier.predict_proba(items.features[queries])
        answers = classifier.classes_[probabilities.argmax(axis=1)] == items.labels[queries]
        sure += probabilities.max(axis=1).tolist()
        right += answers.tolist()
        interval, trust = classifier.trust_.interval, classifier.trust_
        assert interval is not None
        covered.append(interval.low <= answers.mean() <= interval.high)
        bias.append(trust.right / trust.tested - answers.mean())
    figures = trust_figures("ridge", items, spec)
    assert figures.calibration_error == pytest.approx(calibration_error(sure, right, 15))
    assert figures.overconfidence == pytest.approx(np.mean(sure) - np.mean(right))
    np.testing.assert_array_equal(figures.covered.per_task, covered)
    np.testing.assert_allclose(figures.left_out_bias.per_task, bias)
    np.testing.assert_allclose(figures.left_out_error.per_task, np.abs(bias))


def test_two_shots_that_the_fingerprints_say_are_one_photo_count_once() -> None:
    items = embedded()
    shots = np.array([np.flatnonzero(items.labels == label)[:4] for label in range(3)])
    first, second = shots[0, :2]
    items.features[second] = items.features[first] * np.linspace(0.9, 1.1, 29)
    assert learned_of("ridge", items, shots).trust.copies == ()
    items.fingerprints[[first, second]] = 12345
    assert learned_of("ridge", items, shots).trust.copies == ((0, 1),)
