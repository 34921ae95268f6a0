"""Figures of studies. If the paper's numbers are on another set than ours, they have separate axes: on one
scale a reader would compare the sets and not the methods."""

import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D

from fewset.core.errors import UserError
from fewset.paper.study import Study, StudyNumber
from fewset.report.figures import COLOURS, FAINT, INK, LINES, MARKERS, WIDTH, colour_of, style
from fewset.report.tables import Estimate, text_of

_Numbers = Callable[[str, str, str], Estimate | None]
"""Panel, row and column to a number."""

OWN, CITED = "D", "^"  # the marks of the paper's numbers
_LETTERS = 22  # of a line of a title


class Band(NamedTuple):
    """A strip of the figure: the numbers of one panel, ours or the paper's, or both on one scale."""

    panel: str
    title: str
    ours: bool
    paper: bool


def study_figures(study: Study) -> dict[str, Figure]:
    """The figures of a study, by the names of their files."""
    figure = lines_figure(study) if study.style == "lines" else dots_figure(study)
    curves = any("curve" in number.result.fields for number in study.numbers)
    return {study.name: figure} | ({f"{study.name}-curve": curve_figure(study)} if curves else {})


@style()
def dots_figure(study: Study) -> Figure:
    """A table as dots with intervals: an axes for each column, a line for each row."""
    bands = _bands(study)
    overlaid = any(band.ours and band.paper for band in bands)
    height = len(study.rows) * (0.46 if overlaid else 0.36)
    figure = Figure(figsize=(WIDTH, 0.4 + len(bands) * (height + 0.75)), layout="constrained")
    strips = figure.subfigures(len(bands), 1, squeeze=False)[:, 0]
    for band, strip in zip(bands, strips, strict=True):
        _strip_title(strip, band.title, band.ours)
        row = strip.subplots(1, len(study.columns), sharey=True, squeeze=False)[0]
        row[0].set_yticks(range(len(study.rows)), study.rows)
        row[0].set_ylim(len(study.rows) - 0.4, -0.6)
        row[0].set_ylabel(study.corner)
        for column, axes in zip(study.columns, row, strict=True):
            _dots(axes, study, band, column)
    _legend(figure, study, bands)
    return figure


@style()
def lines_figure(study: Study) -> Figure:
    """A table as lines: an axes for each panel, a line for each row, the columns along it.

    Where the columns are numbers of ways, the accuracy of guessing is drawn, too.
    """
    bands = _bands(study)
    kinds = [kind for kind in (True, False) if any(band.ours is kind for band in bands)]
    across = 2 if len(study.panels) in (2, 4) else min(3, len(study.panels))
    down = -(-len(study.panels) // across)
    figure = Figure(figsize=(WIDTH, 0.5 + len(kinds) * (0.3 + 3.0 * down)), layout="constrained")
    strips = figure.subfigures(len(kinds), 1, squeeze=False)[:, 0]
    handles: dict[str, Any] = {}
    for ours, strip in zip(kinds, strips, strict=True):
        _strip_title(strip, study.on if ours else _paper_label(study), ours)
        grid = strip.subplots(down, across, sharey="row", squeeze=False)
        for axes in grid.flat[len(study.panels) :]:
            axes.set_axis_off()
        for panel, axes in zip(study.panels, grid.flat, strict=False):
            axes.set_title(panel)
            axes.tick_params(axis="x", labelsize=9 if across < 3 else 7)
            handles |= _lines(axes, study, panel, ours)
        for axes in grid[:, 0]:
            axes.set_ylabel("accuracy, %")
    figure.legend(handles.values(), handles.keys(), loc="outside lower left", ncols=min(6, len(handles)))
    return figure


@style()
def curve_figure(study: Study) -> Figure:
    """Accuracy on seen against unseen classes, over the constant subtracted from the scores of seen ones."""
    figure = Figure(figsize=(WIDTH, 3.9), layout="constrained")
    panels = figure.subplots(1, len(study.panels), sharex=True, sharey=True, squeeze=False)[0]
    for panel, axes in zip(study.panels, panels, strict=True):
        axes.set_title(": ".join(filter(None, (panel, study.on))))
        axes.set_xlabel("unseen classes: accuracy among all, %")
        axes.grid()
        for place, row in enumerate(study.rows):
            for number in study.numbers:
                if (number.panel, number.row) == (panel, row) and "curve" in number.result.fields:
                    _curve(axes, number, place)
                    break
        if axes.lines:
            axes.legend(loc="lower left")
    panels[0].set_xlim(left=0)  # of all panels, once everything is drawn: it ends the automatic scaling
    panels[0].set_ylim(bottom=0)
    panels[0].set_ylabel("seen classes: accuracy among all, %")
    chosen = Line2D([], [], marker="o", linestyle="", color=INK, markersize=8, markeredgecolor="white")
    figure.legend([chosen], ["at the constant chosen on validation tasks"], loc="outside lower left")
    return figure


def _bands(study: Study) -> list[Band]:
    """Ours and the paper's numbers in one strip where they are on the same set, in two where they are not."""
    bands = []
    for panel in study.panels:
        printed = any(study.paper(*place) for place in study.places() if place[0] == panel)
        together = printed and study.on_the_papers_set and study.style == "table"
        bands.append(Band(panel, ": ".join(filter(None, (panel, study.on))), True, together))
        if printed and not together:
            bands.append(Band(panel, ": ".join(filter(None, (panel, _paper_label(study)))), False, True))
    return bands


def _paper_label(study: Study) -> str:
    return f"paper ({study.source.on})" if study.source else "paper"


def _strip_title(strip: SubFigure, title: str, ours: bool) -> None:
    strip.suptitle(title, x=0.01, ha="left", fontsize=10, fontweight="bold", color=INK if ours else FAINT)


def _dots(axes: Axes, study: Study, band: Band, column: str) -> None:
    title = textwrap.fill(column if band.ours else study.key(column), _LETTERS)
    axes.set_title(title, fontweight="normal", fontsize=9)
    axes.tick_params(left=False)
    axes.grid(axis="x")
    if not band.ours and not _ends(study, study.paper, band.panel, column):
        axes.set_axis_off()  # the paper does not have this column
        axes.set_title("")
        return
    for place, row in enumerate(study.rows):
        ours, paper = study.ours(band.panel, row, column), study.paper(band.panel, row, column)
        shift = 0.12 if band.paper and band.ours else 0
        if band.ours and ours is not None:
            marker = MARKERS[place // len(COLOURS) % len(MARKERS)]
            _dot(axes, place - shift, ours, marker=marker, color=colour_of(place))
        if band.paper and paper is not None:
            marker = CITED if paper.mark else OWN
            look = {"marker": marker, "markersize": 5, "markerfacecolor": "white", "color": FAINT}
            _dot(axes, place + 2.3 * shift, paper, label=not band.ours, **look)
        if (ours if band.ours else paper) is None:
            middle: dict[str, Any] = {"ha": "center", "va": "center", "transform": axes.get_yaxis_transform()}
            axes.text(0.5, place, "–", color=FAINT, **middle)
    axes.set_xlim(*_limits(study, band, column))


def _dot(axes: Axes, height: float, number: Estimate, label: bool = True, **look: Any) -> None:
    half = None if number.ci95 is None else 100 * number.ci95
    axes.errorbar(100 * number.mean, height, xerr=half, capsize=3, **look)
    if label:
        text, place = text_of(number._replace(mark="")), (100 * number.mean, height)
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}  # no grid line through the number
        look = {"ha": "center", "fontsize": 7.5, "zorder": 1, "bbox": box}  # behind the dots, before the grid
        axes.annotate(text, place, (0, 5), textcoords="offset points", **look)


def _limits(study: Study, band: Band, column: str) -> tuple[float, float]:
    """The range of a column; as wide for the paper's numbers as for ours, so that differences look alike."""
    ours, paper = (_ends(study, numbers, band.panel, column) for numbers in (study.ours, study.paper))
    shown = (ours if band.ours else []) + (paper if band.paper else [])
    if not shown:
        return 0, 100
    middle = (min(shown) + max(shown)) / 2
    width = max(0.5, *(max(ends) - min(ends) for ends in (shown, ours, paper) if ends))
    return middle - 0.9 * width, middle + 0.9 * width  # room for the numbers above the outermost dots


def _ends(study: Study, numbers: _Numbers, panel: str, column: str) -> list[float]:
    """Where the intervals of a column end, in percent."""
    found = [number for row in study.rows if (number := numbers(panel, row, column))]
    return [100 * (number.mean + side * (number.ci95 or 0)) for number in found for side in (-1, 1)]


def _legend(figure: Figure, study: Study, bands: Sequence[Band]) -> None:
    """The marks of the paper's numbers, where there are any."""
    panels = [band.panel for band in bands if band.paper]
    numbers = [study.paper(*place) for place in study.places() if place[0] in panels]
    marks = {CITED if number.mark else OWN for number in numbers if number}
    labels = {OWN: _paper_label(study), CITED: "cited in the paper from elsewhere"}
    look: dict[str, Any] = {"linestyle": "", "color": FAINT, "markerfacecolor": "white"}
    handles = {labels[mark]: Line2D([], [], marker=mark, **look) for mark in labels if mark in marks}
    if handles:
        figure.legend(handles.values(), handles.keys(), loc="outside lower left", ncols=2)


def _lines(axes: Axes, study: Study, panel: str, ours: bool) -> dict[str, Any]:
    """Draw the lines of a panel; returns what the legend needs."""
    numeric = all(column.isdecimal() for column in study.columns)
    places = np.array(
        [int(column) if numeric else place for place, column in enumerate(study.columns)], float
    )
    if numeric and places[-1] >= 10 * places[0]:
        places = np.log(places)
    axes.set_xticks(places, study.columns)
    axes.set_xlabel(study.columns_title)
    axes.grid(axis="y")
    handles: dict[str, Any] = {}
    for number, row in enumerate(study.rows):
        found = [(study.ours if ours else study.paper)(panel, row, column) for column in study.columns]
        if any(found):
            # Lines that would lie on each other stand a little apart.
            apart = 0.01 * (number - (len(study.rows) - 1) / 2) * np.ptp(places)
            handles[row] = axes.errorbar(
                places + apart,
                [np.nan if item is None else 100 * item.mean for item in found],
                yerr=[0 if item is None else 100 * (item.ci95 or 0) for item in found],
                color=colour_of(number),
                marker=MARKERS[number % len(MARKERS)],
                linestyle=LINES[number % len(LINES)],
                linewidth=1,
                markersize=4,
                capsize=2,
            )
    if ours and study.columns_title == "ways":
        ways = {str(number.result.way) for number in study.numbers if number.panel == panel}
        chance = [(int(column), 100 / int(column)) for column in study.columns if column in ways]
        guess = axes.plot(*zip(*chance, strict=True), color=FAINT, linewidth=1, linestyle=(0, (1, 2)))
        handles["chance"] = guess[0]
    return handles


def _curve(axes: Axes, number: StudyNumber, place: int) -> None:
    try:
        curve, scores = number.result.fields["curve"], number.result.scores
        # Infinite constants are written as "inf" and "-inf", which `float` reads.
        points = [
            (float(constant), 100 * unseen, 100 * seen)
            for constant, unseen, seen in zip(curve["constants"], curve["unseen"], curve["seen"], strict=True)
        ]
        label = f"{number.row}, area {curve['area']:.3f}"
        chosen = [100 * scores[name].mean for name in ("unseen_among_all", "seen_among_all")]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"the result of {number.panel}, {number.row} holds a curve that cannot be drawn ({error!r}); "
            f"make it again: {number.result.command}"
        ) from None
    _, unseen, seen = zip(*sorted(points, key=lambda point: point[0]), strict=True)
    colour = colour_of(place)
    axes.plot(unseen, seen, color=colour, linestyle=LINES[place % len(LINES)], label=label)
    axes.plot(*chosen, "o", color=colour, markersize=8, markeredgecolor="white", zorder=3)
