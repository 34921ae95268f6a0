"""What every registered head of the classifier must do."""

import numpy as np
import pytest

from fewset.classify.heads import CLASSIFIER_HEADS, ClassifierHead, find_classifier_head, membership
from tests.helpers.classifier_tasks import DIM, SHOTS, answers, prepare, solve, task


@pytest.fixture(params=sorted(CLASSIFIER_HEADS))
def head(request: pytest.FixtureRequest) -> ClassifierHead:
    return find_classifier_head(request.param)


def test_classifies_what_is_apart(head: ClassifierHead) -> None:
    rows, labels, _ = task(0)
    assert (answers(head, rows, labels, rows).argmax(-1) == labels).all()


def test_any_embedding_size_and_more_rows_than_numbers(head: ClassifierHead) -> None:
    for dim, shots in ((3, (5, 4)), (2, (2, 11, 3)), (211, (1, 1))):
        rows, labels, query = task(1, dim, shots)
        logits = answers(head, rows, labels, query)
        assert logits.shape == (13, len(shots))
        assert np.isfinite(logits).all()


def test_the_order_of_the_rows_and_of_the_classes_does_not_matter(head: ClassifierHead) -> None:
    rows, labels, query = task(2)
    expected = answers(head, rows, labels, query)
    order = np.random.default_rng(0).permutation(len(rows))
    np.testing.assert_allclose(answers(head, rows[order], labels[order], query), expected, atol=1e-4)
    classes = np.array([3, 0, 4, 1, 2])
    permuted = answers(head, rows, classes[labels], query)
    np.testing.assert_allclose(permuted[:, classes], expected, atol=1e-4)


def test_a_rotation_of_the_prepared_rows_changes_nothing(head: ClassifierHead) -> None:
    rows, labels, query = task(3)
    rows, query = prepare(head, rows), prepare(head, query)
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(DIM, DIM))).Q
    turned = solve(head, rows @ rotation, labels).logits((query @ rotation)[None])
    np.testing.assert_allclose(turned, solve(head, rows, labels).logits(query[None]), atol=1e-4)


def test_tasks_do_not_see_each_other_nor_rows_that_do_not_count(head: ClassifierHead) -> None:
    """Two tasks at once, one with fewer shots, whose other rows are far off."""
    rows, labels, query = task(4)
    other = rows.copy()
    keep = np.arange(len(labels)) % 3 != 1
    keep[0] = True
    other[~keep] = 1e3
    members = membership(labels, len(SHOTS))
    both = head.solve(
        prepare(head, np.stack([rows, other])), np.stack([members, members * keep[:, None]])
    ).logits(prepare(head, np.stack([query, query])))
    np.testing.assert_allclose(both[0], answers(head, rows, labels, query), atol=1e-4)
    np.testing.assert_allclose(both[1], answers(head, rows[keep], labels[keep], query), atol=1e-4)


def test_the_length_of_a_row_does_not_matter(head: ClassifierHead) -> None:
    rows, labels, query = task(5)
    lengths = np.linspace(0.1, 9, len(rows))[:, None]
    np.testing.assert_allclose(
        answers(head, rows * lengths, labels, 7 * query), answers(head, rows, labels, query), atol=1e-4
    )


def test_numbers_below_zero_and_rows_of_zeros(head: ClassifierHead) -> None:
    rows, labels, query = task(6)
    rows = rows - rows.mean(axis=0)
    rows[5] = 0
    assert np.isfinite(answers(head, rows, labels, np.concatenate([query - 1, np.zeros((1, DIM))]))).all()
