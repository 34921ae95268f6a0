from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fewset.core.errors import UserError
from fewset.paper.study import Study
from fewset.paper.study_figures import CITED, OWN, curve_figure, dots_figure, lines_figure, study_figures
from fewset.report.figures import FAINT, png
from tests.helpers.study_files import COLUMNS, generalised_study, make_study


def dots(axes: Axes) -> list[tuple[str, str, float, float]]:
    """Marker, colour, accuracy and height of every dot."""
    return [
        (str(line.get_marker()), str(line.get_color()), line.get_xdata()[0], line.get_ydata()[0])
        for line in axes.lines
        if line.get_marker() in ("o", OWN, CITED)
    ]


def line_of(axes: Axes, place: int) -> np.ndarray:
    """The points of a line with intervals."""
    line = axes.containers[place].lines[0]
    return np.array([line.get_xdata(), line.get_ydata()], dtype=float)


def legend_of(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_on_another_set_the_papers_numbers_have_axes_of_their_own() -> None:
    figure = dots_figure(make_study())
    ours, paper = figure.axes[:2], figure.axes[2:]
    for place, axes in enumerate(ours):
        found = dots(axes)
        assert [x for _, _, x, _ in found] == pytest.approx([50 + place, 52 + place, 54 + place])
        assert [y for *_, y in found] == [0, 1, 2]
        assert {marker for marker, *_ in found} == {"o"}
    assert [x for _, _, x, _ in dots(paper[0])] == pytest.approx([55.15, 54.91, 55.22])
    assert {(marker, colour) for axes in paper for marker, colour, *_ in dots(axes)} == {(OWN, FAINT)}
    # A point is as long in both, so that differences look alike.
    for above, below in zip(ours, paper, strict=True):
        assert np.ptp(above.get_xlim()) == pytest.approx(np.ptp(below.get_xlim()))
    assert [strip.get_suptitle() for strip in figure.subfigs] == [
        "strokes, conv4",
        "paper (miniImageNet, ConvNet)",
    ]


def test_on_the_same_set_they_stand_below_ours() -> None:
    study = make_study(name="benchmark", data="miniimagenet", rows=("SimpleShot", "FEAT"))
    figure = dots_figure(study)
    assert len(figure.axes) == 2
    found = dots(figure.axes[0])
    assert [(marker, x) for marker, _, x, _ in found] == [
        ("o", pytest.approx(50)),
        (CITED, pytest.approx(49.69)),
        ("o", pytest.approx(52)),
        (OWN, pytest.approx(55.15)),
    ]
    heights = [y for *_, y in found]
    assert heights == sorted(heights)
    assert legend_of(figure) == ["paper (miniImageNet, ConvNet)", "cited in the paper from elsewhere"]
    assert figure.axes[0].get_xlim()[0] < 49.69
    assert figure.axes[0].get_xlim()[1] > 55.15 + 0.2


def test_missing_numbers_are_dashes() -> None:
    study = make_study()
    axes = dots_figure(replace(study, numbers=study.numbers[2:])).axes[0]
    segments = [np.ptp(bars.get_segments()[0][:, 0]) for bars in axes.collections]
    assert segments == pytest.approx([0.24, 0.28])
    assert [text.get_text() for text in axes.texts] == ["–", "52.00 ± 0.12", "54.00 ± 0.14"]
    assert [y for *_, y in dots(axes)] == [1, 2]


def test_a_column_without_numbers_of_the_paper_is_left_empty() -> None:
    figure = dots_figure(generalised_study())
    assert [axes.axison for axes in figure.axes] == [True, True, True, False] * 2


def ways_study() -> Study:
    study = make_study(
        name="ways",
        style="lines",
        columns_title="ways",
        panels=("1-shot, trained 5-way", "1-shot, trained 20-way"),
        rows=("ProtoNet", "FEAT"),
        columns=("5", "10", "20"),
    )
    numbers = (replace(one, result=replace(one.result, way=int(one.column))) for one in study.numbers)
    return replace(study, numbers=tuple(numbers))


def test_lines_go_through_the_numbers_with_the_chance_below() -> None:
    figure = lines_figure(ways_study())
    assert [axes.get_title(loc="left") for axes in figure.axes] == list(ways_study().panels)
    for panel, axes in enumerate(figure.axes):
        np.testing.assert_allclose(line_of(axes, 0)[1], np.array([50, 51, 52]) + 6 * panel)
        np.testing.assert_allclose(line_of(axes, 1)[1], np.array([53, 54, 55]) + 6 * panel)
        np.testing.assert_allclose(line_of(axes, 0)[0], [5, 10, 20], atol=0.2)
        bars = axes.containers[1].lines[2][0].get_segments()
        expected = 100 * 2 * (0.001 + np.array([3, 4, 5]) / 10_000 + 6 * panel / 10_000)
        np.testing.assert_allclose([np.ptp(bar[:, 1]) for bar in bars], expected)
        np.testing.assert_allclose(axes.lines[-1].get_xydata(), [[5, 20], [10, 10], [20, 5]])
        assert axes.get_xlabel() == "ways"
    assert legend_of(figure) == ["ProtoNet", "FEAT", "chance"]
    other = lines_figure(make_study(style="lines", columns=("1", "5", "20"), columns_title="shots"))
    assert "chance" not in legend_of(other), "its columns are not numbers of ways"
    np.testing.assert_allclose(other.axes[0].get_xticks(), np.log([1, 5, 20]))


def test_lines_of_the_paper_have_axes_of_their_own() -> None:
    shots = tuple(f"{count}-shot" for count in (1, 2, 5, 10, 20))
    study = make_study(name="low-shot", style="lines", panels=("Unseen",), rows=("FEAT",), columns=shots)
    ours, paper = lines_figure(study).axes
    np.testing.assert_allclose(line_of(ours, 0)[1], [50, 51, 52, 53, 54])
    np.testing.assert_allclose(line_of(paper, 0)[1], [53.8, 65.4, 76.0, 81.2, 83.6])
    assert [label.get_text() for label in paper.get_xticklabels()] == list(shots)


def test_the_curve_is_in_the_order_of_the_constants_and_marks_the_chosen_one() -> None:
    figure = study_figures(generalised_study())["generalised-curve"]
    assert list(study_figures(make_study())) == ["heads"]
    for axes in figure.axes:
        curves = [line for line in axes.lines if line.get_marker() != "o"]
        marks = [line for line in axes.lines if line.get_marker() == "o"]
        for curve in curves:
            np.testing.assert_allclose(curve.get_xydata(), [[0, 70], [30, 50], [60, 0]])
        np.testing.assert_allclose([mark.get_xydata()[0] for mark in marks], [[31, 47], [31, 47]])
        legend = axes.get_legend()
        assert legend is not None
        labels = [text.get_text() for text in legend.get_texts()]
        assert labels == ["ProtoNet, area 0.290", "FEAT, area 0.290"]


def test_a_broken_curve_is_refused() -> None:
    study = generalised_study()
    broken = {"curve": {"constants": ["inf"], "seen": [], "unseen": []}}
    result = replace(study.numbers[0].result, fields=broken)
    with pytest.raises(UserError, match="1-shot learning, ProtoNet holds a curve that cannot be drawn"):
        curve_figure(replace(study, numbers=(replace(study.numbers[0], result=result),)))


def test_no_two_texts_overlap() -> None:
    """The numbers above the dots of one column, at the size in which they are drawn."""
    figure = dots_figure(make_study(rows=("1", "2", "4", "8"), columns=COLUMNS))
    png(figure)  # settles the layout
    for axes in figure.axes:
        boxes = [text.get_window_extent() for text in axes.texts]
        assert len(boxes) == 4
        for place, box in enumerate(boxes):
            assert not any(box.overlaps(other) for other in boxes[place + 1 :])
            assert axes.bbox.x0 <= box.x0
            assert box.x1 <= axes.bbox.x1
