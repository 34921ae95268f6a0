"""The embedded image set: alphabets of hand-drawn-like characters, made by code, the same bytes everywhere.

An alphabet owns a few strokes, and its characters are different choices of them: they resemble each other.
An item is a character written once more, with other strokes, slant, size, place and pen. Every character is
written in two domains, with ink on paper and with chalk on a board.

The same bytes on every machine: a random number is a hash of its use, the seed and the item, and the
arithmetic is elementwise + - * / and square root on doubles, which IEEE 754 fixes to the last bit. There is
no floating-point sum over an axis, no matrix product, no sine or exponential: those differ between machines.
"""

from enum import IntEnum
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int, UInt8

from fewset.data.images.store import SPLITS, write_store
from fewset.runtime.progress import progress
from fewset.tasks.hashing import hash_keys

SIZE = 32  # pixels a side
ALPHABETS = {"train": 16, "val": 4, "test": 4}
CHARACTERS = 10  # of an alphabet
ITEMS = 40  # of a character, in each domain
DOMAINS = ("ink", "chalk")

# What makes the set hard: few strokes that the characters of an alphabet share, little that is a character's
# own, and much that differs each time that it is written. Lengths are parts of the character's half size.
_PRIMITIVES = 5
_OWN = (0.06, 0.1, 0.1)  # how far strokes are moved, swung and bent: from character to character
_ITEM = (0.19, 0.25, 0.25)  # and from item to item
_TREMOR, _TURN, _SHEAR, _STRETCH, _SHIFT = 0.03, 0.1, 0.17, 0.14, 0.13

_SEGMENTS = 3  # of a line between two control points
_SCALE = 8.6  # pixels from the middle of a character to its edge
_ALONG = np.arange(5)[:, None] / 4  # where the five control points of a stroke are between its ends
_BOW = 4 * _ALONG * (1 - _ALONG)
_SWAY = 10 * _ALONG * (1 - _ALONG) * (1 - 2 * _ALONG)
_LATTICE = np.array([[x, y] for y in (-1.0, 0.0, 1.0) for x in (-0.8, 0.0, 0.8)])
_RING = np.array([[0.0, -1.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.1, -1.1]])

Key = int | Int[np.ndarray, "items"]
Plane = Float[np.ndarray, "items H W"]
Scalar = Float[np.ndarray, "items 1 1"]


# What a random number is for: the first part of its key, so that no two uses share a number.
Use = IntEnum(
    "Use",
    "ROUNDNESS PRIMITIVE CHOICE OWN ITEM TREMOR AFFINE PEN PRESSURE COLOUR GRAIN MOTTLE CLOUDS",
)


def uniform(count: int, use: Use, *key: Key) -> Float[np.ndarray, "*keys {count}"]:
    """`count` numbers from 0 to 1 (excluded) for each key."""
    parts = [np.asarray(part)[..., None] for part in (use, *key)]
    return (hash_keys(*parts, np.arange(count)) >> np.uint64(11)) * 2.0**-53


def bell(count: int, use: Use, *key: Key) -> Float[np.ndarray, "*keys {count}"]:
    """`count` numbers for each key, nearly normal: mean 0, deviation 1, none beyond 3."""
    drawn = uniform(3 * count, use, *key)
    total: Float[np.ndarray, "*keys {count}"] = drawn[..., 0::3] + drawn[..., 1::3] + drawn[..., 2::3]
    return (total - 1.5) * 2


def alphabet(seed: int, number: int) -> list[Float[np.ndarray, "S 5 2"]]:
    """The characters of an alphabet, each 2 to 4 strokes of 5 control points, in a box from -1 to 1."""
    owned = primitives(seed, number)
    choices = [choice for size in (2, 3, 4) for choice in combinations(owned, size)]
    order = np.argsort(uniform(len(choices), Use.CHOICE, seed, number), kind="stable")
    characters = []
    for place in range(CHARACTERS):
        strokes = vary(np.stack(choices[order[place]]), _OWN, Use.OWN, seed, number, place)[0]
        low, high = strokes.min(axis=(0, 1)), strokes.max(axis=(0, 1))
        characters.append((strokes - (low + high) / 2) / np.maximum((high - low) / 2, 0.5))
    return characters


def primitives(seed: int, number: int) -> list[Float[np.ndarray, "5 2"]]:
    """The strokes of an alphabet: bows between two points of a 3 x 3 lattice, now and then a ring at one."""
    roundness = 0.1 + 0.3 * uniform(1, Use.ROUNDNESS, seed, number)
    strokes = []
    for place in range(_PRIMITIVES):
        kind, start, step, bow, sway, size = uniform(6, Use.PRIMITIVE, seed, number, place)
        first = int(9 * start)
        if kind < 0.15:
            strokes.append(0.6 * _LATTICE[first] + (0.3 + 0.25 * size) * _RING)
            continue
        along = _LATTICE[(first + 1 + int(8 * step)) % 9] - _LATTICE[first]
        across = along[::-1] * np.array([-1, 1])
        lean = roundness * ((4 * bow - 2) * _BOW + (1.6 * sway - 0.8) * _SWAY)
        strokes.append(_LATTICE[first] + _ALONG * along + lean * across)
    return strokes


def vary(
    strokes: Float[np.ndarray, "S 5 2"], amounts: tuple[float, float, float], use: Use, *key: Key
) -> Float[np.ndarray, "items S 5 2"]:
    """Each stroke moved, its ends swung apart, its middle bent: smooth changes, as a hand makes them."""
    moved, swung, bent = amounts
    random = bell(6 * len(strokes), use, *key).reshape(-1, len(strokes), 3, 1, 2)
    change = moved * random[:, :, 0] + swung * random[:, :, 1] * (2 * _ALONG - 1)
    return strokes + change + bent * random[:, :, 2] * (_BOW - 0.5)


def render(
    character: Float[np.ndarray, "S 5 2"], domain: str, seed: int, label: int, items: Int[np.ndarray, "items"]
) -> UInt8[np.ndarray, "items H W 3"]:
    """Pictures of a character. Each depends on its own number alone, not on those rendered beside it."""
    key = (seed, label, DOMAINS.index(domain), items)
    pen = 0.65 + 0.6 * columns(uniform(1, Use.PEN, *key))[0]
    ratio = distance(smooth(write(character, pen, *key)))
    return (ink if domain == "ink" else chalk)(ratio, pen, *key)


def columns(drawn: Float[np.ndarray, "items count"]) -> Float[np.ndarray, "count items 1 1"]:
    """Random numbers of items, ready to be unpacked by name and broadcast over the items' planes."""
    return np.moveaxis(drawn, 1, 0)[..., None, None]


def write(character: Float[np.ndarray, "S 5 2"], pen: Scalar, *key: Key) -> Float[np.ndarray, "items S 5 3"]:
    """The control points of a character as it is written each time: x, y and radius of the pen, in pixels."""
    shape = (-1, *character.shape)
    tremor = bell(character.size, Use.TREMOR, *key).reshape(shape)
    drawn = vary(character, _ITEM, Use.ITEM, *key) + _TREMOR * tremor
    turn, shear, wide, high, right, down = columns(bell(6, Use.AFFINE, *key))
    x = (1 + _STRETCH * wide) * (drawn[..., 0] + _SHEAR * shear * drawn[..., 1])
    y = (1 + _STRETCH * high) * drawn[..., 1]
    half = _TURN * turn  # the tangent of half the angle gives the rotation without a sine
    cosine, sine = (1 - half * half) / (1 + half * half), 2 * half / (1 + half * half)
    pressure = bell(character.size // 2, Use.PRESSURE, *key).reshape(shape[:-1])
    return np.stack(
        [
            SIZE / 2 + _SCALE * (cosine * x - sine * y + _SHIFT * right),
            SIZE / 2 + _SCALE * (sine * x + cosine * y + _SHIFT * down),
            pen * np.maximum(1 + 0.22 * pressure, 0.45),
        ],
        axis=-1,
    )


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


def ink(ratio: Plane, pen: Scalar, *key: Key) -> UInt8[np.ndarray, "items H W 3"]:
    """Black, blue or brown ink on yellowish paper."""
    strength, light, warmth, hue, black, green = columns(uniform(6, Use.COLOUR, *key))
    cloud = clouds(3, Use.CLOUDS, *key)
    tone = 0.8 + 0.18 * light + 0.1 * (cloud - 0.5) + 0.05 * (grain(*key) - 0.5)
    paper = (tone, tone * (0.98 - 0.03 * warmth), tone * (0.93 - 0.1 * warmth))
    dark = 0.05 + 0.15 * black
    brown, blue = np.maximum(hue - 0.6, 0) / 0.4, np.maximum(0.6 - hue, 0) / 0.6
    colour = (dark + 0.25 * brown, dark + 0.05 * green, dark + 0.45 * blue)
    line = np.clip((1 - ratio) * pen / 0.9 + 0.5, 0, 1)
    return paint(paper, colour, line * (0.72 + 0.28 * strength) * (0.85 + 0.15 * cloud))


def chalk(ratio: Plane, pen: Scalar, *key: Key) -> UInt8[np.ndarray, "items H W 3"]:
    """White or tinted chalk, broken by the grain of a black or green board that was wiped before."""
    strength, rough, light, dust, green, bright, tint, *tints = columns(uniform(10, Use.COLOUR, *key))
    mottle, speckle = clouds(16, Use.MOTTLE, *key), grain(*key)
    smear = 0.16 * clouds(4, Use.CLOUDS, *key) * (0.4 + 0.6 * dust)
    tone = 0.1 + 0.1 * light + smear + 0.07 * (mottle - 0.5) + 0.06 * (speckle - 0.5)
    board = (tone, tone + 0.1 * green, tone + 0.04 + 0.01 * green)
    colour = tuple((0.82 + 0.16 * bright) * (1 - 0.3 * tint * each) for each in tints)
    line = np.clip((1 - ratio) * pen / 1.6 + 0.6, 0, 1)
    broken = np.clip(1.5 * line - 0.45 * (1 + rough) * mottle - 0.35 * speckle, 0, 1)
    return paint(board, colour, broken * (0.75 + 0.25 * strength))


def grain(*key: Key) -> Plane:
    """A random number from 0 to 1 for each pixel."""
    return uniform(SIZE * SIZE, Use.GRAIN, *key).reshape(-1, SIZE, SIZE)


def clouds(cells: int, use: Use, *key: Key) -> Plane:
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


def write_strokes(path: Path, seed: int = 0) -> None:
    """Render the whole set into a store at `path`: 240 classes, 19,200 images, some seconds."""
    classes = sum(ALPHABETS.values()) * CHARACTERS
    labels, domains, items = np.indices((classes, len(DOMAINS), ITEMS)).reshape(3, -1)
    splits = np.repeat(np.arange(len(SPLITS)), [ALPHABETS[split] for split in SPLITS])
    with (
        write_store(
            path,
            size=SIZE,
            labels=labels,
            class_names=[f"alphabet{n // CHARACTERS:02}-character{n % CHARACTERS}" for n in range(classes)],
            splits=splits[labels // CHARACTERS],
            domains=domains,
            domain_names=DOMAINS,
            source=f"generated by fewset.data.images.strokes with seed {seed}",
        ) as draft,
        progress("strokes", classes) as advance,
    ):
        for number in range(classes // CHARACTERS):
            for place, character in enumerate(alphabet(seed, number)):
                label = number * CHARACTERS + place
                for domain, name in enumerate(DOMAINS):
                    rows = (labels == label) & (domains == domain)
                    draft.images[rows] = render(character, name, seed, label, items[rows])
                advance()
