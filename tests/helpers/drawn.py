"""Drawn photos of fruit, for the page: the same on every machine, and free to publish."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

_SIZE = 640  # drawn large and made small, which smooths the edges
Thing = Callable[[ImageDraw.ImageDraw], None]


def apple(draw: ImageDraw.ImageDraw) -> None:
    draw.ellipse((170, 200, 345, 480), fill=(200, 40, 40))
    draw.ellipse((295, 200, 470, 480), fill=(200, 40, 40))
    draw.line((320, 225, 335, 130), fill=(92, 58, 30), width=16)
    draw.polygon([(335, 160), (430, 110), (390, 190)], fill=(60, 140, 50))


def banana(draw: ImageDraw.ImageDraw) -> None:
    draw.chord((120, 60, 540, 500), 10, 170, fill=(245, 210, 60))
    draw.ellipse((90, -120, 570, 345), fill=(0, 0, 0, 0))  # cut out
    draw.polygon([(118, 270), (150, 262), (160, 330), (128, 330)], fill=(90, 70, 30))


def pear(draw: ImageDraw.ImageDraw) -> None:
    draw.ellipse((190, 270, 450, 530), fill=(160, 200, 70))
    draw.ellipse((245, 140, 395, 380), fill=(160, 200, 70))
    draw.line((320, 150, 345, 70), fill=(92, 58, 30), width=16)


def carrot(draw: ImageDraw.ImageDraw) -> None:
    draw.polygon([(250, 190), (390, 190), (325, 560)], fill=(240, 115, 30))
    for end in (220, 270, 320, 370, 420):
        draw.line((320, 195, end, 70), fill=(70, 150, 60), width=18)


FRUIT: dict[str, Thing] = {"apple": apple, "banana": banana, "pear": pear}
NONE = carrot
"""A thing that is none of these."""


def drawn(what: Thing, seed: int, size: int = 320) -> Image.Image:
    """One such thing on a table, turned and moved a little each time."""
    generator = np.random.default_rng([seed, len(what.__name__), ord(what.__name__[0])])
    light = generator.integers(90, 225, (2, 1)) + generator.integers(-30, 30, (2, 3))
    wall, table = (tuple(int(part) for part in colour) for colour in light)
    scene = Image.new("RGB", (_SIZE, _SIZE), wall)
    ImageDraw.Draw(scene).rectangle((0, int(generator.integers(330, 480)), _SIZE, _SIZE), fill=table)
    for _ in range(int(generator.integers(0, 4))):  # other things stand around
        left, top, width, height = (
            int(part) for part in generator.integers((0, 0, 60, 60), (560, 560, 260, 260))
        )
        colour = tuple(int(part) for part in generator.integers(60, 230, 3))
        shape = ImageDraw.Draw(scene).ellipse if generator.random() < 0.5 else ImageDraw.Draw(scene).rectangle
        shape((left, top, left + width, top + height), fill=colour)
    layer = Image.new("RGBA", (_SIZE, _SIZE))
    what(ImageDraw.Draw(layer))
    layer = layer.rotate(float(generator.uniform(-50, 50)), Image.Resampling.BICUBIC)
    side = int(_SIZE * generator.uniform(0.6, 1.15))
    layer = layer.resize((side, side), Image.Resampling.LANCZOS)
    place = tuple(int(part) for part in generator.integers(-70, 80, 2) + (_SIZE - side) // 2)
    shadow = layer.getchannel("A").filter(ImageFilter.GaussianBlur(18)).point(lambda value: value // 3)
    scene.paste((40, 40, 40), (place[0] + 14, place[1] + 22), shadow)
    scene.paste(layer, place, layer)
    small = scene.resize((size, size), Image.Resampling.LANCZOS)
    noise = generator.normal(0, 6, (size, size, 3))
    return Image.fromarray(np.clip(np.asarray(small) + noise, 0, 255).astype(np.uint8))


def write_fruit(folder: Path, shots: int, first: int = 0) -> Path:
    """A folder with a folder a class."""
    for name, what in FRUIT.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(first, first + shots):
            drawn(what, number).save(folder / name / f"{name}-{number}.jpg", quality=92)
    return folder
