"""Figures of images: tasks with their predictions, and the families of the embedded set."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from fewset.core.names import shortened
from fewset.data.images.families import ASPECTS, MEMBERS, aspect_of
from fewset.data.images.store import ImageSet
from fewset.report.figures import DOWN, FAINT, UP, WIDTH, style

SUPPORT_ACROSS, QUERIES_ACROSS = 5, 8  # images in a line; more go into further lines
_STEP = 1.08  # from image to image; an image is 1 wide and 1 high
_LINE = 1.36  # from line to line, with the marks between
_NAMES, _GAP = 1.75, 0.5  # room for the names, and between support and queries
_SIZE, _MARK_SIZE = 9.0, 6.5  # points, of names and of marks
_LETTER = 0.65  # width of a letter, as a part of its size
_CLASSES, _DRAWINGS = 5, 7  # of a family


@dataclass(frozen=True, eq=False)
class PicturedTask:
    """The images of a task, row n of class n, and the predicted class of each query."""

    support: UInt8[np.ndarray, "N K H W 3"]
    query: UInt8[np.ndarray, "N Q H W 3"]
    predicted: Int[np.ndarray, "N Q"]
    class_names: Sequence[str]
    title: str


class _Shape(NamedTuple):
    """How many images stand in a line, and how many lines a class has."""

    support: int
    query: int
    lines: int

    @property
    def query_left(self) -> float:
        return self.support * _STEP + _GAP

    @property
    def right(self) -> float:
        return self.query_left + self.query * _STEP


@style()
def task_figure(tasks: Sequence[PicturedTask]) -> Figure:
    """The paper's qualitative figure: a class in each row, its support images left, its queries right.

    The paper frames correct queries red and wrong ones blue. These colours can be told apart with any colour
    vision, and the mark below each query says the same, with the class that was predicted for a wrong one.
    """
    shapes = [_shape(task) for task in tasks]
    wide = max(shape.right for shape in shapes)
    heights = [_LINE * shape.lines * len(task.query) + 0.2 for task, shape in zip(tasks, shapes, strict=True)]
    inches = WIDTH / (_NAMES + wide + 0.2)  # of an image
    figure = Figure(
        figsize=(WIDTH, 0.4 + sum(0.45 + inches * height for height in heights)), layout="constrained"
    )
    panels = figure.subplots(len(tasks), 1, squeeze=False, height_ratios=heights)[:, 0]
    for task, shape, height, axes in zip(tasks, shapes, heights, panels, strict=True):
        _draw(axes, task, shape, 72 * inches)
        axes.set_xlim(-_NAMES, wide)
        axes.set_ylim(height, -0.3)
        axes.set_aspect("equal")
        axes.set_axis_off()
    frames = [Rectangle((0, 0), 1, 1, fill=False, edgecolor=colour, linewidth=2) for colour in (UP, DOWN)]
    labels = ["✓ right", "✗ wrong, with the class it was taken for"]
    figure.legend(frames, labels, loc="outside lower left", ncols=2)
    return figure


def _shape(task: PicturedTask) -> _Shape:
    shot, queries = task.support.shape[1], task.query.shape[1]
    across = min(shot, SUPPORT_ACROSS), min(queries, QUERIES_ACROSS)
    return _Shape(*across, lines=max(-(-shot // across[0]), -(-queries // across[1])))


def _draw(axes: Axes, task: PicturedTask, shape: _Shape, points: float) -> None:
    """Draw a task; an image is `points` wide."""
    letters, mark_letters = (
        int(points * room / (_LETTER * size)) for room, size in ((_NAMES, _SIZE), (_STEP, _MARK_SIZE))
    )
    right = int((task.predicted == np.arange(len(task.query))[:, None]).sum())
    axes.set_title(f"{task.title}: {right} of {task.predicted.size} right")
    for text, left in (("support", 0.0), ("queries", shape.query_left)):
        axes.text(left, -0.1, text, color=FAINT)
    for number, name in enumerate(task.class_names):
        top = number * shape.lines * _LINE
        label = "\n".join(textwrap.wrap(f"{number + 1} {name}", letters, max_lines=4, placeholder=" …"))
        axes.text(-0.15, top + 0.5, label, fontsize=_SIZE, ha="right", va="center")
        for place, image in enumerate(task.support[number]):
            left, below = place % shape.support * _STEP, top + place // shape.support * _LINE
            axes.imshow(image, extent=(left, left + 1, below + 1, below))
        queries = zip(task.query[number], task.predicted[number], strict=True)
        for place, (image, predicted) in enumerate(queries):
            left = shape.query_left + place % shape.query * _STEP
            below = top + place // shape.query * _LINE
            axes.imshow(image, extent=(left, left + 1, below + 1, below))
            correct = predicted == number
            colour = UP if correct else DOWN
            axes.add_patch(Rectangle((left, below), 1, 1, fill=False, edgecolor=colour, linewidth=2))
            wrong = shortened(f"✗ {predicted + 1} {task.class_names[predicted]}", mark_letters - 1)
            mark = "✓" if correct else wrong
            axes.text(left + 0.5, below + 1.05, mark, fontsize=_MARK_SIZE, ha="center", va="top")


@style()
def family_figure(images: ImageSet) -> Figure:
    """The first test family of each aspect: a class in each row, one drawing beside the other."""
    families = sorted(set((images.select("test").labels // MEMBERS).tolist()))
    figure = Figure(figsize=(WIDTH, 0.8 * WIDTH), layout="constrained")
    panels = figure.subplots(2, -(-len(ASPECTS) // 2)).ravel()
    for aspect, panel in zip(ASPECTS, panels, strict=True):
        family = next(number for number in families if aspect_of(number) == aspect)
        rows = [
            images.images[np.flatnonzero(images.labels == family * MEMBERS + place)[:_DRAWINGS]]
            for place in range(_CLASSES)
        ]
        framed = np.pad(np.stack(rows), ((0, 0), (0, 0), (1, 1), (1, 1), (0, 0)), constant_values=255)
        classes, drawings, high, wide, _ = framed.shape
        sheet = framed.swapaxes(1, 2).reshape(classes * high, drawings * wide, 3)
        panel.imshow(sheet, interpolation="nearest")
        panel.set_title(f"Classes differ in {aspect}")
        panel.set_axis_off()
    return figure
