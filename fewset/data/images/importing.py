"""An image set of any known layout becomes a store: every image is decoded once."""

import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median_low

import numpy as np
from jaxtyping import Int64, UInt8

from fewset.core.errors import UserError
from fewset.core.names import one_line
from fewset.core.progress import progress
from fewset.core.randomness import check_seed
from fewset.data.images.decoding import BadImage, decode
from fewset.data.images.importers import IMPORTERS, Entry
from fewset.data.images.sources import Source, open_source
from fewset.data.images.splits import split_classes
from fewset.data.images.store import LAYOUT, SPLITS, ImageSet, open_set, set_path, write_store
from fewset.data.manifest import Origin, import_command
from fewset.io.paths import user_path

_CHUNK = 32
_LISTED = 10


def import_set(
    kind: str,
    source: str | Path,
    name: str | None = None,
    size: int | None = None,
    seed: int = 0,
    skip_bad: bool = False,
    replace: bool = False,
) -> ImageSet:
    """Decode the images of a directory or zip file, once, into an image set.

    Args:
        kind: The layout of the source: `folder`, `csv`, or that of a well-known set.
        source: The directory or zip file.
        name: The name of the set; by default that of the source, without ".zip".
        size: Stored pixels a side; by default those of the layout, mostly 92.
        seed: Splits the classes into train, val and test where the source does not.
        skip_bad: Leave out images that cannot be decoded and list them in the manifest. Without it they
            stop the import.
        replace: Replace a set of that name that came from another source. One from the same source is
            always made anew.

    Returns:
        The set, opened.

    Raises:
        ValueError: The source does not have the layout, an image cannot be decoded, or the name is taken.

    Example:
        >>> import fewset
        >>> from pathlib import Path
        >>> from PIL import Image
        >>> for animal in ("cat", "dog", "owl"):
        ...     path = Path("photos") / animal
        ...     path.mkdir(parents=True)
        ...     Image.new("RGB", (120, 90), "white").save(path / "1.png")
        >>> fewset.import_set("folder", "photos", name="animals")
        ImageSet('animals': 3 images of 92 x 92, 3 classes)
    """
    importer = IMPORTERS[kind]
    size = importer.size if size is None else size
    if size < 1:
        raise UserError(f"size is {size}, expected at least 1 pixel a side")
    check_seed(seed)
    source = user_path(source).absolute()
    name = name or source.name.removesuffix(".zip")
    if name in LAYOUT.generated:
        raise UserError(f"the name {name!r} belongs to the set that fewset generates; choose another name")
    path = set_path(name)
    origin = Origin.of(source, f"{kind} ")
    if not replace:
        LAYOUT.refuse_other_source(path, origin)

    with open_source(source) as opened:
        entries = _with_splits(importer.entries(opened), seed, importer.shares)
        if not entries:
            raise UserError(f"there are no images in {source}")
        for entry in entries:
            if not entry.class_name:
                raise UserError(
                    f"{entry.file} in {source} has no class in the layout {kind}; move or remove it"
                )
            if not entry.class_name.isprintable():  # names of folders may be any bytes
                raise UserError(
                    f"the class {entry.class_name!r} of {one_line(entry.file)} has characters that cannot be "
                    "printed; rename it"
                )
        # By split, then class: each is one piece of the file. By code point: the same on every machine.
        entries.sort(key=lambda entry: (SPLITS.index(entry.split), entry.class_name, entry.file))
        class_names, labels = np.unique([entry.class_name for entry in entries], return_inverse=True)
        domain_names, domains = _optional([entry.domain for entry in entries])
        _, origins = _optional([entry.origin for entry in entries])
        group_of = {entry.class_name: entry.group for entry in entries if entry.group is not None}
        own_size = None if size == importer.size else size
        with write_store(
            path,
            size=size,
            labels=labels,
            class_names=class_names.tolist(),
            splits=np.array([SPLITS.index(entry.split) for entry in entries]),
            domains=domains,
            domain_names=domain_names,
            origins=origins,
            groups=[group_of[name] for name in class_names] if group_of else None,
            source=origin.words,
            source_key=origin.key,
            command=import_command(kind, source, name, size=own_size, seed=seed, skip_bad=skip_bad),
        ) as draft:
            bad, sides = _decode(opened, entries, draft.images)
            if bad and not skip_bad:
                raise _bad_images(bad, len(entries))
            draft.skipped.update(bad)
            draft.left_out.extend(opened.left_out())
            if sides:
                draft.source_size = {"smallest": min(sides), "median": median_low(sides)}
    return open_set(path)


def _with_splits(entries: Sequence[Entry], seed: int, shares: tuple[int, int, int]) -> list[Entry]:
    names = sorted({entry.class_name for entry in entries})
    splits = split_classes(len(names), seed, shares)
    drawn = {name: SPLITS[split] for name, split in zip(names, splits, strict=True)}
    entries = [entry._replace(split=entry.split or drawn[entry.class_name]) for entry in entries]
    first: dict[str, Entry] = {}
    for entry in entries:
        other = first.setdefault(entry.class_name, entry)
        if other.split != entry.split:
            raise UserError(
                f"the class {entry.class_name!r} is in two splits: {other.file} is for {other.split} and "
                f"{entry.file} for {entry.split}, but a model is tested on classes it has not seen; put each "
                "class into one split, or give the classes without splits and fewset splits them"
            )
    return entries


def _optional(values: Sequence[str | None]) -> tuple[list[str], Int64[np.ndarray, " items"] | None]:
    """Names, and a number into them for each item, or None for a source that has no such names."""
    given = [value for value in values if value is not None]
    if len(given) < len(values):
        return [], None
    names, numbers = np.unique(given, return_inverse=True)
    return names.tolist(), numbers


def _decode(
    source: Source, entries: Sequence[Entry], images: UInt8[np.ndarray, "items size size 3"]
) -> tuple[dict[int, str], list[int]]:
    """Fill `images`; the rows of those that cannot be decoded, with path and reason, and the others' sizes.

    Threads: Pillow decodes and resizes without Python's lock, and processes were no faster.
    """
    bad = {}
    sides = []

    def decode_chunk(rows: range) -> int:
        for row in rows:
            entry = entries[row]
            try:
                data = entry.read() if entry.read else source.read(entry.file)
                pixels, side = decode(data, images.shape[1], entry.box)
            except (BadImage, OSError) as error:
                bad[row] = one_line(f"{entry.file}: {error}")
            else:
                images[row] = np.rot90(pixels, entry.quarter_turns)
                sides.append(side)
        return len(rows)

    chunks = [range(row, min(row + _CHUNK, len(entries))) for row in range(0, len(entries), _CHUNK)]
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        # What is wrong with an image is in the list; Pillow's remarks on the others would tear the bar apart.
        with (
            warnings.catch_warnings(action="ignore"),
            progress(f"decoding {source.path.name}", len(entries)) as advance,
        ):
            for done in pool.map(decode_chunk, chunks):
                advance(done)
    finally:  # Ctrl-C must not wait for the rest of the images
        pool.shutdown(cancel_futures=True)
    return bad, sides


def _bad_images(bad: dict[int, str], count: int) -> UserError:
    lines = [bad[row] for row in sorted(bad)]
    more = [f"and {len(lines) - _LISTED} more"] if len(lines) > _LISTED else []
    return UserError(
        f"{len(lines)} of {count} images cannot be decoded, and nothing was imported: "
        f"{'; '.join(lines[:_LISTED] + more)}; mend or remove them, or leave them out with --skip-bad"
    )
