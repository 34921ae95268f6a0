"""The embedded set `strokes`: alphabets of drawn characters, made by code, the same bytes everywhere.

An alphabet owns a few strokes, and its characters are different choices of them: they resemble each other.
An item is a character written once more, with other strokes, slant, size, place and pen. Every character is
written in two domains, with ink on paper and with chalk on a board.
"""

from enum import IntEnum
from itertools import combinations
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int, UInt8

from fewset.core.progress import progress
from fewset.data.images import drawing
from fewset.data.images.drawing import ALONG, BOW, SIZE, Key, Plane, Scalar
from fewset.data.images.store import SPLITS, write_store

ALPHABETS = {"train": 16, "val": 4, "test": 4}
CHARACTERS = 10  # of an alphabet
ITEMS = 40  # of a character, in each domain
DOMAINS = ("ink", "chalk")

# These make the set difficult: characters of an alphabet share few strokes and differ little, and each item
# differs much from its character. Lengths are parts of the character's half size.
_PRIMITIVES = 5
_OWN = (0.06, 0.1, 0.1)  # how far strokes are moved, swung and bent: from character to character
_ITEM = (0.19, 0.25, 0.25)  # and from item to item
_TREMOR, _TURN, _SHEAR, _STRETCH, _SHIFT = 0.03, 0.1, 0.17, 0.14, 0.13

_SCALE = 8.6  # pixels from the middle of a character to its edge
_SWAY = 10 * ALONG * (1 - ALONG) * (1 - 2 * ALONG)
_LATTICE = np.array([[x, y] for y in (-1.0, 0.0, 1.0) for x in (-0.8, 0.0, 0.8)])
_RING = np.array([[0.0, -1.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.1, -1.1]])

# The use of a random number, the first part of its key, so that no two uses share a number.
_Use = IntEnum(
    "_Use",
    "ROUNDNESS PRIMITIVE CHOICE OWN ITEM TREMOR AFFINE PEN PRESSURE COLOUR GRAIN MOTTLE CLOUDS",
)


def alphabet(seed: int, number: int) -> list[Float[np.ndarray, "S 5 2"]]:
    """The characters of an alphabet, each 2 to 4 strokes of 5 control points, in a box from -1 to 1."""
    owned = primitives(seed, number)
    choices = [choice for size in (2, 3, 4) for choice in combinations(owned, size)]
    order = np.argsort(drawing.uniform(len(choices), _Use.CHOICE, seed, number), kind="stable")
    characters = []
    for place in range(CHARACTERS):
        strokes = vary(np.stack(choices[order[place]]), _OWN, _Use.OWN, seed, number, place)[0]
        low, high = strokes.min(axis=(0, 1)), strokes.max(axis=(0, 1))
        characters.append((strokes - (low + high) / 2) / np.maximum((high - low) / 2, 0.5))
    return characters


def primitives(seed: int, number: int) -> list[Float[np.ndarray, "5 2"]]:
    """The strokes of an alphabet: bows between two points of a 3 x 3 lattice, now and then a ring at one."""
    roundness = 0.1 + 0.3 * drawing.uniform(1, _Use.ROUNDNESS, seed, number)
    strokes = []
    for place in range(_PRIMITIVES):
        kind, start, step, bow, sway, size = drawing.uniform(6, _Use.PRIMITIVE, seed, number, place)
        first = int(9 * start)
        if kind < 0.15:
            strokes.append(0.6 * _LATTICE[first] + (0.3 + 0.25 * size) * _RING)
            continue
        along = _LATTICE[(first + 1 + int(8 * step)) % 9] - _LATTICE[first]
        across = along[::-1] * np.array([-1, 1])
        lean = roundness * ((4 * bow - 2) * BOW + (1.6 * sway - 0.8) * _SWAY)
        strokes.append(_LATTICE[first] + ALONG * along + lean * across)
    return strokes


def vary(
    strokes: Float[np.ndarray, "S 5 2"], amounts: tuple[float, float, float], use: _Use, *key: Key
) -> Float[np.ndarray, "items S 5 2"]:
    """Each stroke moved, its ends swung apart, its middle bent: smooth changes, as a hand makes them."""
    moved, swung, bent = amounts
    random = drawing.bell(6 * len(strokes), use, *key).reshape(-1, len(strokes), 3, 1, 2)
    change = moved * random[:, :, 0] + swung * random[:, :, 1] * (2 * ALONG - 1)
    return strokes + change + bent * random[:, :, 2] * (BOW - 0.5)


def render(
    character: Float[np.ndarray, "S 5 2"],
    domain: str,
    seed: int,
    label: int,
    items: Int[np.ndarray, " items"],
) -> UInt8[np.ndarray, "items H W 3"]:
    """Pictures of a character. Each depends on its own index alone, not on the others."""
    key = (seed, label, DOMAINS.index(domain), items)
    pen = 0.65 + 0.6 * drawing.columns(drawing.uniform(1, _Use.PEN, *key))[0]
    ratio = drawing.distance(drawing.smooth(write(character, pen, *key)))
    return (ink if domain == "ink" else chalk)(ratio, pen, *key)


def write(character: Float[np.ndarray, "S 5 2"], pen: Scalar, *key: Key) -> Float[np.ndarray, "items S 5 3"]:
    """The control points of a character as it is written each time: x, y and radius of the pen, in pixels."""
    shape = (-1, *character.shape)
    tremor = drawing.bell(character.size, _Use.TREMOR, *key).reshape(shape)
    drawn = vary(character, _ITEM, _Use.ITEM, *key) + _TREMOR * tremor
    turn, shear, wide, high, right, down = drawing.columns(drawing.bell(6, _Use.AFFINE, *key))
    x = (1 + _STRETCH * wide) * (drawn[..., 0] + _SHEAR * shear * drawn[..., 1])
    y = (1 + _STRETCH * high) * drawn[..., 1]
    half = _TURN * turn  # the tangent of half the angle gives the rotation without a sine
    cosine, sine = (1 - half * half) / (1 + half * half), 2 * half / (1 + half * half)
    pressure = drawing.bell(character.size // 2, _Use.PRESSURE, *key).reshape(shape[:-1])
    return np.stack(
        [
            SIZE / 2 + _SCALE * (cosine * x - sine * y + _SHIFT * right),
            SIZE / 2 + _SCALE * (sine * x + cosine * y + _SHIFT * down),
            pen * np.maximum(1 + 0.22 * pressure, 0.45),
        ],
        axis=-1,
    )


def ink(ratio: Plane, pen: Scalar, *key: Key) -> UInt8[np.ndarray, "items H W 3"]:
    """Black, blue or brown ink on yellowish paper."""
    strength, light, warmth, hue, black, green = drawing.columns(drawing.uniform(6, _Use.COLOUR, *key))
    cloud = drawing.clouds(3, _Use.CLOUDS, *key)
    tone = 0.8 + 0.18 * light + 0.1 * (cloud - 0.5) + 0.05 * (drawing.grain(_Use.GRAIN, *key) - 0.5)
    paper = (tone, tone * (0.98 - 0.03 * warmth), tone * (0.93 - 0.1 * warmth))
    dark = 0.05 + 0.15 * black
    brown, blue = np.maximum(hue - 0.6, 0) / 0.4, np.maximum(0.6 - hue, 0) / 0.6
    colour = (dark + 0.25 * brown, dark + 0.05 * green, dark + 0.45 * blue)
    line = np.clip((1 - ratio) * pen / 0.9 + 0.5, 0, 1)
    return drawing.paint(paper, colour, line * (0.72 + 0.28 * strength) * (0.85 + 0.15 * cloud))


def chalk(ratio: Plane, pen: Scalar, *key: Key) -> UInt8[np.ndarray, "items H W 3"]:
    """White or tinted chalk, broken by the grain of a black or green board that was wiped before."""
    strength, rough, light, dust, green, bright, tint, *tints = drawing.columns(
        drawing.uniform(10, _Use.COLOUR, *key)
    )
    mottle, speckle = drawing.clouds(16, _Use.MOTTLE, *key), drawing.grain(_Use.GRAIN, *key)
    smear = 0.16 * drawing.clouds(4, _Use.CLOUDS, *key) * (0.4 + 0.6 * dust)
    tone = 0.1 + 0.1 * light + smear + 0.07 * (mottle - 0.5) + 0.06 * (speckle - 0.5)
    board = (tone, tone + 0.1 * green, tone + 0.04 + 0.01 * green)
    colour = tuple((0.82 + 0.16 * bright) * (1 - 0.3 * tint * each) for each in tints)
    line = np.clip((1 - ratio) * pen / 1.6 + 0.6, 0, 1)
    broken = np.clip(1.5 * line - 0.45 * (1 + rough) * mottle - 0.35 * speckle, 0, 1)
    return drawing.paint(board, colour, broken * (0.75 + 0.25 * strength))


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
