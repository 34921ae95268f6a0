import io
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from fewset.report.comparison import Comparison, compare_results
from fewset.report.figures import COLOURS, accuracy_figure, adaptation_figure, png, training_figure
from fewset.report.loading import Examples, load_results
from tests.helpers.results import EPOCHS, EXAMPLES, QUERIES, WAY, MakeRun, example_arrays, per_task


@pytest.fixture
def comparisons(make_run: MakeRun) -> list[Comparison]:
    runs = [make_run("proto"), make_run("feat", per_task(1), per_task(2), method="FEAT")]
    return compare_results(load_results(runs))


def test_a_panel_shows_every_query_and_prototype() -> None:
    arrays = example_arrays()
    figure = adaptation_figure(Examples(**arrays))
    panels = [axes for axes in figure.axes if axes.axison]
    assert len(panels) == EXAMPLES
    png(figure)  # settles the limits
    for place, axes in enumerate(panels):
        centre = arrays["query"][place].mean(axis=0)
        covariance = np.cov(arrays["query"][place].T)
        directions = np.linalg.eigh(covariance)[1][:, [-1, -2]]
        shown = np.concatenate([np.asarray(dots.get_offsets()) for dots in axes.collections])
        assert len(shown) == QUERIES
        marks = np.array([np.ravel(line.get_xydata()) for line in axes.lines])
        assert marks.shape == (2 * WAY, 2)
        for number in range(WAY):
            for row, points in ((2 * number, arrays["before"]), (2 * number + 1, arrays["after"])):
                expected = (points[place, number] - centre) @ directions
                np.testing.assert_allclose(np.abs(marks[row]), np.abs(expected), rtol=1e-4)
                assert axes.lines[row].get_color() == COLOURS[number]
            own = arrays["query"][place][arrays["query_labels"][place] == number]
            expected = (own - centre) @ directions
            np.testing.assert_allclose(
                np.abs(axes.collections[number].get_offsets()), np.abs(expected), rtol=1e-3, atol=1e-5
            )
        for low, high, values in (
            (*axes.get_xlim(), np.concatenate([shown, marks])[:, 0]),
            (*axes.get_ylim(), np.concatenate([shown, marks])[:, 1]),
        ):
            assert low < values.min()
            assert values.max() < high


def test_a_panel_says_what_adaptation_does() -> None:
    panels = adaptation_figure(Examples(**example_arrays())).axes
    titles = [axes.get_title(loc="left") for axes in panels[:EXAMPLES]]
    assert titles == ["Task 2", "Task 23: adaptation hurts", "Task 31: no change"]
    assert panels[1].get_xlabel() == "accuracy 75.0 % → 12.5 %"


@pytest.mark.parametrize("count", [1, 5])
def test_any_number_of_tasks_and_more_classes_than_colours(count: int) -> None:
    generator = np.random.default_rng(0)
    way = 23
    examples = Examples(
        task=np.arange(count),
        query=generator.normal(size=(count, 3 * way, 5)),
        query_labels=np.tile(np.repeat(np.arange(way), 3), (count, 1)),
        before=generator.normal(size=(count, way, 5)),
        after=generator.normal(size=(count, way, 5)),
        accuracy_before=np.zeros(count),
        accuracy_after=np.ones(count),
    )
    figure = adaptation_figure(examples)
    assert sum(axes.axison for axes in figure.axes) == count
    looks = {
        (line.get_color(), line.get_marker()) for line in figure.axes[0].lines if line.get_marker() != "*"
    }
    assert len(looks) == way


def test_accuracies_and_differences_stand_where_the_numbers_are(comparisons: list[Comparison]) -> None:
    left, right = accuracy_figure(comparisons).axes
    assert [text.get_text() for text in left.get_yticklabels()] == ["ProtoNet", "FEAT"]
    means = {
        (round(line.get_ydata()[0], 2), line.get_xdata()[0])
        for line in left.lines
        if line.get_marker() == "o"
    }
    first, second = (item.result for item in comparisons)
    assert second.record.before is not None
    assert means == {
        (0, 100 * first.score.mean),
        (1, 100 * second.score.mean),
        (1.24, 100 * second.record.before.mean),
    }
    difference = comparisons[1].difference
    assert difference is not None
    segments = right.collections[0].get_segments()[0]
    np.testing.assert_allclose(
        segments[:, 0], [100 * (difference.mean - difference.ci95), 100 * (difference.mean + difference.ci95)]
    )


def test_curves_hold_every_epoch_and_mark_the_kept_one(comparisons: list[Comparison]) -> None:
    figure = training_figure(comparisons)
    assert figure is not None
    loss, accuracy, validation = figure.axes
    epochs = np.arange(1, EPOCHS + 1)
    np.testing.assert_allclose(loss.lines[0].get_ydata(), 1 / epochs)
    np.testing.assert_allclose(accuracy.lines[1].get_ydata(), 10 * epochs)
    stars = [line for line in validation.lines if line.get_marker() == "*"]
    np.testing.assert_allclose([star.get_xydata()[0] for star in stars], [[5, 25], [5, 25]])
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend[:2] == ["ProtoNet", "FEAT"]


def test_a_run_is_drawn_once_and_runs_without_curves_not_at_all(comparisons: list[Comparison]) -> None:
    first, second = comparisons
    again = second._replace(result=replace(second.result, record=replace(second.result.record, shot=7)))
    figure = training_figure([first._replace(result=replace(first.result, curves=None)), second, again])
    assert figure is not None
    assert len(figure.axes[0].lines) == 1
    assert training_figure([first._replace(result=replace(first.result, curves=None))]) is None


def test_a_picture_is_a_png_of_page_width_without_a_date(comparisons: list[Comparison]) -> None:
    first, second = (png(accuracy_figure(comparisons)) for _ in range(2))
    assert first == second
    image = Image.open(io.BytesIO(first))
    assert (image.format, image.width) == ("PNG", 1200)
    assert set(image.info) <= {"dpi"}


def test_a_name_is_never_read_as_a_formula(make_run: MakeRun) -> None:
    run = make_run(method=r"_hidden $\nonsense{$")
    comparisons = compare_results(load_results([run]))
    figure = training_figure(comparisons)
    assert isinstance(figure, Figure)
    assert figure.legends[0].get_texts()[0].get_text() == r"_hidden $\nonsense{$"
    assert png(figure)
    assert png(accuracy_figure(comparisons))
