"""The order and the names of the photos do not matter: every digit is the same."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewset.classify.classifier import FewShotClassifier
from fewset.classify.trust.leave_one_out import left_out_pairings
from tests.helpers.classifier_tasks import labelled_rows
from tests.helpers.photos import CLASSES, TinyEncoder, photo


def findings(classifier: FewShotClassifier, places: np.ndarray) -> dict[str, Any]:
    """What was found, with the places that the photos had before they were shuffled."""
    found = asdict(classifier.trust_)
    found["copies"] = sorted(tuple(sorted(places[list(group)])) for group in found["copies"])
    suspects = (each | {"photo": places[each["photo"]]} for each in found["suspects"])
    found["suspects"] = sorted(suspects, key=lambda each: each["photo"])
    return found


@pytest.mark.parametrize("head", ["auto", "centroid"])
@pytest.mark.parametrize("grouped", [False, True])
def test_any_order_gives_the_same_digits(head: str, grouped: bool) -> None:
    for seed in range(5):
        generator = np.random.default_rng(seed)
        X, y = labelled_rows(seed, (5, 4, 6), dim=7)  # noqa: N806
        X = X + generator.exponential(0.8, size=X.shape).astype(np.float32)  # noqa: N806
        X[[1, 6]] = X[[0, 5]]  # copies: of one class, and of two
        groups = generator.integers(0, 6, size=len(y)) + 10 * y if grouped else None
        first = FewShotClassifier(head=head).fit(X, y, groups)
        expected, weight = findings(first, np.arange(len(y))), first.learned_.linear.weight
        queries = generator.normal(size=(5, 7))
        for _ in range(5):
            order = generator.permutation(len(y))
            again = FewShotClassifier(head=head).fit(X[order], y[order], groups[order] if grouped else None)
            assert findings(again, order) == expected
            assert (again.learned_.linear.weight == weight).all()
            assert (again.learned_.closeness.of(queries) == first.learned_.closeness.of(queries)).all()
            assert (X[order][again.learned_.nearest(queries)] == X[first.learned_.nearest(queries)]).all()


def test_neither_do_the_names_of_files(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    found = []
    for run in range(3):
        folder = tmp_path / str(run)
        for label in CLASSES:
            (folder / label).mkdir(parents=True)
            for seed, name in enumerate(generator.permutation(5)):
                photo(label, seed).save(folder / label / f"{name}.png")
        classifier = FewShotClassifier(TinyEncoder()).fit(folder)
        found.append((classifier.trust_, classifier.predict_proba([photo("grass", 9)]).tolist()))
    assert found[0] == found[1] == found[2]


def test_every_pairing_leaves_out_one_photo_of_each_class_and_meets_others() -> None:
    labels = np.repeat(np.arange(3), 5)
    pairings = list(left_out_pairings(labels, np.arange(15)))
    assert len(pairings) == 8
    for turns in pairings:
        assert all(sorted(turns[labels == label]) == [0, 1, 2, 3, 4] for label in range(3))
    partners = {tuple(np.flatnonzero(turns == turns[0])) for turns in pairings}
    assert len(partners) > 4
    assert len(list(left_out_pairings(np.repeat(np.arange(2), 50), np.arange(100)))) == 2
