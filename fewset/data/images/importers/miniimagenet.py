"""miniImageNet as it is passed on: image files with tables, or one of two kinds of pickled arrays.

- `images/*.jpg` beside `split/{train,val,test}.csv` (`filename,label`)
- `mini-imagenet-cache-{train,val,test}.pkl`: `image_data` and `class_dict` (class to numbers of images)
- `miniImageNet_category_split_{train_phase_train,val,test}.pickle`: `data`, `labels` and `catname2label`

The arrays hold copies of 84 pixels. Their images are all in memory during the import: 1.3 GB.
"""

from functools import partial
from typing import Any

from fewset.core.errors import UserError
from fewset.data.images.decoding import as_images
from fewset.data.images.importers import Entry, register_importer
from fewset.data.images.importers.csv import read_tables
from fewset.data.images.pickles import NAME, NUMBER, array_of, flat_list, read_dictionary
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
    for files, read in ((_CACHES, _read_cache), (_CATEGORIES, _read_categories)):
        root = source.folder_of(*files)
        if root is not None:
            return [
                entry
                for split, file in zip(SPLITS, files, strict=True)
                for entry in read(source, str(root / file), split)
            ]
    raise UserError(
        f"{source.path} is not laid out as miniImageNet: expected images/ and {', '.join(_TABLES)}, or "
        f"{', '.join(_CACHES)}, or {', '.join(_CATEGORIES)}, with or without a folder around them; other "
        "tables import as csv"
    )


def _read_cache(source: Source, file: str, split: str) -> list[Entry]:
    content = read_dictionary(source, file, "image_data", "class_dict")
    where = f"{file} in {source.path}"
    if not isinstance(content["class_dict"], dict):
        raise UserError(f"{where}: 'class_dict' is no dictionary")
    names = [
        (int(number), str(name))
        for name, numbers in content["class_dict"].items()
        for number in flat_list(numbers, NUMBER, f"{where}: 'class_dict' of {name!r}")
    ]
    return _listed(source, file, split, content["image_data"], names)


def _read_categories(source: Source, file: str, split: str) -> list[Entry]:
    content = read_dictionary(source, file, "data", "labels")
    where, labels = f"{file} in {source.path}", content.get("catname2label", {})
    if not isinstance(labels, dict):
        raise UserError(f"{where}: 'catname2label' is no dictionary")
    numbers = flat_list(list(labels.values()), NUMBER, f"{where}: 'catname2label'")
    known = dict(zip(numbers, map(str, labels), strict=True))
    names = [
        (number, known.get(label, f"{split}-{label}"))
        for number, label in enumerate(flat_list(content["labels"], NAME, f"{where}: 'labels'"))
    ]
    return _listed(source, file, split, content["data"], names)


def _listed(source: Source, file: str, split: str, data: Any, names: list[tuple[int, str]]) -> list[Entry]:
    where = f"{file} in {source.path}"
    images = as_images(array_of(data, f"{where}: the array of images"), where)
    if sorted(number for number, _ in names) != list(range(len(images))):
        raise UserError(
            f"{file} in {source.path} has {len(images)} images and {len(names)} labels, expected one each"
        )
    return [
        Entry(f"{file}/{number:05}", name, split, read=partial(images.__getitem__, number))
        for number, name in names
    ]
