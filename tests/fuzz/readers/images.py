"""Photos: JPEG with EXIF data, PNG, WebP, GIF, TIFF, BMP, HEIC and AVIF."""

import io
from functools import cache
from random import Random

from PIL import Image

from tests.fuzz.case import FUZZED, Case, command, reader
from tests.fuzz.room import Room
from tests.helpers.containers import changed_jpeg, changed_png
from tests.helpers.damage import damaged
from tests.helpers.photos import CLASSES, photo

_FORMATS = "JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "HEIF", "AVIF"


@cache
def photos() -> dict[str, bytes]:
    """A photo in each format that can be written here; the suffix of a file is its format."""
    import pillow_heif

    pillow_heif.register_heif_opener()
    exif = Image.Exif()
    exif[0x0112] = 6  # turned
    found = {}
    for kind in _FORMATS:
        buffer, image = io.BytesIO(), photo("grass", 0)
        options = {"save_all": True, "append_images": [photo("brick", 0)]} if kind == "GIF" else {}
        image.save(buffer, kind, exif=exif, **options) if kind != "BMP" else image.save(buffer, kind)
        found[kind] = buffer.getvalue()
    return found


def damaged_photo(rng: Random) -> tuple[str, bytes]:
    """A suffix, mostly the right one, and the bytes."""
    kind = rng.choice(_FORMATS)
    data = photos()[kind]
    if rng.random() < 0.5 and kind in ("JPEG", "PNG"):
        data = changed_jpeg(data, rng) if kind == "JPEG" else changed_png(data, rng)
    else:
        data = damaged(data, rng)
    shown = rng.choice(_FORMATS) if rng.random() < 0.1 else kind
    return {"JPEG": "jpg", "TIFF": "tif", "HEIF": "heic"}.get(shown, shown.lower()), data


@reader("images")
def images(room: Room, rng: Random) -> Case:
    folder = room.work / "photos"
    for label in CLASSES:
        (folder / label).mkdir(parents=True)
        photo(label, 1).save(folder / label / "1.png")
    suffix, data = damaged_photo(rng)
    bad = folder / "grass" / f"0.{suffix}"
    bad.write_bytes(data)
    tiny = "--encoder", "tiny", "--plugin", room.plugin
    skip = ["--skip-bad"] if rng.random() < 0.5 else []
    return rng.choice(
        (
            command("data", "import", "folder", folder, "--name", "fuzzed", "--size", 16, *skip, owns=FUZZED),
            command("predict", room.classifier, bad, *tiny),
            command("fit", folder, "-o", "out.fewset", *tiny),
        )
    )
