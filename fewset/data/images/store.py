"""An image set on disk: a directory with one memory-mapped array of images, a table of items and a manifest.

=================  ============================================================================
``images.npy``     uint8 (items, size, size, 3), opened as a memory map
``items.npy``      one row an item: label, split and, if the set has them, domain and origin
``manifest.json``  counts, class names, source, digest, format version
``nearness.json``  optional: which classes are near each other (`fewset data relate`)
=================  ============================================================================

A set is written completely or not at all (`write_store`) and opened read-only (`open_set`). Sets are in
`home() / "sets"`. The digest depends on the content alone, not on the name, path or time.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Int, Int64, UInt8

from fewset.core.errors import UserError, refuse_unknown
from fewset.core.names import plain_name
from fewset.data.images.nearness import Nearness, nearest_classes, read_nearness, write_nearness
from fewset.data.manifest import Layout, ManifestFields, SealedFile
from fewset.io.arrays import check_numbers, read_array
from fewset.io.files import replacing_directory
from fewset.io.locks import in_turn
from fewset.io.reading import open_file, regular_file
from fewset.tasks.items import Items

SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class _Counts:
    items: int
    classes: int


@dataclass(frozen=True)
class _SplitCounts:
    train: _Counts
    val: _Counts
    test: _Counts


@dataclass(frozen=True)
class _SourceSize:
    smallest: int
    median: int


@dataclass(frozen=True, kw_only=True)
class _Fields(ManifestFields):
    skipped: tuple[str, ...]
    source_size: _SourceSize | None = None
    size: int
    items: int
    counts: _SplitCounts
    class_names: tuple[str, ...]
    domain_names: tuple[str, ...]
    files: dict[Literal["images.npy", "items.npy"], SealedFile]


LAYOUT = Layout(
    "image set",
    folder="sets",
    format=1,
    content=("format", "size", "items", "counts", "class_names", "domain_names", "files"),
    fields=_Fields,
    generated=("families", "strokes"),
)
set_path, list_sets, available_sets = LAYOUT.path, LAYOUT.names, LAYOUT.available
_ROWS = 1024


@dataclass(frozen=True, eq=False, repr=False)
class ImageSet:
    """An opened set. All arrays have one row an item, in the same order, and must not be written to."""

    name: str
    path: Path
    images: UInt8[np.ndarray, "items size size 3"]
    labels: Int64[np.ndarray, " items"]
    """The class of each item, an index into `class_names`."""
    class_names: tuple[str, ...]
    splits: Int64[np.ndarray, " items"]
    """The split of each item, an index into `SPLITS`."""
    domains: Int64[np.ndarray, " items"] | None
    """The domain of each item, an index into `domain_names`."""
    domain_names: tuple[str, ...]
    origins: Int64[np.ndarray, " items"] | None
    """Items of two domains with the same origin (a photo and the sketches traced from it) must never be in
    one task. Items of one domain may."""
    digest: str
    manifest: dict[str, Any]
    nearness: Nearness | None = None

    def __repr__(self) -> str:
        items, size = self.images.shape[:2]
        return f"ImageSet({self.name!r}: {items} images of {size} x {size}, {len(self.class_names)} classes)"

    @property
    def size(self) -> int:
        """Pixels a side of each image as it is stored."""
        return int(self.images.shape[1])

    def select(self, split: str, domain: str | None = None) -> Items:
        """The items of a split, or of "all" splits, in all domains or in one."""
        refuse_unknown(f"split of {self.name!r}:", split, (*SPLITS, "all"))
        if domain is not None:
            refuse_unknown(f"domain of {self.name!r}:", domain, self.domain_names)
        chosen = np.ones(len(self.labels), dtype=bool)
        if split != "all":
            chosen &= self.splits == SPLITS.index(split)
        if domain is not None and self.domains is not None:
            chosen &= self.domains == self.domain_names.index(domain)
        rows = np.flatnonzero(chosen)
        if not len(rows):
            where = f"the split {split!r} of {self.name!r}" + (f" in the domain {domain!r}" if domain else "")
            counts = ", ".join(f"{name} {each['items']}" for name, each in self.manifest["counts"].items())
            raise UserError(f"{where} has no items; its splits: {counts}; import more classes")
        items = Items(rows, self.labels[rows], self.class_names, nearest=self.nearest)
        if domain is not None or self.origins is None or self.domains is None:
            return items  # origins only separate items of different domains
        return replace(items, origins=self.origins[rows], domains=self.domains[rows])

    @property
    def nearest(self) -> Int64[np.ndarray, "classes others"] | None:
        """The other classes of each class, nearest first, if `fewset data relate` has computed them."""
        return None if self.nearness is None else self.nearness.table

    def verify(self) -> None:
        """Read every byte and compare with the digest; opening trusts large files with an unchanged date."""
        LAYOUT.verify(self.path, self.manifest)


def open_set(name: str | Path) -> ImageSet:
    """Open an image set for reading. Its images are a memory map.

    The sets `families` and `strokes` need no import: code generates them when they are first opened.

    Args:
        name: The name of an imported set, or the path of its directory (anything with a path separator).

    Returns:
        The set.

    Raises:
        ValueError: There is no such set, or its files are truncated, edited or of an older version. The
            error has the command that imports it again.

    Example:
        >>> import fewset
        >>> fewset.open_set("strokes")  # doctest: +SKIP
        ImageSet('strokes': 19200 images of 32 x 32, 240 classes)
    """
    path = LAYOUT.find(name)
    if not path.exists():
        _generate(path)
    return LAYOUT.open(path, _build)


def _generate(path: Path) -> None:
    """Generate a set, or wait until another process has generated it."""
    from fewset.data.images import families, strokes

    write = {"families": families.write_families, "strokes": strokes.write_strokes}[path.name]
    with in_turn(path.with_name(f".{path.name}.lock")):
        if not path.exists():
            write(path)


@dataclass
class Draft:
    """A set that is being written."""

    images: UInt8[np.memmap, "items size size 3"]
    """To be filled, in any order, also by several threads."""
    skipped: dict[int, str] = field(default_factory=dict)
    """Rows to leave out of the finished set, each with a line for the manifest: which image, and why."""
    left_out: list[str] = field(default_factory=list)
    """Images of the source that have no row, one line each for the manifest."""
    source_size: dict[str, int] | None = None
    """For the manifest: the `smallest` and the `median` shorter side of the source images, in pixels."""


@contextmanager
def write_store(
    path: Path,
    *,
    size: int,
    labels: Int[np.ndarray, " items"],
    class_names: Sequence[str],
    splits: Int[np.ndarray, " items"],
    domains: Int[np.ndarray, " items"] | None = None,
    domain_names: Sequence[str] = (),
    origins: Int[np.ndarray, " items"] | None = None,
    groups: Sequence[str] | None = None,
    source: str,
    source_key: str = "",
    command: str | None = None,
) -> Iterator[Draft]:
    """Write a set: the block fills `images` of the draft, and the set appears at `path` when it ends.

    An error in the block leaves nothing behind. `source` and `source_key` are those of `Origin`; `command`
    imports the set again. `groups` has the group of each class: classes of one group are near each other.
    """
    for name in domain_names:
        plain_name(name, "the domain")  # files of results are named after it
    columns = {"label": labels, "split": splits, "domain": domains, "origin": origins}
    given = {name: column for name, column in columns.items() if column is not None}
    items = np.empty(len(labels), dtype=[(name, "<i8") for name in given])
    for name, column in given.items():
        items[name] = column

    with replacing_directory(path) as directory:
        draft = Draft(_create(directory / "images.npy", len(items), size))
        yield draft
        if draft.skipped:
            kept = np.setdiff1d(np.arange(len(items)), list(draft.skipped))
            items = items[kept]
            used, items["label"] = np.unique(items["label"], return_inverse=True)
            class_names = [class_names[label] for label in used]
            groups = groups and [groups[label] for label in used]
            draft.images = _keep(draft.images, kept)
        if not len(items):
            raise UserError(f"no image is left for the set {path.name!r}; check the source: {source}")
        draft.images.flush()
        np.save(directory / "items.npy", items)

        manifest = {
            "name": path.name,
            "source": source,
            "source_key": source_key,
            "command": command,
            "skipped": [*(draft.skipped[row] for row in sorted(draft.skipped)), *draft.left_out],
            "source_size": draft.source_size,
            "size": size,
            "items": len(items),
            "counts": {
                split: {
                    "items": int((items["split"] == index).sum()),
                    "classes": len(np.unique(items["label"][items["split"] == index])),
                }
                for index, split in enumerate(SPLITS)
            },
            "class_names": list(class_names),
            "domain_names": list(domain_names),
        }
        digest = LAYOUT.seal(directory, ("images.npy", "items.npy"), manifest)
        if groups is not None:
            write_nearness(Nearness(digest, "its own groups", nearest_classes(list(groups), None)), directory)


def _build(path: Path, manifest: dict[str, Any]) -> ImageSet:
    for domain in manifest["domain_names"]:
        plain_name(domain, "the domain")
    columns, images = _arrays(path, manifest)
    return ImageSet(
        name=path.resolve().name,
        path=path,
        images=images,
        labels=columns["label"],
        class_names=tuple(manifest["class_names"]),
        splits=columns["split"],
        domains=columns.get("domain"),
        domain_names=tuple(manifest["domain_names"]),
        origins=columns.get("origin"),
        digest=manifest["digest"],
        manifest=manifest,
        nearness=read_nearness(path, manifest),
    )


def _arrays(path: Path, manifest: dict[str, Any]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The columns of the items, and the images, checked against the manifest."""
    with open_file(path / "items.npy") as file:
        items = read_array(file)
    columns = {name: np.ascontiguousarray(items[name]) for name in items.dtype.names or ()}
    images = np.load(regular_file(path / "images.npy"), mmap_mode="r", allow_pickle=False)
    size, count = manifest["size"], len(items)
    if images.shape != (count, size, size, 3) or images.dtype != np.uint8:
        raise ValueError(f"{count} items, and images of shape {images.shape} and type {images.dtype}")
    limits = {
        "label": len(manifest["class_names"]),
        "split": len(SPLITS),
        "domain": len(manifest["domain_names"]),
        "origin": count,
    }
    for name, column in columns.items():
        check_numbers(column, limits[name], name)
    return {"label": columns["label"], "split": columns["split"], **columns}, images


def _create(path: Path, items: int, size: int) -> UInt8[np.memmap, "items size size 3"]:
    """A memory map whose space on the disk is allocated: a full disk would end the process by SIGBUS."""
    images: np.memmap = np.lib.format.open_memmap(
        path, mode="w+", dtype=np.uint8, shape=(items, size, size, 3)
    )
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return images


def _keep(
    images: UInt8[np.memmap, "items size size 3"], kept: Int64[np.ndarray, " kept"]
) -> UInt8[np.memmap, "kept size size 3"]:
    """Move the rows `kept` (in order) up within the file, since the disk may have no space for a copy."""
    for first in range(0, len(kept), _ROWS):
        rows = kept[first : first + _ROWS]
        images[first : first + len(rows)] = images[rows]
    images.flush()
    path, shape = Path(str(images.filename)), (len(kept), *images.shape[1:])
    with path.open("r+b") as file:
        # NumPy pads the header so that its length does not depend on the number of rows.
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
        file.truncate(images.offset + int(np.prod(shape)))
    return np.lib.format.open_memmap(path, mode="r+")
