"""miniImageNet as it is passed on: image files with tables, or one of two kinds of pickled arrays.

- `images/*.jpg` beside `split/{train,val,test}.csv` (`filename,label`)
- `mini-imagenet-cache-{train,val,test}.pkl`: `image_data` and `class_dict` (class to indices of images)
- `miniImageNet_category_split_{train_phase_train,val,test}.pickle`: `data`, `labels` and `catname2label`

The arrays hold copies of 84 pixels. All images are in memory during the import: 1.3 GB.
"""

import operator
from functools import partial
from typing import Any

from fewset.core.errors import UserError
from fewset.data.images.decoding import as_images
from fewset.data.images.importers import Entry, register_importer
from fewset.data.images.importers.csv import read_tables
from fewset.data.images.sources import Source
from fewset.data.images.store import SPLITS

_TABLES = tuple(f"split/{split}.csv" for split in SPLITS)
_CACHES = tuple(f"mini-imagenet-cache-{split}.pkl" for split in SPLITS)
_CATEGORIES = tuple(
    f"miniImageNet_category_split_{part}.pickle" for part in ("train_phase_train", "val", "test")
)


@register_importer("miniimagenet")
def entries(source: Source) -> list[Entry]:
    root = source.folder_of(*_TABLES)
    if root is not None:
        return read_tables(source, root / "split", [root / "images"])
    for files, read in ((_CACHES, _read_cache), (_CATEGORIES, read_arrays)):
        root = source.folder_of(*files)
        if root is not None:
            return [
                entry
                for split, file in zip(SPLITS, files, strict=True)
                for entry in read(source, str(root / file), split)
            ]
    raise UserError(
        f"{source.path} does not have the layout of miniImageNet: expected images/ and {', '.join(_TABLES)}, "
        f"or {', '.join(_CACHES)}, or {', '.join(_CATEGORIES)}, with or without a folder around them; other "
        "tables import as csv"
    )


def _read_cache(source: Source, file: str, split: str) -> list[Entry]:
    with source.unpickled(file) as content:
        names = [
            (operator.index(each), str(name))
            for name, indices in content["class_dict"].items()
            for each in indices
        ]
        return _entries(file, split, content["image_data"], names)


def read_arrays(source: Source, file: str, split: str) -> list[Entry]:
    """The images of a pickle file with `data` and `labels`, and perhaps the names of the labels."""
    with source.unpickled(file) as content:
        name_of = {label: str(name) for name, label in content.get("catname2label", {}).items()}
        names = [
            (index, name_of.get(label, f"{split}-{label}")) for index, label in enumerate(content["labels"])
        ]
        return _entries(file, split, content["data"], names)


def _entries(file: str, split: str, data: Any, names: list[tuple[int, str]]) -> list[Entry]:
    images = as_images(data, file)
    if sorted(index for index, _ in names) != list(range(len(images))):
        raise ValueError(f"{len(images)} images and {len(names)} labels, expected one label for each image")
    return [
        Entry(f"{file}/{index:05}", name, split, read=partial(images.__getitem__, index))
        for index, name in names
    ]
