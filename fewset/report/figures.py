"""Figures of results. Each function returns a new `Figure`; none uses pyplot's global state."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fewset.evaluation.principal_plane import principal_plane
from fewset.report.comparison import Comparison
from fewset.report.loading import Curves, Examples
from fewset.report.tables import text_of

WIDTH = 8.0  # inches; at 150 dots an inch this is sharp across a page

# Okabe and Ito's palette for any colour vision, without its yellow, which is hard to see on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D")  # the next one each time the colours are used up
LINES = ("-", "--", ":", "-.")
INK, FAINT = "#333333", "#8A8A8A"
UP, DOWN = COLOURS[0], COLOURS[1]

_STYLE = {
    "figure.dpi": 150,
    "figure.facecolor": "white",
    "font.size": 9,
    "axes.edgecolor": "#BBBBBB",
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#E8E8E8",
    "legend.frameon": False,
    "text.color": INK,
    "svg.hashsalt": "fewset",
    "text.parse_math": False,  # a dollar in a name is a dollar
    "xtick.color": INK,
    "ytick.color": INK,
}

_KEPT = "best on validation: kept"
_LETTERS = 120  # of a legend across a figure


@contextmanager
def style() -> Iterator[None]:
    """matplotlib's own defaults and ours, whatever the user's matplotlibrc says; put back afterwards."""
    with matplotlib.style.context(["default", _STYLE]):
        yield


def png(figure: Figure) -> bytes:
    """The picture's bytes: the same figure always gives the same bytes, so no version or date is in them."""
    return _bytes(figure, "png", {"Software": None})


def svg(figure: Figure) -> bytes:
    """The same for print: without a date, and with the same names for its parts each time."""
    return _bytes(figure, "svg", {"Date": None, "Creator": None})


def _bytes(figure: Figure, form: str, metadata: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    with style():
        figure.savefig(out, format=form, metadata=metadata)
    return out.getvalue()


@style()
def accuracy_figure(comparisons: Sequence[Comparison]) -> Figure:
    """The accuracies with their intervals and, where there are any, the paired differences."""
    paired = any(item.difference for item in comparisons)
    figure = Figure(figsize=(WIDTH, 1.0 + 0.62 * len(comparisons)), layout="constrained")
    left, *right = figure.subplots(1, 2 if paired else 1, sharey=True, squeeze=False)[0]
    left.set_title("Accuracy, %")
    for row, item in enumerate(comparisons):
        if item.result.unadapted is not None:
            _interval(left, row + 0.24, item.result.unadapted, FAINT, markerfacecolor="white", markersize=5)
        _interval(left, row, item.result.score, colour_of(row), label=True)
    if any(item.result.unadapted for item in comparisons):
        unadapted = Line2D([], [], marker="o", color=FAINT, markerfacecolor="white", markersize=5)
        figure.legend([unadapted], ["without adaptation"], loc="outside lower left")
    for axes in right:
        baselines = {item.baseline for item in comparisons if item.baseline}
        axes.set_title(f"Difference to {baselines.pop() if len(baselines) == 1 else 'baseline'}, points")
        axes.axvline(0, color=FAINT, linewidth=1)
        for row, item in enumerate(comparisons):
            if item.difference is not None:
                _interval(axes, row, item.difference, colour_of(row), label=True)
            elif not item.alone:
                axes.plot(0, row, "o", color=colour_of(row))
    for axes in (left, *right):
        axes.grid(axis="x")
        axes.margins(x=0.25)
        axes.tick_params(left=False)
    left.set_yticks(range(len(comparisons)), [item.label for item in comparisons])
    left.set_ylim(len(comparisons) - 0.4, -0.6)
    return figure


@style()
def training_figure(comparisons: Sequence[Comparison]) -> Figure | None:
    """Loss, training and validation accuracy of each epoch; a star marks the weights that were kept."""
    trained: dict[Path, tuple[str, Curves]] = {}
    for item in comparisons:
        if item.result.curves is not None:  # one run may have several results, but was trained once
            trained.setdefault(item.result.directory, (item.label, item.result.curves))
    if not trained:
        return None
    names = [label for label, _ in trained.values()] + [_KEPT]
    columns = max(1, min(5, len(names), _LETTERS // (max(map(len, names)) + 6)))
    figure = Figure(figsize=(WIDTH, 2.7 + 0.2 * -(-len(names) // columns)), layout="constrained")
    panels = figure.subplots(1, 3)
    titles = ("Training loss", "Training accuracy, %", "Validation accuracy, %")
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title)
        axes.set_xlabel("epoch")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid()
    handles = {}
    for place, (label, curves) in enumerate(trained.values()):
        colour, line = colour_of(place), LINES[place // len(COLOURS) % len(LINES)]
        marker = "o" if len(curves.epoch) == 1 else ""  # a line of one point would not be seen
        validation, band = 100 * curves.val_accuracy, 100 * curves.val_ci95
        for axes, values in zip(panels, (curves.loss, 100 * curves.accuracy, validation), strict=True):
            axes.plot(curves.epoch, values, color=colour, linestyle=line, marker=marker, linewidth=1.6)
        handles[label] = panels[0].lines[-1]
        panels[2].fill_between(
            curves.epoch, validation - band, validation + band, color=colour, alpha=0.15, linewidth=0
        )
        if curves.best is not None:
            best = curves.epoch[curves.best], validation[curves.best]
            panels[2].plot(*best, zorder=3, **_mark("*", colour, 13))
    handles[_KEPT] = Line2D([], [], **_mark("*", INK, 10))
    figure.legend(handles.values(), handles.keys(), loc="outside upper left", ncols=columns)
    return figure


@style()
def adaptation_figure(examples: Examples) -> Figure:
    """The first figure of the paper: prototypes before and after adaptation, among the queries of their task.

    Each task has its own plane, that of the two principal components of its query embeddings; the
    prototypes are projected onto it. One unit is equally long in both directions.
    """
    count = len(examples.task)
    columns = 2 if count <= 4 else 3
    rows = -(-count // columns)
    figure = Figure(figsize=(WIDTH, 0.4 + rows * 0.92 * WIDTH / columns), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for place, axes in enumerate(panels):
        if place < count:
            _task_panel(axes, examples, place)
        else:
            axes.set_axis_off()
    marks = {
        "query": Line2D([], [], alpha=0.6, **_mark("o", INK, 4) | {"markeredgewidth": 0}),
        "prototype before adaptation": Line2D([], [], markerfacecolor="white", **_mark("o", INK, 8)),
        "prototype after adaptation": Line2D([], [], **_mark("*", INK, 14)),
    }
    if examples.alone is not None:
        marks["adapted without the others"] = Line2D([], [], **_mark("x", INK, 7))
    figure.legend(marks.values(), marks.keys(), loc="outside upper left", ncols=2)
    return figure


def _task_panel(axes: Axes, examples: Examples, place: int) -> None:
    plane = principal_plane(examples.query[place])
    query, before, after = (
        plane.places(points[place]) for points in (examples.query, examples.before, examples.after)
    )
    alone = None if examples.alone is None else plane.places(examples.alone[place])
    for number in range(len(before)):
        colour, marker = colour_of(number), MARKERS[number // len(COLOURS) % len(MARKERS)]
        own = query[examples.query_labels[place] == number]
        axes.scatter(own[:, 0], own[:, 1], s=16, color=colour, marker=marker, alpha=0.5, linewidth=0)
        arrow = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.4, "shrinkA": 4, "shrinkB": 4}
        axes.annotate("", after[number], before[number], arrowprops=arrow, zorder=2)
        axes.plot(*before[number], markerfacecolor="white", zorder=3, **_mark(marker, colour, 8))
        axes.plot(*after[number], zorder=4, **_mark("*", colour, 15))
        if alone is not None:
            axes.plot(*alone[number], zorder=5, **_mark("x", INK, 7))
    old, new = examples.accuracy_before[place], examples.accuracy_after[place]
    effect, colour = (
        (": adaptation hurts", DOWN) if new < old else ("", UP) if new > old else (": no change", INK)
    )
    axes.set_title(f"Task {examples.task[place]}{effect}", color=colour)
    axes.set_xlabel(f"accuracy {100 * old:.1f} % → {100 * new:.1f} %", color=colour, fontsize=10)
    # Adapted prototypes may lie far from the queries: every point is in view, at one scale.
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.08)
    axes.spines[:].set_visible(True)
    axes.set_xticks([])
    axes.set_yticks([])


def _mark(marker: str, colour: str, size: float) -> dict[str, Any]:
    edge = {"markeredgecolor": "white", "markeredgewidth": 0.8} if marker == "*" else {"markeredgewidth": 1.6}
    return {"marker": marker, "linestyle": "", "color": colour, "markersize": size} | edge


def _interval(axes: Axes, row: float, estimate: Any, colour: str, label: bool = False, **look: Any) -> None:
    mean, half = 100 * estimate.mean, 100 * estimate.ci95
    axes.errorbar(mean, row, xerr=half, fmt="o", color=colour, capsize=3, **look)
    if label:
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # no grid line through the number
        place, shift = (mean, row), (0, 8)
        axes.annotate(text_of(estimate), place, shift, textcoords="offset points", ha="center", bbox=box)


def colour_of(place: int) -> str:
    return COLOURS[place % len(COLOURS)]
