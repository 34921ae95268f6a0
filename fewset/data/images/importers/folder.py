"""One folder for each class: `class/image.jpg`, or `train|val|test/class/image.jpg` with any of the three.

Folders of such folders are groups of classes that are near each other: `group/class/image.jpg`, or
`train|val|test/group/class/image.jpg`.
"""

from pathlib import PurePosixPath

from fewset.core.errors import UserError
from fewset.data.images.importers import Entry, register_importer
from fewset.data.images.sources import Source
from fewset.data.images.store import SPLITS


@register_importer("folder")
def entries(source: Source) -> list[Entry]:
    """Other files are ignored, and so is one folder around everything, which zip files often have."""
    images = {file: PurePosixPath(file).parts for file in source.images()}
    tops = {parts[0] for parts in images.values()}
    if len(tops) == 1 and not tops & set(SPLITS) and all(len(parts) > 2 for parts in images.values()):
        images = {file: parts[1:] for file, parts in images.items()}

    with_splits = all(len(parts) > 2 and parts[0] in SPLITS for parts in images.values())
    usual = 3 if {len(parts) - with_splits for parts in images.values()} == {3} else 2
    group_of: dict[str, str | None] = {}
    entries = []
    for file, parts in images.items():
        if len(parts) - with_splits != usual:
            raise UserError(
                f"{file} in {source.path} does not fit the folder layout: expected every image as class/image"
                " or group/class/image, in train|val|test/ or without these; move or remove it"
            )
        name, group = parts[-2], parts[-3] if usual == 3 else None
        if group_of.setdefault(name, group) != group:
            groups = f"two groups, {group_of[name]!r} and {group!r}"
            raise UserError(f"the class {name!r} in {source.path} is in {groups}; rename one of them")
        entries.append(Entry(file, name, parts[0] if with_splits else None, group=group))
    return entries
