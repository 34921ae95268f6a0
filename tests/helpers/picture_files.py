"""Small pictures as files in memory, and files in an archive."""

import io
import zipfile
from collections.abc import Mapping

from PIL import Image

from tests.helpers.photos import photo


def picture_files() -> dict[str, bytes]:
    """A small picture in every format that is read, an animation, and one that is turned by its EXIF."""
    found = {}
    for kind in ("JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP"):
        buffer = io.BytesIO()
        photo("grass", 1).save(buffer, kind)
        found[kind] = buffer.getvalue()
    frames = [photo("brick", seed) for seed in range(3)]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:])
    found["animation"] = buffer.getvalue()
    turned = Image.Exif()
    turned[0x0112] = 6
    buffer = io.BytesIO()
    photo("grass", 2).save(buffer, "JPEG", exif=turned)
    found["EXIF"] = buffer.getvalue()
    return found


def zip_file(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()
