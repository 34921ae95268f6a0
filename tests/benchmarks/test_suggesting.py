"""What `fewset suggest` is measured by: the tasks, the strategies, and the page that quotes the record."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.classifier import suggesting
from benchmarks.classifier.suggesting import (
    STRATEGIES,
    drawn_pool,
    learning_curve,
    new_classes,
)
from fewset.classify.classifier import FewShotClassifier
from tests.helpers.embedded_sets import embedded

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("origins", [0, 6])
@pytest.mark.parametrize("skewed", [False, True])
def test_a_task_has_a_labelled_photo_of_each_class_and_queries_apart(origins: int, skewed: bool) -> None:
    items = embedded(classes=13, each=24, origins=origins)
    pool = drawn_pool(items, 2, skewed, seed=3, number=5)
    assert sorted(items.labels[pool.labelled]) == sorted(pool.classes)
    assert min(pool.classes) >= 2
    rows = np.concatenate([pool.labelled, pool.unlabelled, pool.queries])
    assert len(set(rows.tolist())) == len(rows)
    assert set(items.labels[rows].tolist()) == set(pool.classes)
    sizes = [int((items.labels[pool.unlabelled] == label).sum()) for label in pool.classes]
    assert sizes == (sorted(sizes, reverse=True) if skewed else [12] * 10)
    assert sizes[-1] == (1 if skewed else 12)
    if items.origins is not None:
        assert not set(items.origins[rows[: -len(pool.queries)]]) & set(items.origins[pool.queries])
    again, other = (drawn_pool(items, 2, skewed, 3, number) for number in (5, 6))
    np.testing.assert_array_equal(again.unlabelled, pool.unlabelled)
    assert other.unlabelled.tolist() != pool.unlabelled.tolist()


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_a_curve_is_that_of_fitting_again_after_every_round(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suggesting, "ROUNDS", 2)
    items = embedded(classes=10, each=24)
    pool = drawn_pool(items, 0, False, 0, 0)
    found = learning_curve(STRATEGIES[name], items, pool, np.random.default_rng(7))
    generator, known, left = np.random.default_rng(7), pool.labelled, pool.unlabelled
    expected = []
    for _ in range(3):
        classifier = FewShotClassifier().fit(items.features[known], items.labels[known])
        right = classifier.predict(items.features[pool.queries]) == items.labels[pool.queries]
        expected.append(right.mean())  # as many queries of each class
        rows = items.features[left]
        if name == "suggest":
            chosen = np.array([each.index for each in classifier.suggest(rows, 10)])
        else:
            chosen = STRATEGIES[name](classifier.learned_, rows, generator)
        assert len(set(chosen.tolist())) == 10
        known, left = np.concatenate([known, left[chosen]]), np.delete(left, chosen)
    np.testing.assert_allclose(found, expected)


def test_the_control_does_not_know_what_the_classifier_is_unsure_about() -> None:
    items = embedded(classes=10, each=24)
    pool = drawn_pool(items, 0, False, 0, 0)
    rows, generator = items.features[pool.unlabelled], np.random.default_rng(0)
    classifier = FewShotClassifier().fit(items.features[pool.labelled], items.labels[pool.labelled])
    learned = classifier.learned_
    colder = replace(learned, linear=replace(learned.linear, temperature=learned.linear.temperature / 50))
    typical = [STRATEGIES["typical"](each, rows, generator).tolist() for each in (learned, colder)]
    assert typical[0] == typical[1]
    assert STRATEGIES["suggest"](learned, rows, generator).tolist() != typical[0]


def test_new_classes_are_counted() -> None:
    """Classes that are far apart are all found, and marked."""
    items = embedded(classes=10, each=24, dim=200)
    found = new_classes(items, [drawn_pool(items, 0, False, 0, number) for number in range(3)])
    assert found["of_the_pool"][0] == pytest.approx(100 * 36 / (36 + 7 * 8), abs=0.01)
    assert found["classes_found"][0] == 100
    assert found["of_those_marked"][0] > found["of_the_pool"][0]


def test_the_page_quotes_the_record(tmp_path: Path) -> None:
    words = ["suggest", "--draw", "--out", ROOT / "results" / "classifier" / "suggest.json"]
    result = CliRunner().invoke(app, [*map(str, words), "--figure", str(tmp_path / "curves.png")])
    assert result.exit_code == 0, result.output
    assert result.output.rstrip() in (ROOT / "docs" / "suggest.md").read_text()
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
