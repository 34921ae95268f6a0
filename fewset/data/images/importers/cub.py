"""Caltech-UCSD Birds 200-2011 as unpacked: four tables beside `images/`.

Each image is cut to the bounding box of its bird, as in the paper. The classes are split at random, or by
`split/{train,val,test}.csv` (`filename,label`) in or beside `CUB_200_2011/`: then only the listed images are
imported. A `filename` is the name of an image, which is unique in CUB, with or without a path.
"""

from pathlib import PurePosixPath

from fewset.core.errors import UserError
from fewset.data.images.decoding import Box
from fewset.data.images.importers import Entry, register_importer
from fewset.data.images.importers.csv import rows_of
from fewset.data.images.sources import Source
from fewset.data.images.store import SPLITS

_TABLES = ("images.txt", "image_class_labels.txt", "bounding_boxes.txt", "classes.txt")


@register_importer("cub", shares=(100, 50, 50))
def entries(source: Source) -> list[Entry]:
    root = source.folder_of(*_TABLES)
    if root is None:
        raise UserError(
            f"{source.path} is not in the layout of CUB_200_2011: expected {', '.join(_TABLES)} and images/"
        )
    names, labels, boxes, classes = (_table(source, str(root / table)) for table in _TABLES)
    files = set(source.files)
    found = []
    for number, name in names.items():
        file = str(root / "images" / name)
        try:
            entry = Entry(file, classes[labels[number]], box=Box(*map(float, boxes[number].split())))
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"image {number} ({name}) of {source.path} has no class in {_TABLES[1]} and {_TABLES[3]}, or "
                f"no four numbers in {_TABLES[2]}; unpack the set again"
            ) from error
        if file not in files:
            raise UserError(f"{file} of {_TABLES[0]} is not in {source.path}; unpack the set again")
        found.append(entry)
    return _listed(source, root, found) or found


def _table(source: Source, file: str) -> dict[str, str]:
    """The rest of each line, by its first word."""
    words = (line.partition(" ") for line in source.lines(file))
    return {first: rest for first, _, rest in words}


def _listed(source: Source, root: PurePosixPath, found: list[Entry]) -> list[Entry]:
    """The images of the tables with their splits; none if there are no tables."""
    by_name = {PurePosixPath(entry.file).name: entry for entry in found}
    listed: dict[str, Entry] = {}
    folders = dict.fromkeys((root / "split", root.parent / "split"))
    for split, table in [(split, folder / f"{split}.csv") for split in SPLITS for folder in folders]:
        for line, name, _ in rows_of(source, str(table)) if str(table) in source.files else ():
            where = f"{table}, line {line} in {source.path}: {name}"
            entry = by_name.get(PurePosixPath(name.replace("\\", "/")).name)
            if entry is None:
                raise UserError(f"{where} is no image of {_TABLES[0]}; remove the line")
            other = listed.setdefault(entry.file, entry._replace(split=split))
            if other.split != split:
                raise UserError(f"{where} is for {other.split}, too; remove one of the lines")
    return list(listed.values())
