"""What is written or removed in a directory stays in it: links on the way could lead elsewhere."""

from pathlib import Path

from fewset.core.errors import UserError


def inside(directory: Path, part: str | Path) -> Path:
    """The path of a part of a directory, or an error where a link on the way to it leads elsewhere.

    The directory itself may be a link: whoever names it chooses where it is.
    """
    place = directory
    for name in Path(part).parts:
        place /= name
        if place.is_symlink():
            raise UserError(
                f"{place} is a link, and nothing outside {directory} is written or removed; put what it "
                "leads to in its place, or choose another directory"
            )
    return place
