"""Labelled photos: of folders, where the name of a folder is the class, of zip files, and of tables."""

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from os import PathLike, fspath
from pathlib import Path, PurePosixPath

from fewset.classify.photos.sources import Photo, listed_photo, named, warn_of_films
from fewset.classify.photos.tables import is_table, read_table
from fewset.core.errors import UserError, refuse_unknown
from fewset.data.images.decoding import SUFFIXES
from fewset.data.images.sources import Source, open_source, warn_of_left_out
from fewset.data.images.store import SPLITS

CLASSES_FROM = ("folder", "top", "path")
"""Which folder is the class of birds/owl/1.jpg: owl, birds, or birds/owl."""
_REMEDY = (
    'name the class of birds/owl/1.jpg: --classes-from folder (owl), top (birds) or path ("birds/owl"); in '
    "Python classes_from="
)
_EXPECTED = "expected a folder with a folder a class, a zip file of that, or a CSV file"


@contextmanager
def opened_classes(
    photos: str | PathLike[str], classes_from: str | None = None
) -> Iterator[tuple[Sequence[Photo], list[str]]]:
    """Photos and the class of each: of a folder or zip file with a folder a class, or of a CSV file.

    The innermost folders are the classes, whatever they are in, unless `classes_from` says otherwise.
    """
    path = Path(fspath(photos))
    if classes_from is not None:
        refuse_unknown("place of the classes", classes_from, CLASSES_FROM)
    if is_table(path):
        if classes_from is not None:
            raise UserError(f"{path} names the classes itself; leave out --classes-from (classes_from=)")
        yield _table(path)
        return
    if not path.exists():
        raise UserError(f"{path} does not exist; {_EXPECTED}")
    if path.is_file() and path.suffix.lower() in SUFFIXES:
        raise UserError(f"{path} is a photo without a label; {_EXPECTED}")
    with open_source(path) as source:
        found = labelled_files(source, classes_from)
        yield [Photo(file, partial(source.read, file)) for file in found], list(found.values())


def labelled_files(source: Source, classes_from: str | None = None) -> dict[str, str]:
    """The photos of a source with the class of each, and warnings about what is ignored."""
    places = {file: PurePosixPath(file).parts[:-1] for file in source.images()}
    warn_of_left_out(source)
    warn_of_films(source)
    if not places:
        raise UserError(
            f"there are no photos in {source.path}; expected a folder a class with files "
            f"{', '.join(SUFFIXES)} in it"
        )
    _warn_of_empty_folders(source, places)
    around = {place[:1] for place in places.values() if len(place) > 1}
    if not source.path.is_dir() and len(around) == 1 and all(len(place) > 1 for place in places.values()):
        places = {file: place[1:] for file, place in places.items()}  # zip files often have one around all
    loose = [file for file, place in places.items() if not place]
    if len(loose) == len(places):
        raise UserError(f"the photos in {source.path} are not in folders; {_EXPECTED}")
    if loose:
        warnings.warn(
            f"{source.path}: left out photos beside the folders of the classes: {named(loose)}", stacklevel=4
        )
    places = {file: place for file, place in places.items() if place}
    if classes_from is None:
        _check_unambiguous(source, set(places.values()))
    name = {"top": lambda place: place[0], "path": "/".join}.get(classes_from or "", lambda place: place[-1])
    return {file: name(place) for file, place in places.items()}


def _table(path: Path) -> tuple[list[Photo], list[str]]:
    """Several parts of one photo are one group, unless the table has groups: they are not independent."""
    rows = read_table(path, labelled=True)
    parts = Counter(row.file for row in rows if row.box)
    photos = []
    for row in rows:
        group = row.group or (str(row.file) if row.box and parts[row.file] > 1 else "")
        photos.append(listed_photo(row)._replace(group=group))
    return photos, [row.label for row in rows]


def _check_unambiguous(source: Source, places: set[tuple[str, ...]]) -> None:
    """Raise where the innermost folders are perhaps not the classes."""
    if all(place[0] in SPLITS and len(place) > 1 for place in places):
        raise UserError(
            f"{source.path} has splits, expected a folder a class; take one of them: "
            f"{source.path / min(places)[0]}"
        )
    known: dict[str, tuple[str, ...]] = {}
    for place in sorted(places):
        outer = next((place[:end] for end in range(1, len(place)) if place[:end] in places), None)
        if outer is not None:
            raise UserError(
                f"in {source.path} both {'/'.join(outer)} and {'/'.join(place)} have photos; {_REMEDY}"
            )
        same = known.setdefault(place[-1], place)
        if same != place:
            raise UserError(
                f"{source.path} has the folders {'/'.join(same)} and {'/'.join(place)}, whose names are "
                f"equal; {_REMEDY}"
            )


def _warn_of_empty_folders(source: Source, places: dict[str, tuple[str, ...]]) -> None:
    filled = {place[:end] for place in places.values() for end in range(len(place) + 1)}
    empty = [folder for folder in source.folders if PurePosixPath(folder).parts not in filled]
    outermost = [folder for folder in empty if PurePosixPath(folder).parts[:-1] in filled]
    if outermost:
        warnings.warn(f"{source.path}: folders without photos are ignored: {named(outermost)}", stacklevel=5)
