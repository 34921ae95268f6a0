"""The embedded set `families`: families of drawn letters, made by code, the same bytes everywhere.

A letter has four aspects: its outline, how its strokes run, its ink and its paper. The classes of a family
differ in one of them and share the other three, and every drawing departs from its class in all four. A
single drawing does not say which aspect matters; the drawings of a task, one for each class, do.
"""

from enum import IntEnum
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int, UInt8

from fewset.core.progress import progress
from fewset.data.images import drawing
from fewset.data.images.drawing import ALONG, BOW, SIZE, Key, Plane, Scalar
from fewset.data.images.store import SPLITS, write_store

FAMILIES = {"train": 60, "val": 12, "test": 20}
MEMBERS = 6  # classes of a family
ITEMS = 20  # drawings of a class
ASPECTS = {  # and their factors
    "outline": ("top", "foot", "slant"),
    "strokes": ("bow", "bar", "tilt"),
    "ink": ("pen", "red", "bright"),
    "paper": ("light", "warm", "ruled"),
}
FACTORS = tuple(factor for aspect in ASPECTS.values() for factor in aspect)

# These make the set difficult. The values of families and classes are spread evenly from -1 to 1.
_SPREAD = 0.2  # how far a drawing is from its class, in each factor
_TREMOR, _SHIFT = 0.05, 0.1  # parts of the letter's half size, the same for all classes

_SCALE = 9.0  # pixels from the middle of a letter to its edge

# The use of a random number, the first part of its key, so that no two uses share a number.
_Use = IntEnum("_Use", "FAMILY CLASS ITEM TREMOR PLACE GRAIN CLOUDS", start=101)


def aspect_of(family: int) -> str:
    """The aspect in which the classes of a family differ."""
    return list(ASPECTS)[family % len(ASPECTS)]


def class_values(seed: int, label: int) -> Float[np.ndarray, " factors"]:
    """The value of a class in each factor. In three aspects it has the values of its family."""
    family = label // MEMBERS
    own = np.isin(FACTORS, ASPECTS[aspect_of(family)])
    shared, drawn = (
        2 * drawing.uniform(len(FACTORS), *key) - 1
        for key in ((_Use.FAMILY, seed, family), (_Use.CLASS, seed, label))
    )
    values: np.ndarray = np.where(own, drawn, shared)
    return values


def render(seed: int, label: int, items: Int[np.ndarray, " items"]) -> UInt8[np.ndarray, "items H W 3"]:
    """Drawings of a class. Each depends on its own index alone, not on the others."""
    key = (seed, label, items)
    values = class_values(seed, label) + _SPREAD * drawing.bell(len(FACTORS), _Use.ITEM, *key)
    top, foot, slant, bow, bar, tilt, pen, *colours = drawing.columns(values)
    radius = 1.1 * np.maximum(1 + 0.4 * pen, 0.3)
    ratio = drawing.distance(drawing.smooth(write(letter(top, foot, bar, tilt, bow, slant), radius, *key)))
    return colour(ratio, radius, colours, *key)


def letter(
    top: Scalar, foot: Scalar, bar: Scalar, tilt: Scalar, bow: Scalar, slant: Scalar
) -> Float[np.ndarray, "items 3 5 2"]:
    """Two uprights and a bar between them, each of 5 control points: something from A over H to V."""
    across = 2 * ALONG[:, 0] - 1
    upper, lower = 0.6 + 0.3 * top, 0.6 + 0.3 * foot
    upright = upper + ALONG[:, 0] * (lower - upper) + 0.35 * bow * BOW[:, 0]
    height = 0.6 * bar
    reach = upper + (1 + height) / 2 * (lower - upper)
    x = np.concatenate([-upright, upright, reach * across], axis=1)
    down = np.broadcast_to(across, upright.shape)
    y = np.concatenate([down, down, height + 0.5 * tilt * across], axis=1)
    return np.stack([x - 0.35 * slant * y, y], axis=-1)


def write(
    drawn: Float[np.ndarray, "items 3 5 2"], radius: Scalar, *key: Key
) -> Float[np.ndarray, "items 3 5 3"]:
    """The control points in pixels, with the radius of the pen. The hand is unsteady, the place too."""
    tremor = drawing.bell(30, _Use.TREMOR, *key).reshape(-1, 3, 5, 2)
    place = drawing.bell(2, _Use.PLACE, *key)[:, None, None]
    points = SIZE / 2 + _SCALE * (drawn + _TREMOR * tremor + _SHIFT * place)
    return np.concatenate([points, np.broadcast_to(radius, (len(points), 3, 5))[..., None]], axis=-1)


def colour(ratio: Plane, radius: Scalar, values: list[Scalar], *key: Key) -> UInt8[np.ndarray, "items H W 3"]:
    """The letter in its ink on its paper, which is lined across or down."""
    red, bright, light, warm, ruled = values
    dark = 0.25 + 0.1 * bright
    lines = (np.arange(SIZE) // 2 % 2)[None, :, None]
    across, down = np.maximum(ruled, 0) * lines, np.maximum(-ruled, 0) * lines.mT
    tone = 0.75 + 0.08 * light - 0.15 * (across + down)
    tone = (
        tone
        + 0.1 * (drawing.clouds(3, _Use.CLOUDS, *key) - 0.5)
        + 0.08 * (drawing.grain(_Use.GRAIN, *key) - 0.5)
    )
    paper = (tone + 0.05 * warm, tone, tone - 0.05 * warm)
    cover = np.clip((1 - ratio) * radius + 0.5, 0, 1)
    return drawing.paint(paper, (dark + 0.12 * red, dark, dark - 0.12 * red), cover)


def write_families(path: Path, seed: int = 0) -> None:
    """Render the whole set into a store at `path`: 552 classes, 11,040 images, some seconds."""
    classes = sum(FAMILIES.values()) * MEMBERS
    labels, items = np.indices((classes, ITEMS)).reshape(2, -1)
    splits = np.repeat(np.arange(len(SPLITS)), [FAMILIES[split] for split in SPLITS])
    groups = [f"family{label // MEMBERS:02}" for label in range(classes)]
    with (
        write_store(
            path,
            size=SIZE,
            labels=labels,
            class_names=[f"{group}-member{label % MEMBERS}" for label, group in enumerate(groups)],
            groups=groups,
            splits=splits[labels // MEMBERS],
            source=f"generated by fewset.data.images.families with seed {seed}",
        ) as draft,
        progress("families", classes) as advance,
    ):
        for label in range(classes):
            rows = labels == label
            draft.images[rows] = render(seed, label, items[rows])
            advance()
