"""Import an image set of any known layout into the store: every image is decoded once."""

import os
import shlex
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median_low

import numpy as np
from jaxtyping import Int64, UInt8

from fewset.core.errors import UserError
from fewset.core.names import one_line, printable
from fewset.core.progress import progress
from fewset.core.randomness import check_seed, mix
from fewset.data.images.decoding import BadImage, decode
from fewset.data.images.importers import IMPORTERS, SHARES, Entry
from fewset.data.images.sources import Source, open_source
from fewset.data.images.store import LAYOUT, SPLITS, ImageSet, open_set, set_path, write_store
from fewset.data.manifest import Origin, import_command, sha256_of
from fewset.io.paths import user_path

_CHUNK = 32
_LISTED = 10
_WAY = 5  # the usual size of a task


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
        size: Stored pixels a side; by default those of the layout, usually 92.
        seed: The seed of the random split into train, val and test, for a source without splits.
        skip_bad: Leave out images that cannot be decoded and list them in the manifest. Otherwise they
            stop the import.
        replace: Replace a set of that name that came from another source. One from the same source is
            always replaced.

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
        LAYOUT.check_source(path, origin)

    with open_source(source) as opened:
        entries = _with_splits(importer.entries(opened), seed, importer.shares)
        if not entries:
            raise UserError(f"there are no images in {source}")
        for entry in entries:
            if not entry.class_name or not printable(entry.class_name):  # folder names may be any bytes
                raise UserError(
                    f"the class {entry.class_name!r} of {one_line(entry.file)} is empty or has characters "
                    "that cannot be printed; rename it"
                )
        # By split, then class, so that each is one piece of the file; by code point, the same everywhere.
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
                lines = [bad[row] for row in sorted(bad)]
                more = f"; and {len(lines) - _LISTED} more" if len(lines) > _LISTED else ""
                raise UserError(
                    f"{len(bad)} of {len(entries)} images cannot be decoded, and nothing was imported: "
                    f"{'; '.join(lines[:_LISTED])}{more}; fix them, or leave them out with --skip-bad"
                )
            draft.skipped.update(bad)
            draft.left_out.extend(opened.left_out())
            if sides:
                draft.source_size = {"smallest": min(sides), "median": median_low(sides)}
    return open_set(path)


def split_classes(
    classes: int, seed: int = 0, shares: tuple[int, int, int] = SHARES
) -> Int64[np.ndarray, " classes"]:
    """A random split of each class, an index into `SPLITS`, in proportion to `shares`.

    Val and test get at least five classes each, so that 5-way tasks can be drawn from them, or a third of
    the classes if there are fewer than 15: 100 classes are split 64/16/20, 20 are split 10/5/5, 5 are
    split 3/1/1. One or two classes are all for training. With few classes, evaluate a model that was
    trained on another set on the split "all", which has every class.
    """
    least = min(_WAY, classes // 3)
    val, test = (max(least, round(classes * share / sum(shares))) if share else 0 for share in shares[1:])
    order = sorted(range(classes), key=lambda label: mix(seed, label))
    splits = np.zeros(classes, dtype=np.int64)
    splits[order[:val]] = 1
    splits[order[val : val + test]] = 2
    return splits


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
                "class into one split, or import the classes without splits"
            )
    return entries


def _optional(values: Sequence[str | None]) -> tuple[list[str], Int64[np.ndarray, " items"] | None]:
    """The different names and the index of each item's name, or None if the source has no such names."""
    if None in values:
        return [], None
    names, indices = np.unique(np.array(values, dtype=str), return_inverse=True)
    return names.tolist(), indices


def _decode(
    source: Source, entries: Sequence[Entry], images: UInt8[np.ndarray, "items size size 3"]
) -> tuple[dict[int, str], list[int]]:
    """Fill `images`; return the rows that cannot be decoded, with path and reason, and the others' sizes.

    Threads decode, because Pillow releases Python's lock.
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
        # Pillow's warnings would break the progress bar; its errors are in the list.
        with (
            warnings.catch_warnings(action="ignore"),
            progress(f"decoding {source.path.name}", len(entries)) as advance,
        ):
            for done in pool.map(decode_chunk, chunks):
                advance(done)
    finally:  # Ctrl-C must not wait for the rest of the images
        pool.shutdown(cancel_futures=True)
    return bad, sides


# Several sets as one


def merge_sets(names: Sequence[str], name: str | None = None, replace: bool = False) -> ImageSet:
    """Make one image set of several. Tasks drawn from it have classes of all of them.

    Every class stays in its split, and its name begins with that of its set: "cub: Indigo Bunting". Every set
    becomes a domain (a domain "Photo" of the set "sketchy" becomes "sketchy-Photo"), so that a model can be
    trained or scored on one of them.

    Args:
        names: Two image sets or more, all stored at the same size.
        name: The name of the new set; by default their names, joined by "-".
        replace: Replace a set of that name that came from another source.

    Returns:
        The new set, opened.

    Raises:
        ValueError: The sets are stored at different sizes, one is named twice, or the name is taken.
    """
    sets = [open_set(each) for each in names]
    called = [images.name for images in sets]
    name = name or "-".join(called)
    _check_sets(sets, name)
    path = set_path(name)
    origin = Origin(f"merge {' '.join(called)}", sha256_of("merge " + " ".join(each.digest for each in sets)))
    if not replace:
        LAYOUT.check_source(path, origin)

    starts = np.cumsum([0, *(len(images.labels) for images in sets[:-1])])
    classes = np.cumsum([0, *(len(images.class_names) for images in sets[:-1])])
    domain_names, domains = _domains(sets)
    with (
        write_store(
            path,
            size=sets[0].size,
            labels=np.concatenate([each.labels + first for each, first in zip(sets, classes, strict=True)]),
            class_names=[f"{images.name}: {each}" for images in sets for each in images.class_names],
            splits=np.concatenate([images.splits for images in sets]),
            domains=domains,
            domain_names=domain_names,
            origins=_origins(sets, starts),
            source=origin.words,
            source_key=origin.key,
            command=shlex.join(["fewset", "data", "import", "sets", "+".join(names), "--name", name]),
        ) as draft,
        progress(f"merging {name}", len(sets)) as advance,
    ):
        for images, start in zip(sets, starts, strict=True):
            draft.images[start : start + len(images.labels)] = images.images
            advance()
    return open_set(path)


def _check_sets(sets: Sequence[ImageSet], name: str) -> None:
    names = [images.name for images in sets]
    if len(sets) < 2:
        raise UserError("a set by itself cannot be merged; name two sets or more")
    if len(set(names)) < len(names):
        raise UserError(f"a set is named twice among {', '.join(names)}; name each set once")
    if name in (*names, *LAYOUT.generated):
        raise UserError(f"the name {name!r} is that of another set; choose another one with --name")
    for images in sets:
        if images.size != sets[0].size:
            raise UserError(
                f"{names[0]!r} is stored at {sets[0].size} px a side and {images.name!r} at {images.size}; "
                "import one of them again with the --size of the other"
            )


def _domains(sets: Sequence[ImageSet]) -> tuple[list[str], Int64[np.ndarray, " items"]]:
    """The names of all domains, and the index of each item's: its set, or a domain of its set."""
    names: list[str] = []
    indices = []
    for images in sets:
        own = np.zeros(len(images.labels), dtype=np.int64) if images.domains is None else images.domains
        indices.append(own + len(names))
        names += [f"{images.name}-{domain}" for domain in images.domain_names] or [images.name]
    if len(set(names)) < len(names):
        raise UserError(
            f"two domains would have one name among {', '.join(names)}; import a set by another --name"
        )
    return names, np.concatenate(indices)


def _origins(
    sets: Sequence[ImageSet], starts: Int64[np.ndarray, " sets"]
) -> Int64[np.ndarray, " items"] | None:
    """The origin of each item, by default the item itself; None if no set has origins."""
    if all(images.origins is None for images in sets):
        return None
    own = (np.arange(len(images.labels)) if images.origins is None else images.origins for images in sets)
    return np.concatenate([each + start for each, start in zip(own, starts, strict=True)])
