from dataclasses import replace

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from fewset.report.figures import DOWN, UP, png
from fewset.report.picture_figures import PicturedTask, task_figure

WAY, SHOT, QUERIES, HEIGHT, BREADTH = 3, 7, 11, 13, 5


@pytest.fixture
def task() -> PicturedTask:
    generator = np.random.default_rng(0)
    support, query = (
        generator.integers(0, 256, size=(WAY, count, HEIGHT, BREADTH, 3), dtype=np.uint8)
        for count in (SHOT, QUERIES)
    )
    predicted = generator.integers(WAY, size=(WAY, QUERIES))
    return PicturedTask(support, query, predicted, ["axe", "a very long name", "$_{"], "Task 17")


def figure_of(task: PicturedTask):
    return task_figure([task])


def test_every_image_stands_once_and_in_its_class(task: PicturedTask) -> None:
    (axes,) = figure_of(task).axes
    images = [image.get_array() for image in axes.images]
    expected = [
        image for number in range(WAY) for part in (task.support, task.query) for image in part[number]
    ]
    assert len(images) == len(expected)
    for image, wanted in zip(images, expected, strict=True):
        np.testing.assert_array_equal(image, wanted)
    extents = np.array([image.get_extent() for image in axes.images])
    assert len({tuple(extent) for extent in extents.round(6)}) == len(expected)
    # Lower classes stand lower (the axis points down), and queries right of the support.
    tops = extents[:, 3].reshape(WAY, SHOT + QUERIES)
    assert (tops[1:].min(axis=1) > tops[:-1].max(axis=1)).all()
    lefts = extents[:, 0].reshape(WAY, SHOT + QUERIES)
    assert lefts[:, SHOT:].min() > lefts[:, :SHOT].max() + 1


def test_frames_and_marks_say_what_is_right(task: PicturedTask) -> None:
    (axes,) = figure_of(task).axes
    frames = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    right = task.predicted == np.arange(WAY)[:, None]
    assert [frame.get_edgecolor()[:3] for frame in frames] == [
        pytest.approx([int((UP if good else DOWN)[k : k + 2], 16) / 255 for k in (1, 3, 5)])
        for good in right.ravel()
    ]
    marks = [text.get_text() for text in axes.texts if text.get_text()[0] in "✓✗"]
    assert [mark == "✓" for mark in marks] == right.ravel().tolist()
    for mark, predicted in zip(marks, task.predicted.ravel(), strict=True):
        if mark != "✓":
            assert mark.startswith(f"✗ {predicted + 1} {task.class_names[predicted][:2]}")
    assert axes.get_title(loc="left") == f"Task 17: {right.sum()} of {WAY * QUERIES} right"
    # Below its own query.
    lefts = [frame.get_x() + 0.5 for frame in frames]
    places = [text.get_position()[0] for text in axes.texts if text.get_text()[0] in "✓✗"]
    assert places == pytest.approx(lefts)


def test_marks_do_not_overlap(task: PicturedTask) -> None:
    wrong = replace(task, predicted=np.ones((WAY, QUERIES), dtype=int))  # all taken for the longest name
    figure = figure_of(wrong)
    png(figure)  # settles the layout
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    for place, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[place + 1 :])
        assert box.x0 >= 0


def test_two_tasks_stand_one_above_the_other(task: PicturedTask) -> None:
    wrong = (np.arange(WAY)[:, None] + 1) % WAY + 0 * task.predicted
    failing = replace(task, title="Task 5", predicted=wrong)
    figure = task_figure([task, failing])
    png(figure)  # settles the layout
    above, below = figure.axes
    assert above.get_title(loc="left").startswith("Task 17: ")
    assert below.get_title(loc="left") == f"Task 5: 0 of {WAY * QUERIES} right"
    assert above.get_position().y0 > below.get_position().y1
