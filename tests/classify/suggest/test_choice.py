"""The choice of photos to label next, against loops that are obviously right."""

import numpy as np
import pytest

from fewset.classify.heads import DEFAULT
from fewset.classify.model import Learned, learn
from fewset.classify.photos.support import support_of_rows
from fewset.classify.suggest import choice
from fewset.classify.suggest.choice import next_to_label, uncertainty
from tests.helpers.classifier_tasks import labelled_rows, unit

WAY, DIM, POOL = 3, 13, 47


@pytest.fixture(scope="module")
def learned() -> Learned:
    return learn(DEFAULT, support_of_rows(*labelled_rows(1, (2, 3, 1), DIM)), None)


@pytest.fixture(scope="module")
def pool() -> np.ndarray:
    rows, _ = labelled_rows(2, (19, 17, 11), DIM)
    return rows * np.random.default_rng(3).uniform(0.3, 1.7, size=rows.shape).astype(np.float32)


def by_hand(learned: Learned, pool: np.ndarray, count: int) -> list[int]:
    """The value of every possible next set, photo by photo."""
    features, labels = learned.support.features, learned.support.labels
    roots = [[unit(np.sqrt(row.astype(float))) for row in part] for part in (features, pool)]
    means = [np.mean(np.stack(roots[0])[labels == label], axis=0) for label in range(WAY)]
    centre = np.mean(means, axis=0)
    known, rows = ([unit(row - centre) for row in part] for part in roots)
    weights = []
    for row in learned.probabilities(pool):
        second, first = sorted(row)[-2:]
        weights.append(1.2 - (first - second))

    def value(chosen: list[int]) -> float:
        near = [*known, *(rows[each] for each in chosen)]
        return sum(
            weight * max(0.0, max(float(row @ other) for other in near))
            for weight, row in zip(weights, rows, strict=True)
        )

    chosen: list[int] = []
    for _ in range(count):
        others = [each for each in range(len(pool)) if each not in chosen]
        chosen.append(max(others, key=lambda each: value([*chosen, each])))
    return chosen


def test_each_photo_is_the_one_that_adds_most(learned: Learned, pool: np.ndarray) -> None:
    assert next_to_label(learned, pool, 7).tolist() == by_hand(learned, pool, 7)


def test_uncertainty_is_the_margin_of_the_two_likeliest() -> None:
    shares = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(uncertainty(shares), [0.7, 1.2, 0.2])


def test_neither_the_order_of_the_photos_nor_their_scale_matters(learned: Learned, pool: np.ndarray) -> None:
    expected = next_to_label(learned, pool, 9).tolist()
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(pool))
        assert order[next_to_label(learned, pool[order] * np.float32(3), 9)].tolist() == expected


def test_more_photos_begin_with_the_fewer(learned: Learned, pool: np.ndarray) -> None:
    assert next_to_label(learned, pool, 11)[:4].tolist() == next_to_label(learned, pool, 4).tolist()


def test_of_copies_one_is_chosen_and_of_labelled_photos_none(learned: Learned, pool: np.ndarray) -> None:
    known = learned.support.features
    several = np.concatenate([known, np.tile(pool[:4], (3, 1)), known])
    chosen = next_to_label(learned, several, 20)
    assert sorted((chosen - len(known)) % 4) == [0, 1, 2, 3]
    assert all(len(known) <= each < len(known) + 12 for each in chosen)
    assert len(next_to_label(learned, known, 5)) == 0


def test_the_photo_that_many_resemble_comes_before_a_lone_one(learned: Learned, pool: np.ndarray) -> None:
    """Both are equally uncertain: only how many are alike tells them apart."""
    lone, common = pool[np.argsort(-uncertainty(learned.probabilities(pool)))[:2]]
    noise = np.random.default_rng(0).uniform(0.97, 1.03, size=(30, DIM))
    crowd = (common * noise).astype(np.float32)
    first = next_to_label(learned, np.concatenate([lone[None], crowd]), 1)[0]
    assert first > 0


def test_blocks_do_not_matter(learned: Learned, pool: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = next_to_label(learned, pool, 9).tolist()
    monkeypatch.setattr(choice, "_BLOCK", 5)
    assert next_to_label(learned, pool, 9).tolist() == expected


def test_of_many_photos_a_sample_is_enough(
    learned: Learned, pool: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With cosines of 150 of 600 photos the chosen ones cover all about as well, in any order."""
    many = np.concatenate(
        [pool * scale for scale in np.random.default_rng(5).uniform(0.5, 1.5, (13, 1, DIM))]
    )
    many = many.astype(np.float32)
    full = next_to_label(learned, many, 9)
    monkeypatch.setattr(choice, "MOST", 150)
    some = next_to_label(learned, many, 9)
    assert set(some.tolist()) != set(full.tolist())
    rows = choice._placed(many, choice._centre(learned))
    weights = uncertainty(learned.probabilities(many))
    known = choice._placed(learned.support.features, choice._centre(learned))
    values = [
        float(weights @ (rows @ np.concatenate([known, rows[chosen]]).T).max(axis=1).clip(min=0))
        for chosen in (np.array([], int), some, full)
    ]
    assert values[1] - values[0] > 0.85 * (values[2] - values[0])
    order = np.random.default_rng(1).permutation(len(many))
    assert set(order[next_to_label(learned, many[order], 9)].tolist()) == set(some.tolist())
