"""What every registered head of the classifier must do."""

import pytest
import torch

from fewset.classify.heads import CLASSIFIER_HEADS, ClassifierHead, find_classifier_head
from fewset.models.regression import episode_membership, membership
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
        assert logits.isfinite().all()


def test_the_order_of_the_rows_and_of_the_classes_does_not_matter(head: ClassifierHead) -> None:
    rows, labels, query = task(2)
    expected = answers(head, rows, labels, query)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(answers(head, rows[order], labels[order], query), expected, atol=1e-4, rtol=0)
    classes = torch.tensor([3, 0, 4, 1, 2])
    permuted = answers(head, rows, classes[labels], query)
    torch.testing.assert_close(permuted[:, classes], expected, atol=1e-4, rtol=0)


def test_a_rotation_of_the_prepared_rows_changes_nothing(head: ClassifierHead) -> None:
    rows, labels, query = task(3)
    rows, query = prepare(head, rows), prepare(head, query)
    rotation = torch.linalg.qr(torch.randn(DIM, DIM, generator=torch.Generator().manual_seed(0)).double()).Q
    turned = solve(head, rows @ rotation, labels).logits((query @ rotation).unsqueeze(0))
    torch.testing.assert_close(
        turned, solve(head, rows, labels).logits(query.unsqueeze(0)), atol=1e-4, rtol=0
    )


def test_tasks_do_not_see_each_other_nor_rows_that_do_not_count(head: ClassifierHead) -> None:
    """Two tasks at once, one with fewer shots, whose other rows are far off."""
    rows, labels, query = task(4)
    other = rows.clone()
    keep = torch.arange(len(labels)) % 3 != 1
    keep[0] = True
    other[~keep] = 1e3
    members = membership(labels, len(SHOTS), rows.dtype)
    both = head.solve(
        prepare(head, torch.stack([rows, other])), torch.stack([members, members * keep.unsqueeze(-1)])
    ).logits(prepare(head, torch.stack([query, query])))
    torch.testing.assert_close(both[0], answers(head, rows, labels, query), atol=1e-4, rtol=0)
    torch.testing.assert_close(both[1], answers(head, rows[keep], labels[keep], query), atol=1e-4, rtol=0)


def test_the_length_of_a_row_does_not_matter(head: ClassifierHead) -> None:
    rows, labels, query = task(5)
    lengths = torch.linspace(0.1, 9, len(rows)).unsqueeze(-1)
    torch.testing.assert_close(
        answers(head, rows * lengths, labels, 7 * query),
        answers(head, rows, labels, query),
        atol=1e-4,
        rtol=0,
    )


def test_numbers_below_zero_and_rows_of_zeros(head: ClassifierHead) -> None:
    rows, labels, query = task(6)
    rows = rows - rows.mean(dim=0)
    rows[5] = 0
    assert answers(head, rows, labels, torch.cat([query - 1, torch.zeros(1, DIM)])).isfinite().all()


def test_an_episode_is_a_task_in_class_major_order() -> None:
    support = torch.zeros(2, 3, 5, 7)
    mask = torch.ones(2, 3, 5, dtype=torch.bool)
    mask[1, 2, 3] = False
    members = episode_membership(support, mask)
    assert members.shape == (2, 15, 3)
    assert members.sum(dim=1).tolist() == [[5, 5, 5], [5, 5, 4]]
    assert not members[1, 13].any()
