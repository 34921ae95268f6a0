"""tieredImageNet as it is distributed: pickled or zipped arrays of 84 pixels, or a folder a class.

- `{train,val,test}_images_png.pkl`, a list of PNG files, or `{train,val,test}_images.npz`, an array `images`;
  with `{train,val,test}_labels.pkl`: `label_specific` and `label_specific_str`, or only `labels`; the 34
  categories, `label_general`, are groups of classes that are near each other
- `train|val|test/class/image`
- ImageNet's own `class/image` with the published lists of classes `train.csv`, `val.csv`, `test.csv` (the
  class in the first column, no head line); other classes are left out

The npz arrays were written with OpenCV: blue comes first, and is put in its place here. The images of two
splits at most are in memory at a time: about 9 GB of PNG files, 12 GB of arrays.
"""

import os
from collections.abc import Callable
from functools import lru_cache, partial
from io import BufferedIOBase
from pathlib import PurePosixPath
from threading import Lock
from typing import IO, Any
from zipfile import ZipFile

import numpy as np

from fewset.core.errors import UserError
from fewset.data.images.decoding import as_images
from fewset.data.images.importers import Entry, folder, register_importer
from fewset.data.images.pickles import NAME, NUMBER, array_of, flat_list, read_dictionary, read_pickle
from fewset.data.images.sources import Source
from fewset.data.images.store import SPLITS
from fewset.io.arrays import array_in

_MOST_PACKED = 1032  # bytes that one byte of a deflated file can stand for
_LISTS = tuple(f"{split}.csv" for split in SPLITS)
_PREFIXES = ("", "tiered-imagenet-")  # the second as on Zenodo

Load = Callable[[Source, str, int], Callable[[int], Any]]
"""Takes a file and the number of images in it, gives a function from an image's number to the image."""


@register_importer("tieredimagenet", size=84)
def entries(source: Source) -> list[Entry]:
    for ending, load in (("images_png.pkl", _load_files), ("images.npz", _load_array)):
        for prefix in _PREFIXES:
            images = [f"{prefix}{split}_{ending}" for split in SPLITS]
            labels = [f"{prefix}{split}_labels.pkl" for split in SPLITS]
            root = source.folder_of(*images, *labels)
            if root is not None:
                return _from_arrays(source, root, images, labels, load)
    root = source.folder_of(*_LISTS)
    if root is not None:
        return _from_lists(source, root)
    found = folder.entries(source)
    if not found or found[0].split is None:
        raise UserError(
            f"{source.path} is not laid out as tieredImageNet: expected {{train,val,test}}_images_png.pkl "
            "or _images.npz with {train,val,test}_labels.pkl, or train|val|test/class/image, or class/image "
            f"with the lists of classes {', '.join(_LISTS)}"
        )
    return found


def _from_arrays(
    source: Source, root: PurePosixPath, images: list[str], labels: list[str], load: Load
) -> list[Entry]:
    files = {split: str(root / file) for split, file in zip(SPLITS, images, strict=True)}
    label_files = {split: str(root / file) for split, file in zip(SPLITS, labels, strict=True)}
    names = {split: _class_names(source, file, split) for split, file in label_files.items()}
    groups = {split: _categories(source, file, split) for split, file in label_files.items()}
    lock = Lock()

    @lru_cache(maxsize=2)  # where one split ends, some threads are still at it
    def images_of(split: str) -> Callable[[int], Any]:
        return load(source, files[split], len(names[split]))

    def read(split: str, number: int) -> Any:
        with lock:
            images = images_of(split)
        return images(number)

    return [
        Entry(f"{files[split]}/{number:06}", name, split, group=group, read=partial(read, split, number))
        for split in SPLITS
        for number, (name, group) in enumerate(zip(names[split], groups[split], strict=True))
    ]


def _categories(source: Source, file: str, split: str) -> list[str | None]:
    """The category of each image's class, where the file has it; categories are in one split each."""
    content = read_dictionary(source, file)
    labels = content.get("label_specific", content.get("labels", ()))
    if "label_general" not in content:
        return [None] * len(labels)
    categories = flat_list(content["label_general"], NUMBER, f"{file} in {source.path}: 'label_general'")
    if len(categories) != len(labels):
        raise UserError(f"{file} in {source.path} has {len(categories)} categories and {len(labels)} labels")
    return [f"{split}-{category}" for category in categories]


def _class_names(source: Source, file: str, split: str) -> list[str]:
    """The name of the class of each image."""
    where, content = f"{file} in {source.path}", read_dictionary(source, file)
    if "label_specific" not in content:
        labels = read_dictionary(source, file, "labels")["labels"]
        return [f"{split}-{label}" for label in flat_list(labels, NAME, f"{where}: 'labels'")]
    names = read_dictionary(source, file, "label_specific_str")["label_specific_str"]
    names = [str(name) for name in flat_list(names, NAME, f"{where}: 'label_specific_str'")]
    # Two classes of ImageNet are called crane.
    names = [name if names.count(name) == 1 else f"{name} {number}" for number, name in enumerate(names)]
    labels = np.array(
        flat_list(content["label_specific"], NUMBER, f"{where}: 'label_specific'"), dtype=np.int64
    )
    if labels.min(initial=0) < 0 or labels.max(initial=0) >= len(names):
        raise UserError(
            f"{file} in {source.path} has labels {labels.min()} to {labels.max()} and {len(names)} names"
        )
    return [names[label] for label in labels]


def _load_files(source: Source, file: str, count: int) -> Callable[[int], bytes]:
    content = read_pickle(source, file)
    if not isinstance(content, list | np.ndarray):
        raise UserError(
            f"{file} in {source.path} is a {type(content).__name__}, expected a list of image files"
        )
    _check_count(source, file, len(content), count)
    return lambda number: array_of(content[number], f"image {number} of {file}").tobytes()


def _load_array(source: Source, file: str, count: int) -> Callable[[int], np.ndarray]:
    try:
        with source.open(file) as opened:
            content = _array_in(opened)
    except Exception as error:  # a damaged file makes NumPy raise almost anything
        raise UserError(
            f"{file} in {source.path} has no array 'images' that can be read: {error!r}"
        ) from error
    images = as_images(content, f"{file} in {source.path}")
    _check_count(source, file, len(images), count)
    return lambda number: images[number, :, :, ::-1]


def _array_in(file: BufferedIOBase | IO[bytes]) -> np.ndarray:
    """The array `images` of an opened .npz file, unless it claims more than such a file can hold."""
    size = file.seek(0, os.SEEK_END)
    with ZipFile(file) as archive:
        return array_in(archive, "images", largest=_MOST_PACKED * size)


def _check_count(source: Source, file: str, images: int, labels: int) -> None:
    if images != labels:
        raise UserError(f"{file} in {source.path} has {images} images, expected {labels} as there are labels")


def _from_lists(source: Source, root: PurePosixPath) -> list[Entry]:
    splits: dict[str, str] = {}
    for split, name in zip(SPLITS, _LISTS, strict=True):
        splits |= {line.split(",")[0].strip(): split for line in source.lines(str(root / name))}
    found = []
    for file in source.images():
        class_name = PurePosixPath(file).parent.name
        if class_name in splits:
            found.append(Entry(file, class_name, splits[class_name]))
    missing = sorted(splits.keys() - {entry.class_name for entry in found})
    if missing:
        raise UserError(
            f"{source.path} has no images of {len(missing)} classes of {', '.join(_LISTS)}: "
            f"{', '.join(missing[:5])}, …; expected a folder of each"
        )
    return found
