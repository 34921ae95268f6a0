"""What the labelled photos say about their classifier."""

import numpy as np
import pytest
from PIL import Image
from scipy.stats import binomtest

from fewset.classify.card import model_card, summary
from fewset.classify.classifier import FewShotClassifier
from fewset.classify.heads import find_classifier_head
from fewset.classify.trust.calibration import (
    CURVE,
    left_out_interval,
    left_out_temperature,
    usual_temperature,
    wilson,
)
from tests.helpers.classifier_tasks import labelled_rows, left_out_by_refitting, unit
from tests.helpers.photos import CLASSES, TinyEncoder, photo


def fit(photos: list[tuple[Image.Image, str]]) -> FewShotClassifier:
    return FewShotClassifier(TinyEncoder()).fit(*zip(*photos, strict=True))


def some(shots: int) -> list[tuple[Image.Image, str]]:
    return [(photo(label, seed), label) for label in CLASSES for seed in range(shots)]


@pytest.mark.parametrize(("right", "count"), [(0, 7), (7, 7), (22, 25), (13, 29), (1, 1)])
def test_wilson(right: int, count: int) -> None:
    expected = binomtest(right, count).proportion_ci(method="wilson")
    assert wilson(right, count) == pytest.approx((expected.low, expected.high))


def test_leave_one_out_accuracy_is_that_of_new_fits() -> None:
    X, y = labelled_rows(3, (5, 4, 6), dim=5)  # noqa: N806
    X = X + np.random.default_rng(0).exponential(0.8, size=X.shape).astype(np.float32)  # noqa: N806
    learned = FewShotClassifier().fit(X, y).learned_
    trust, ordered = learned.trust, learned.support.take(learned.support.order)
    head = find_classifier_head("auto")
    expected = left_out_by_refitting(head, ordered.features, ordered.labels, np.arange(15))
    right = int((expected.argmax(axis=1) == ordered.labels).sum())
    assert (trust.tested, trust.right) == (15, right)
    assert 0 < right < 15
    wrong = sum(confusion.photos for confusion in trust.confusions)
    assert wrong == 15 - right
    assert trust.left == pytest.approx((5 * 4 / 5 + 4 * 3 / 4 + 6 * 5 / 6) / 15)
    low, high = left_out_interval(right, 15, left=trust.left)
    assert trust.in_words == (
        f"Expected accuracy on new photos: {100 * low:.0f} to {100 * high:.0f} % "
        "(95 % interval, leave-one-out on 15 photos)"
    )


def test_with_all_photos_errors_are_fewer_than_with_some_left_out() -> None:
    plain, more = left_out_interval(15, 20), left_out_interval(15, 20, left=0.5)
    assert plain == pytest.approx((wilson(7.5, 10).low, wilson(8, 10).high))  # the upper end: one error fewer
    assert more.low == pytest.approx(wilson(10 * (1 - 0.25 * 0.5**CURVE), 10).low)
    assert plain.low < more.low
    assert left_out_interval(20, 20, left=0.5) == left_out_interval(20, 20)
    groups = left_out_interval(15, 20, 10, 0.5)
    wrong = 2.5 * 0.5**CURVE
    assert groups == pytest.approx((wilson((10 - wrong) / 2, 5).low, wilson((11 - wrong) / 2, 5).high))


def test_the_ends_of_the_interval_are_exact() -> None:
    for count in range(1, 400):
        assert left_out_interval(count, count).high == left_out_interval(count - 1, count).high == 1
        assert wilson(0, count).low == 0
        assert 0 < left_out_interval(count, count).low < 1


@pytest.mark.parametrize("right", [0, 13, 20])
def test_on_a_new_occasion_the_odds_of_an_error_may_be_higher(right: int) -> None:
    same, new = left_out_interval(right, 20), left_out_interval(right, 20, new_occasion=True)
    assert new.high == same.high
    assert (1 - new.low) * same.low == pytest.approx(4 * (1 - same.low) * new.low)


@pytest.mark.parametrize("shots", [1, 2])
def test_probabilities_that_cannot_be_calibrated_are_as_usual_for_classes_so_alike(shots: int) -> None:
    X, y = labelled_rows(1, (shots,) * 4, dim=31)  # noqa: N806
    rows = np.stack([unit(np.sqrt(row)) for row in X.astype(np.float64)])
    means = [rows[y == label].mean(axis=0) for label in range(4)]
    alike = np.mean([means[i] @ means[j] for i in range(4) for j in range(4) if i != j])
    learned = FewShotClassifier().fit(X, y).learned_
    assert learned.trust.temperature == pytest.approx(0.52 * np.exp(4.2 * (alike - 0.45)))
    assert not learned.trust.calibrated
    assert "probabilities are not calibrated" in learned.trust.in_words
    assert "not calibrated on" in model_card(learned, "few")
    assert usual_temperature(np.eye(4), np.arange(4), (0.45, 0.52, 4.2)) == 0.52  # not at all alike
    assert usual_temperature(rows, y, None) == 1  # a head of a plugin


def test_a_class_with_many_photos_has_several_left_out_at_a_time() -> None:
    trust = FewShotClassifier().fit(*labelled_rows(3, (50, 50), dim=5)).trust_
    assert trust.left == pytest.approx(19 / 20)


@pytest.mark.parametrize("shots", [1, 2])
def test_with_one_or_two_photos_a_class_it_cannot_be_told(shots: int) -> None:
    trust = fit(some(shots)).trust_
    assert trust.interval is None
    assert "unknown" in trust.in_words
    assert trust.untested == (0, 1, 2)
    assert not trust.calibrated


def test_classes_with_few_photos_are_not_counted() -> None:
    classifier = fit([*some(4), (photo("grass", 50), "meadow"), (photo("grass", 51), "meadow")])
    assert classifier.trust_.tested == 12
    assert classifier.trust_.untested == (classifier.classes_.tolist().index("meadow"),)
    assert classifier.trust_.weakest == classifier.trust_.untested[0]
    assert any("not tested" in line and "meadow" in line for line in summary(classifier.learned_))


def test_copies_count_once_and_do_not_vouch_for_each_other() -> None:
    """Four photos of a class are copies of one: they are found, and the class cannot be tested."""
    base = photo("brick", 0)
    copies = [base, base.resize((60, 48), Image.Resampling.BICUBIC), base.point(lambda value: value * 0.97)]
    photos = [entry for entry in some(4) if entry[1] != "brick"]
    classifier = fit([*photos, *((copy, "brick") for copy in copies), (photo("brick", 9), "brick")])
    assert classifier.trust_.copies == ((8, 9, 10),)
    assert classifier.trust_.tested == 8
    assert classifier.trust_.untested == (classifier.classes_.tolist().index("brick"),)
    assert "copies of one photo: photo 8, photo 9, photo 10" in summary(classifier.learned_)
    both = fit([*photos, (photo("grass", 0), "brick")])
    assert "contradiction, one photo in several classes: photo 4 (grass), photo 8 (brick)" in summary(
        both.learned_
    )
    different = fit([*photos, *((photo("brick", seed), "brick") for seed in range(4))])
    assert different.trust_.copies == ()


def test_a_mislabelled_photo_is_found() -> None:
    photos = some(6)
    photos[2] = (photo("grass", 77), photos[2][1])
    classifier = fit(photos)
    (suspect,) = classifier.trust_.suspects
    assert suspect.photo == 2
    assert classifier.classes_[suspect.looks_like] == "grass"
    assert any("photo 2 looks mislabelled: grass" in line for line in summary(classifier.learned_))


def test_the_class_that_is_least_sure_of_its_own_wants_another_photo() -> None:
    generator = np.random.default_rng(0)
    X, y = labelled_rows(1, (6, 6, 6), dim=31)  # noqa: N806
    X[y == 1] *= generator.exponential(2.0, size=(6, 31))
    classifier = FewShotClassifier().fit(X, y)
    assert classifier.trust_.weakest == 1
    assert summary(classifier.learned_)[-1] == "another photo of 1 would help most"


def test_temperature_is_the_most_likely_one_held_towards_1() -> None:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 5, size=113)
    logits = 9 * (np.eye(5)[labels] + generator.normal(scale=0.6, size=(113, 5)))

    def loss(temperature: float, prior: float, doubt: float) -> float:
        total = prior * np.log(temperature) ** 2 / 2
        for row, label in zip(logits, labels, strict=True):
            raised = np.exp(row / temperature - (row / temperature).max())
            for other in range(5):
                weight = doubt / (113 + doubt) / 5 + (other == label) * 113 / (113 + doubt)
                total -= weight * np.log(raised[other] / raised.sum())
        return total

    for caution in ((0.0, 0.0), (2.0, 0.0), (50.0, 0.0), (0.0, 3.0), (1.0, 0.1), (50.0, 30.0)):
        found = left_out_temperature(logits, labels, None, *caution)
        assert all(loss(found, *caution) <= loss(found * factor, *caution) for factor in (0.98, 1.02))
    assert left_out_temperature(logits, labels, None, 1e9) == pytest.approx(1, abs=1e-3)
    doubtful, sure = (left_out_temperature(logits, labels, None, 0, doubt) for doubt in (30, 0))
    assert doubtful > 1.2 * sure
    assert left_out_temperature(logits[:0], labels[:0]) == 1
    perfect = 3 * np.eye(5)[labels]
    assert 0.1 < left_out_temperature(perfect[:7], labels[:7]) < 1  # and not 0


def test_groups_are_the_evidence_for_the_temperature() -> None:
    """Four of each photo, said to be groups, count as one of each would, but for where the prior is."""
    generator = np.random.default_rng(1)
    labels = generator.integers(0, 5, size=17)
    logits = 3 * (np.eye(5)[labels] + generator.normal(scale=0.6, size=(17, 5)))
    four, fourfold = np.tile(logits, (4, 1)), np.tile(labels, 4)
    alone = left_out_temperature(logits, labels, None, 0)
    assert left_out_temperature(four, fourfold, 17, 0) == pytest.approx(alone, rel=1e-3)
    assert left_out_temperature(logits, labels, 17) == left_out_temperature(logits, labels)
    assert left_out_temperature(four, fourfold, 17, 1e9) == pytest.approx(16, rel=1e-3)
    assert left_out_temperature(logits[:0], labels[:0], 0) == 1


def test_the_card_says_it_all_and_shows_names_as_they_are() -> None:
    classifier = fit([*some(4), (photo("grass", 50), "a|b *c* &lt;")])
    card = model_card(classifier.learned_, "my <classifier>")
    assert card.startswith("# my \\<classifier\\>\n")
    assert "| a\\|b \\*c\\* \\&lt; | 1 |" in card
    assert "| grass | 4 |" in card
    assert "tiny (sha256 d1d1d1d1d1d1)" in card
    assert "leave-one-out on 12 photos" in card
    assert "is none of these" in card
    alone = model_card(fit(some(1)).learned_, "alone")
    assert "takes two different photos" in alone
    rows = model_card(FewShotClassifier().fit(*labelled_rows(1)).learned_, "rows")
    assert "none: rows of features" in rows
