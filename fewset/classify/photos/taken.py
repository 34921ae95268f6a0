"""When a photo was taken and with which camera, from its EXIF data."""

from datetime import datetime
from typing import NamedTuple

from PIL import ExifTags, Image

_LONGEST_CAMERA = 100
_TIMES = (ExifTags.Base.DateTimeOriginal, ExifTags.Base.DateTimeDigitized)


class Taken(NamedTuple):
    """The time and the camera of a photo; the camera may be unknown ("")."""

    time: datetime
    camera: str


def time_and_camera(image: Image.Image) -> str:
    """The time and the camera of a decoded photo, such as "2024-05-13 14:22:33 Canon EOS 80D".

    It is "" for a photo without the time. The time of the last change does not count: an editor that exports
    a whole folder gives all photos the same.
    """
    try:
        exif = image.getexif()
        details = exif.get_ifd(ExifTags.IFD.Exif)
        stated = next((details[tag] for tag in _TIMES if tag in details), "")
        time = datetime.strptime(str(stated)[:19], "%Y:%m:%d %H:%M:%S")
        parts = exif.get(ExifTags.Base.Make), exif.get(ExifTags.Base.Model), details.get(_SERIAL)
    except Exception:
        return ""
    camera = " ".join("".join(filter(str.isprintable, str(part))).strip() for part in parts if part)
    return f"{time} {camera}"[: 20 + _LONGEST_CAMERA].strip()


_SERIAL = ExifTags.Base.BodySerialNumber


def parsed(text: str) -> Taken | None:
    """The time and camera in a text of `time_and_camera`; None where there is none."""
    try:
        return Taken(datetime.fromisoformat(text[:19]), text[20:])
    except ValueError:
        return None
