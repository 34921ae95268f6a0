"""tieredImageNet as it is distributed: pickled or zipped arrays of 84 pixels, or one folder for each class.

- `{train,val,test}_images_png.pkl`, a list of PNG files, or `{train,val,test}_images.npz`, an array `images`;
  with `{train,val,test}_labels.pkl`: `label_specific` and `label_specific_str`, or only `labels`; the 34
  categories, `label_general`, are groups of classes that are near each other
- `train|val|test/class/image`
- ImageNet's own `class/image` with the published lists of classes `train.csv`, `val.csv`, `test.csv` (the
  class in the first column, no header); other classes are left out

The npz arrays were written with OpenCV: blue comes first, so the channels are reversed here. At most two
splits are in memory at a time: about 9 GB of PNG files, 12 GB of arrays.
"""

import os
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import PurePosixPath
from threading import Lock
from typing import Any
from zipfile import ZipFile

import numpy as np

from fewset.core.errors import UserError
from fewset.data.images.decoding import as_images
from fewset.data.images.importers import Entry, folder, register_importer
from fewset.data.images.sources import Source
from fewset.data.images.store import SPLITS
from fewset.io.arrays import array_in

_MOST_PACKED = 1032  # bytes that one byte of a deflated file can stand for
_LISTS = tuple(f"{split}.csv" for split in SPLITS)
_PREFIXES = ("", "tiered-imagenet-")  # the second as on Zenodo

Load = Callable[[Source, str, int], Callable[[int], Any]]
"""Takes a file and the number of images in it, and returns a function from an index to the image."""


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
            f"{source.path} does not have the layout of tieredImageNet: expected "
            "{train,val,test}_images_png.pkl or _images.npz with {train,val,test}_labels.pkl, or "
            f"train|val|test/class/image, or class/image with the lists of classes {', '.join(_LISTS)}"
        )
    return found


def _from_arrays(
    source: Source, root: PurePosixPath, images: list[str], labels: list[str], load: Load
) -> list[Entry]:
    files = {split: str(root / file) for split, file in zip(SPLITS, images, strict=True)}
    classes = {
        split: _classes(source, str(root / file), split) for split, file in zip(SPLITS, labels, strict=True)
    }
    lock = Lock()

    @lru_cache(maxsize=2)  # where one split ends, threads may still read the previous one
    def images_of(split: str) -> Callable[[int], Any]:
        return load(source, files[split], len(classes[split]))

    def read(split: str, index: int) -> Any:
        with lock:
            images = images_of(split)
        return images(index)

    return [
        Entry(f"{files[split]}/{index:06}", name, split, group=group, read=partial(read, split, index))
        for split in SPLITS
        for index, (name, group) in enumerate(classes[split])
    ]


def _classes(source: Source, file: str, split: str) -> list[tuple[str, str | None]]:
    """The class of each image, and its category if the file has categories; each is in one split."""
    with source.unpickled(file) as content:
        if "label_specific" in content:
            names = [str(name) for name in content["label_specific_str"]]
            # Two classes of ImageNet are called crane.
            names = [
                name if names.count(name) == 1 else f"{name} {label}" for label, name in enumerate(names)
            ]
            labels = np.asarray(content["label_specific"])
            if labels.min(initial=0) < 0:
                raise ValueError("negative labels")
            classes = [names[label] for label in labels]
        else:
            classes = [f"{split}-{label}" for label in content["labels"]]
        if "label_general" not in content:
            return [(name, None) for name in classes]
        categories = [f"{split}-{category}" for category in content["label_general"]]
        return list(zip(classes, categories, strict=True))


def _load_files(source: Source, file: str, count: int) -> Callable[[int], bytes]:
    with source.unpickled(file) as images:
        _check_count(images, count)
        if not all(isinstance(image, np.ndarray) for image in images):
            raise TypeError("expected a list of arrays")
    return lambda index: images[index].tobytes()


def _load_array(source: Source, file: str, count: int) -> Callable[[int], np.ndarray]:
    with source.parsed(file) as opened, ZipFile(opened) as archive:
        size = opened.seek(0, os.SEEK_END)
        images = as_images(array_in(archive, "images", largest=_MOST_PACKED * size), file)
        _check_count(images, count)
    return lambda index: images[index, :, :, ::-1]


def _check_count(images: Sequence[Any] | np.ndarray, count: int) -> None:
    if len(images) != count:
        raise ValueError(f"{len(images)} images, expected {count}, one for each label")


def _from_lists(source: Source, root: PurePosixPath) -> list[Entry]:
    splits: dict[str, str] = {}
    for split, name in zip(SPLITS, _LISTS, strict=True):
        splits |= {line.split(",")[0].strip(): split for line in source.lines(str(root / name))}
    names = {file: PurePosixPath(file).parent.name for file in source.images()}
    found = [Entry(file, name, splits[name]) for file, name in names.items() if name in splits]
    missing = sorted(splits.keys() - {entry.class_name for entry in found})
    if missing:
        classes = f"{len(missing)} classes of {', '.join(_LISTS)}: {', '.join(missing[:5])}"
        raise UserError(f"{source.path} has no images of {classes}; expected a folder of each")
    return found
