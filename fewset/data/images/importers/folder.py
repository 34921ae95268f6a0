"""A folder a class: `class/image.jpg`, or `train|val|test/class/image.jpg` with any of the three."""

from pathlib import PurePosixPath

from fewset.data.images.importers import Entry, register_importer
from fewset.data.images.sources import Source
from fewset.data.images.store import SPLITS
from fewset.runtime.errors import UserError


@register_importer("folder")
def entries(source: Source) -> list[Entry]:
    """Other files than images are ignored; so is one folder around all, as zip files often have it."""
    images = {file: PurePosixPath(file).parts for file in source.images()}
    tops = {parts[0] for parts in images.values()}
    if len(tops) == 1 and not tops & set(SPLITS) and all(len(parts) > 2 for parts in images.values()):
        images = {file: parts[1:] for file, parts in images.items()}

    with_splits = all(len(parts) == 3 and parts[0] in SPLITS for parts in images.values())
    if not with_splits:
        for file, parts in images.items():
            if len(parts) != 2:
                raise UserError(
                    f"{file} in {source.path} does not fit the folder layout: expected every image as "
                    "class/image, or every image as train|val|test/class/image; move or remove it"
                )
    return [Entry(file, parts[-2], parts[0] if with_splits else None) for file, parts in images.items()]
