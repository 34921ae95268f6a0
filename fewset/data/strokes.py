"""The embedded image set: alphabets of hand-drawn-like characters, made by code, the same bytes everywhere.

An alphabet owns a few strokes; its characters are different choices of them, so that they resemble each
other. An item is a character written once more: control points, slant, size and pen differ each time. Every
character is written in two domains, with ink on paper and with chalk on a board.

The same bytes on every machine and every version: random numbers are hashes of (seed, purpose, class,
domain, item), and the arithmetic is elementwise + - * / and square root on doubles, which IEEE 754 fixes to
the last bit. No sums over axes, no matrix products, no sine or exponential: those differ between machines.
"""

from enum import IntEnum
from itertools import combinations

import numpy as np
from jaxtyping import Float, Int, UInt8

from fewset.sampling import _keys

SIZE = 32  # pixels a side, stored
ALPHABETS = {"train": 16, "val": 4, "test": 4}
CHARACTERS = 10  # of an alphabet
ITEMS = 40  # of a character in each domain
DOMAINS = ("ink", "chalk")

_PRIMITIVES = 6  # strokes that an alphabet owns; a character has 2 to 4 of them
_STEPS = 3  # line segments between two control points
_RING = np.array([[0.0, -1.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.1, -1.1]])

_POSITION = np.arange(5)[:, None] / 4  # of the control points along a stroke
_OWN = (0.10, 0.15, 0.15)
# How much one writing of a character differs from another: the difficulty of the set.
_ITEM = (0.16, 0.20, 0.20)
_TREMOR, _TURN, _SHEAR, _STRETCH, _SHIFT = 0.03, 0.09, 0.16, 0.12, 1.0


class Use(IntEnum):
    """What a random number is for: part of its key, so that no two uses share one."""

    ANCHORS = 1
    PRIMITIVES = 2
    CHOICE = 3
    CHARACTER = 4
    POINTS = 5
    STROKES = 6
    AFFINE = 7
    PEN = 8
    PRESSURE = 9
    COLOUR = 10
    GRAIN = 11
    CLOUDS = 12
    LIGHT = 13


def uniform(count: int, *key: int | Int[np.ndarray, "items"]) -> Float[np.ndarray, "*items {count}"]:
    """`count` numbers from 0 to 1 (excluded) for each key."""
    parts = [np.asarray(part)[..., None] for part in key]
    return (_keys(*parts, np.arange(count)) >> np.uint64(11)) * 2.0**-53


def bell(count: int, *key: int | Int[np.ndarray, "items"]) -> Float[np.ndarray, "*items {count}"]:
    """`count` numbers with mean 0 and deviation 1, nearly normal and never beyond 3."""
    drawn = uniform(3 * count, *key)
    return (drawn[..., 0::3] + drawn[..., 1::3] + drawn[..., 2::3] - 1.5) * 2


def primitives(seed: int, alphabet: int) -> Float[np.ndarray, "P 5 2"]:
    """The strokes of an alphabet: bows between the points of a 3 x 3 lattice, now and then a ring."""
    lattice = np.stack(np.meshgrid([-0.8, 0.0, 0.8], [-1.0, 0.0, 1.0]), axis=-1).reshape(9, 2)
    roundness = 0.1 + 0.3 * uniform(1, seed, Use.ANCHORS, alphabet, 1)[0]
    bow, sway = 4 * _POSITION * (1 - _POSITION), 10 * _POSITION * (1 - _POSITION) * (1 - 2 * _POSITION)
    strokes = []
    for number in range(_PRIMITIVES):
        kind, start, way, bend, wave, size = uniform(6, seed, Use.PRIMITIVES, alphabet, number)
        first = int(9 * start)
        if kind < 0.15:
            strokes.append(lattice[first] * 0.6 + _RING * (0.3 + 0.25 * size))
            continue
        last = (first + 1 + int(8 * way)) % 9
        along = lattice[last] - lattice[first]
        across = np.array([-along[1], along[0]])
        lean = roundness * (4 * bend - 2) * bow + 0.4 * roundness * (4 * wave - 2) * sway
        strokes.append(lattice[first] + _POSITION * along + lean * across)
    return np.stack(strokes)


def alphabet(seed: int, number: int) -> list[Float[np.ndarray, "S 5 2"]]:
    """The characters of an alphabet, each 2 to 4 strokes of 5 control points in a box from -1 to 1."""
    owned = primitives(seed, number)
    choices = [c for size in (2, 3, 4) for c in combinations(range(_PRIMITIVES), size)]
    order = np.argsort(uniform(len(choices), seed, Use.CHOICE, number))
    characters = []
    for place in range(CHARACTERS):
        strokes = owned[list(choices[order[place]])]
        strokes = vary(strokes, *_OWN, (seed, number, place, Use.CHARACTER))[0]
        low, high = strokes.min(axis=(0, 1)), strokes.max(axis=(0, 1))
        characters.append((strokes - (low + high) / 2) / np.maximum((high - low) / 2, 0.5))
    return characters


def vary(strokes, shift: float, swing: float, bend: float, key) -> Float[np.ndarray, "items S 5 2"]:
    """Each stroke moved, its ends swung apart and its middle bent: smooth changes, as a hand makes them."""
    random = bell(6 * len(strokes), *key).reshape(-1, len(strokes), 3, 1, 2)
    return (
        strokes
        + shift * random[:, :, 0]
        + swing * random[:, :, 1] * (2 * _POSITION - 1)
        + bend * random[:, :, 2] * (4 * _POSITION * (1 - _POSITION) - 0.5)
    )


def write(
    strokes: Float[np.ndarray, "S 5 2"], key: tuple[int | Int[np.ndarray, "items"], ...]
) -> tuple[Float[np.ndarray, "items S 13 3"], Float[np.ndarray, "items"]]:
    """Writings of a character: points along its strokes with the pen's radius there (pixels), and the pen."""
    count, points = strokes.shape[:2]
    tremor = bell(count * points * 2, *key, Use.POINTS).reshape(-1, count, points, 2)
    drawn = vary(strokes, *_ITEM, (*key, Use.STROKES)) + _TREMOR * tremor
    turn, shear, wide, high, right, down = np.moveaxis(bell(6, *key, Use.AFFINE), 1, 0)[..., None, None]
    turn = _TURN * turn  # half the tangent of the angle, so that no sine is needed
    cosine, sine = (1 - turn * turn) / (1 + turn * turn), 2 * turn / (1 + turn * turn)
    x = (1 + _STRETCH * wide) * (drawn[..., 0] + _SHEAR * shear * drawn[..., 1])
    y = (1 + _STRETCH * high) * drawn[..., 1]
    pen = 0.65 + 0.6 * uniform(1, *key, Use.PEN)
    pressure = bell(count * points, *key, Use.PRESSURE).reshape(-1, count, points)
    radius = pen[..., None] * np.maximum(1 + 0.22 * pressure, 0.45)
    place = SIZE / 2
    control = np.stack(
        [
            place + 8.6 * (cosine * x - sine * y) + _SHIFT * right,
            place + 8.6 * (sine * x + cosine * y) + _SHIFT * down,
            radius,
        ],
        axis=-1,
    )
    return smooth(control), pen[:, 0]


def smooth(control: Float[np.ndarray, "items S 5 3"]) -> Float[np.ndarray, "items S 13 3"]:
    """A Catmull-Rom curve through the control points, as short line segments."""
    before = np.concatenate([control[:, :, :1], control[:, :, :-2]], axis=2)[:, :, :, None]
    start, end = control[:, :, :-1, None], control[:, :, 1:, None]
    after = np.concatenate([control[:, :, 2:], control[:, :, -1:]], axis=2)[:, :, :, None]
    t = (np.arange(_STEPS) / _STEPS)[:, None]
    curve = start + 0.5 * t * (
        (end - before)
        + t * ((2 * before - 5 * start + 4 * end - after) + t * (3 * (start - end) + after - before))
    )
    return np.concatenate([curve.reshape(*control.shape[:2], -1, 3), control[:, :, -1:]], axis=2)


def distance(path: Float[np.ndarray, "items S 13 3"]) -> Float[np.ndarray, "items H W"]:
    """From each pixel to the nearest stroke, in radii of the pen there."""
    items = len(path)
    nearest = np.full((items, SIZE, SIZE), np.inf)
    along, across = np.empty_like(nearest), np.empty_like(nearest)
    pixel = np.arange(SIZE) + 0.5
    starts = path[:, :, :-1].reshape(items, -1, 3)
    ends = path[:, :, 1:].reshape(items, -1, 3)
    for a, b in zip(np.moveaxis(starts, 1, 0), np.moveaxis(ends, 1, 0), strict=True):
        radius = (a[:, 2:] + b[:, 2:]) * 0.5
        x, y = ((pixel - a[:, axis : axis + 1]) / radius for axis in (0, 1))
        dx, dy = ((b[:, axis : axis + 1] - a[:, axis : axis + 1]) / radius for axis in (0, 1))
        length = dx * dx + dy * dy + 1e-12
        np.add((x * (dx / length))[:, None, :], (y * (dy / length))[:, :, None], out=along)
        np.maximum(along, 0, out=along)
        np.minimum(along, 1, out=along)
        np.multiply(along, dy[:, :, None], out=across)
        np.subtract(y[:, :, None], across, out=across)
        np.multiply(across, across, out=across)
        np.multiply(along, dx[:, :, None], out=along)
        np.subtract(x[:, None, :], along, out=along)
        np.multiply(along, along, out=along)
        np.add(along, across, out=along)
        np.minimum(nearest, along, out=nearest)
    return np.sqrt(nearest)


def clouds(cells: int, *key: int | Int[np.ndarray, "items"]) -> Float[np.ndarray, "items H W"]:
    """Smooth noise from 0 to 1: random values on a lattice of `cells` a side, blended between."""
    values = uniform((cells + 1) * (cells + 1), *key).reshape(-1, cells + 1, cells + 1)
    position = (np.arange(SIZE) + 0.5) * cells / SIZE
    cell = np.floor(position).astype(np.int64)
    part = position - cell
    part = part * part * (3 - 2 * part)
    rows = values[:, cell] + part[:, None] * (values[:, cell + 1] - values[:, cell])
    return rows[:, :, cell] + part * (rows[:, :, cell + 1] - rows[:, :, cell])


def render(
    strokes: Float[np.ndarray, "S 5 2"], seed: int, number: int, domain: int, items: Int[np.ndarray, "items"]
) -> UInt8[np.ndarray, "items H W 3"]:
    """The pictures of some items of class `number`: each a function of its own key alone."""
    key = (seed, number, domain, items)
    path, pen = write(strokes, key)
    style = (ink, chalk)[domain]
    return style(distance(path), pen[:, None, None], key)


def ink(ratio, pen, key):
    grain = uniform(SIZE * SIZE, *key, Use.GRAIN).reshape(-1, SIZE, SIZE)
    tone = clouds(3, *key, Use.CLOUDS)
    draw = uniform(12, *key, Use.COLOUR)[..., None, None]
    cover = np.clip((1 - ratio) * pen / 0.9 + 0.5, 0, 1) * (0.72 + 0.28 * draw[:, 0]) * (0.85 + 0.15 * tone)
    light = 0.80 + 0.18 * draw[:, 1] + 0.10 * (tone - 0.5) + 0.05 * (grain - 0.5)
    warmth = 0.4 + 0.6 * draw[:, 2]
    paper = (light, light * (1 - 0.05 * warmth), light * (1 - 0.17 * warmth))
    # ink goes from black over blue to brown
    hue = draw[:, 3]
    dark = 0.05 + 0.15 * draw[:, 4]
    colour = (
        dark + 0.25 * np.maximum(hue - 0.6, 0) / 0.4,
        dark + 0.05 * draw[:, 5],
        dark + 0.45 * np.maximum(0.6 - hue, 0) / 0.6,
    )
    return to_bytes(paper, colour, cover)


def chalk(ratio, pen, key):
    grain = uniform(SIZE * SIZE, *key, Use.GRAIN).reshape(-1, SIZE, SIZE)
    smear = clouds(4, *key, Use.CLOUDS)
    fine = clouds(16, *key, Use.LIGHT)
    draw = uniform(12, *key, Use.COLOUR)[..., None, None]
    edge = np.clip((1 - ratio) * pen / 1.6 + 0.6, 0, 1)
    tooth = np.clip(1.5 * edge - 0.9 * fine * (0.5 + 0.5 * draw[:, 0]) - 0.35 * grain, 0, 1)
    cover = np.minimum(tooth * (0.75 + 0.25 * draw[:, 1]), 1)
    dusty = 0.10 + 0.10 * draw[:, 2] + 0.16 * smear * (0.4 + 0.6 * draw[:, 3]) + 0.07 * (fine - 0.5) + 0.06 * (grain - 0.5)
    green = draw[:, 4]
    board = (dusty, dusty + 0.10 * green, dusty + 0.05 * green + 0.04 * (1 - green))
    bright = 0.82 + 0.16 * draw[:, 5]
    colour = tuple(bright * (1 - 0.3 * draw[:, 6 + c] * draw[:, 9]) for c in range(3))
    return to_bytes(board, colour, cover)


def to_bytes(ground, colour, cover):
    out = np.empty((*cover.shape, 3), np.uint8)
    for c in range(3):
        v = ground[c] + (colour[c] - ground[c]) * cover
        out[..., c] = np.floor(np.clip(v, 0, 1) * 255 + 0.5)
    return out
