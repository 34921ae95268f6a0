"""CIFAR-FS and FC100, both made from CIFAR-100, as they are passed on: pickled arrays or image files.

- `CIFAR_FS_{train,val,test}.pickle` or `FC100_{train,val,test}.pickle`: `data` and `labels`
- `data/class/image` with the lists of classes `splits/bertinetto/{train,val,test}.txt` (CIFAR-FS)
- `train|val|test/class/image`
"""

from pathlib import PurePosixPath

from fewset.core.errors import UserError
from fewset.data.images.importers import Entry, folder, register_importer
from fewset.data.images.importers.miniimagenet import read_arrays
from fewset.data.images.sources import Source
from fewset.data.images.store import SPLITS

_LISTS = tuple(f"splits/bertinetto/{split}.txt" for split in SPLITS)


@register_importer("cifar-fs", size=32)
def cifar_fs(source: Source) -> list[Entry]:
    root = source.folder_of(*_LISTS)
    return _from_lists(source, root) if root is not None else _entries(source, "CIFAR_FS", "CIFAR-FS")


@register_importer("fc100", size=32)
def fc100(source: Source) -> list[Entry]:
    return _entries(source, "FC100", "FC100")


def _entries(source: Source, prefix: str, name: str) -> list[Entry]:
    files = [f"{prefix}_{split}.pickle" for split in SPLITS]
    root = source.folder_of(*files)
    if root is not None:
        return [
            entry
            for split, file in zip(SPLITS, files, strict=True)
            for entry in read_arrays(source, str(root / file), split)
        ]
    found = folder.entries(source)
    if not found or found[0].split is None:
        raise UserError(
            f"{source.path} does not have the layout of {name}: expected {', '.join(files)}, or "
            "train|val|test/class/image"
            + (f", or data/class/image with {', '.join(_LISTS)}" if prefix == "CIFAR_FS" else "")
        )
    return found


def _from_lists(source: Source, root: PurePosixPath) -> list[Entry]:
    splits = {
        name: split
        for split, file in zip(SPLITS, _LISTS, strict=True)
        for name in source.lines(str(root / file))
    }
    images = [PurePosixPath(file) for file in source.images()]
    found = [
        Entry(str(file), file.parent.name, splits[file.parent.name])
        for file in images
        if file.parent.parent == root / "data" and file.parent.name in splits
    ]
    missing = sorted(splits.keys() - {entry.class_name for entry in found})
    if missing:
        raise UserError(
            f"{source.path} has no folder of images in data/ for {', '.join(missing[:5])}; expected one for "
            f"each class in {', '.join(_LISTS)}"
        )
    return found
