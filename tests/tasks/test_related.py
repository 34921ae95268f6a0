"""Tasks of related classes: an anchor and others of its nearest."""

import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.tasks.sampling import ClassIndex, sample_tasks
from fewset.tasks.spec import TaskSpec

CLASSES, ITEMS, GROUP = 30, 12, 6
LABELS = np.repeat(np.arange(CLASSES), ITEMS)
GROUPS = np.arange(CLASSES) // GROUP
NEAREST = np.array([np.setdiff1d(np.flatnonzero(GROUPS[own] == GROUPS), [own]) for own in range(CLASSES)])


def test_a_task_is_of_one_group_and_every_class_comes_up() -> None:
    spec = TaskSpec(way=4, shot=2, query=3, tasks=400, related=5)
    labels = LABELS[sample_tasks(ClassIndex(LABELS, nearest=NEAREST), spec, 0, 400)]
    assert (labels == labels[..., :1]).all()
    classes = labels[..., 0]
    assert (GROUPS[classes] == GROUPS[classes[:, :1]]).all()
    assert all(len(set(task)) == 4 for task in classes.tolist())
    assert set(classes[:, 0]) == set(range(CLASSES))


def test_a_task_depends_on_the_seed_and_its_number_alone() -> None:
    index, spec = ClassIndex(LABELS, nearest=NEAREST), TaskSpec(way=3, query=2, tasks=50, seed=7, related=4)
    whole = sample_tasks(index, spec, 0, 50)
    parts = [sample_tasks(index, spec, number, number + 1) for number in range(50)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


def test_only_the_nearest_are_drawn_even_when_classes_are_left_out() -> None:
    nearest = np.array([[(own + step) % CLASSES for step in range(1, CLASSES)] for own in range(CLASSES)])
    kept = np.flatnonzero(LABELS % 2 == 0)
    index = ClassIndex(LABELS[kept], nearest=nearest)
    classes = LABELS[kept][sample_tasks(index, TaskSpec(3, 1, 1, 200, related=3), 0, 200)][..., 0]
    steps = (classes[:, 1:] - classes[:, :1]) % CLASSES
    assert set(steps.reshape(-1).tolist()) == {2, 4, 6}


def test_classes_with_too_few_related_ones_are_no_anchors() -> None:
    nearest = np.full((CLASSES, 3), -1)
    nearest[4], nearest[9] = [5, 6, 7], [8, -1, -1]
    index = ClassIndex(LABELS, nearest=nearest)
    classes = LABELS[sample_tasks(index, TaskSpec(4, 1, 1, 50, related=3), 0, 50)][..., 0]
    assert set(classes[:, 0].tolist()) == {4}
    with pytest.raises(UserError, match="no class has the 4 related"):
        sample_tasks(index, TaskSpec(5, 1, 1, 50, related=4), 0, 1)


def test_what_is_missing_is_said() -> None:
    with pytest.raises(UserError, match="fewset data relate"):
        sample_tasks(ClassIndex(LABELS), TaskSpec(query=5, related=8), 0, 1)
    with pytest.raises(UserError, match="related is 3"):
        TaskSpec(way=5, related=3)
