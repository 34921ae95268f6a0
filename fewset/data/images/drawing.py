"""Random lines and colours, shared by the generated image sets.

The same bytes on every machine: a random number is a hash of its use, the seed and the item, and the
arithmetic is elementwise + - * / and square root on doubles, which IEEE 754 fixes to the last bit. There is
no floating-point sum over an axis, no matrix product, no sine or exponential: those differ between machines.
"""

from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int, UInt8

from fewset.core.randomness import hash_keys

SIZE = 32  # pixels a side
ALONG = np.arange(5)[:, None] / 4  # where the five control points of a stroke are between its ends
BOW = 4 * ALONG * (1 - ALONG)

_SEGMENTS = 3  # of a line between two control points

Key = int | Int[np.ndarray, "items"]
Plane = Float[np.ndarray, "items H W"]
Scalar = Float[np.ndarray, "items 1 1"]


def uniform(count: int, use: int, *key: Key) -> Float[np.ndarray, "*keys {count}"]:
    """`count` numbers from 0 to 1 (excluded) for each key."""
    parts = [np.asarray(part)[..., None] for part in (use, *key)]
    return (hash_keys(*parts, np.arange(count)) >> np.uint64(11)) * 2.0**-53


def bell(count: int, use: int, *key: Key) -> Float[np.ndarray, "*keys {count}"]:
    """`count` numbers for each key, nearly normal: mean 0, deviation 1, none beyond 3."""
    drawn = uniform(3 * count, use, *key)
    total: Float[np.ndarray, "*keys {count}"] = drawn[..., 0::3] + drawn[..., 1::3] + drawn[..., 2::3]
    return (total - 1.5) * 2


def columns(drawn: Float[np.ndarray, "items count"]) -> Float[np.ndarray, "count items 1 1"]:
    """Random numbers of items, ready to be unpacked by name and broadcast over the items' planes."""
    return np.moveaxis(drawn, 1, 0)[..., None, None]


def smooth(control: Float[np.ndarray, "items S 5 3"]) -> Float[np.ndarray, "items S points 3"]:
    """A Catmull-Rom curve through the control points, as the corners of a line."""
    before = control[:, :, [0, 0, 1, 2], None]
    start, end = control[:, :, :-1, None], control[:, :, 1:, None]
    after = control[:, :, [2, 3, 4, 4], None]
    t = np.arange(_SEGMENTS)[:, None] / _SEGMENTS
    cubic = t * (3 * (start - end) + after - before)
    square = t * (2 * before - 5 * start + 4 * end - after + cubic)
    curve = start + 0.5 * t * (end - before + square)
    return np.concatenate([curve.reshape(*control.shape[:2], -1, 3), control[:, :, -1:]], axis=2)


def distance(path: Float[np.ndarray, "items S points 3"]) -> Plane:
    """From each pixel to the nearest stroke, in radii that the pen has there."""
    pixel = np.arange(SIZE) + 0.5
    nearest = np.full((len(path), SIZE, SIZE), np.inf)
    along, aside = np.empty_like(nearest), np.empty_like(nearest)
    for stroke in np.moveaxis(path, 0, -1)[..., None]:
        for (x, y, radius), (next_x, next_y, next_radius) in pairwise(stroke):
            unit = 0.5 * (radius + next_radius)
            from_x, from_y = (pixel - x) / unit, (pixel - y) / unit
            dx, dy = (next_x - x) / unit, (next_y - y) / unit
            length = dx * dx + dy * dy + 1e-12
            # In place, for this is where the time goes: `along`, where on the segment the nearest point is,
            # then the squared distance from there.
            np.add((from_x * (dx / length))[:, None], (from_y * (dy / length))[:, :, None], out=along)
            np.maximum(along, 0, out=along)
            np.minimum(along, 1, out=along)
            np.multiply(along, dy[:, None], out=aside)
            np.subtract(from_y[:, :, None], aside, out=aside)
            np.multiply(aside, aside, out=aside)
            np.multiply(along, dx[:, None], out=along)
            np.subtract(from_x[:, None], along, out=along)
            np.multiply(along, along, out=along)
            np.add(along, aside, out=along)
            np.minimum(nearest, along, out=nearest)
    np.sqrt(nearest, out=nearest)
    return nearest


def grain(use: int, *key: Key) -> Plane:
    """A random number from 0 to 1 for each pixel."""
    return uniform(SIZE * SIZE, use, *key).reshape(-1, SIZE, SIZE)


def clouds(cells: int, use: int, *key: Key) -> Plane:
    """Smooth noise from 0 to 1: random numbers at the corners of `cells` x `cells`, blended between them."""
    corners = uniform((cells + 1) * (cells + 1), use, *key).reshape(-1, cells + 1, cells + 1)
    place = (np.arange(SIZE) + 0.5) * cells / SIZE
    cell = np.floor(place).astype(np.int64)
    part = place - cell
    part = part * part * (3 - 2 * part)
    rows = corners[:, cell] + part[:, None] * (corners[:, cell + 1] - corners[:, cell])
    blended: Plane = rows[:, :, cell] + part * (rows[:, :, cell + 1] - rows[:, :, cell])
    return blended


def paint(
    ground: tuple[Plane, ...], colour: tuple[Scalar, ...], cover: Plane
) -> UInt8[np.ndarray, "items H W 3"]:
    """The colour where it covers the ground, as bytes."""
    pixels = np.empty((*cover.shape, 3), dtype=np.uint8)
    for channel in range(3):
        mixed = ground[channel] + (colour[channel] - ground[channel]) * cover
        pixels[..., channel] = np.floor(np.clip(mixed, 0, 1) * 255 + 0.5)
    return pixels
