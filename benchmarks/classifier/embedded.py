"""A labelled image set as rows of features, embedded once as the classifier embeds photos, and kept.

The images come straight from the source, whole (or the whole of their box), not from the store of
`fewset data import`, which holds their central squares.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from itertools import groupby, islice
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int64, UInt64
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from fewset.classify.model import EncoderStamp
from fewset.classify.photos.rows import photo_rows
from fewset.classify.photos.sources import Photo, Pixels
from fewset.core.errors import UserError, unknown_name
from fewset.core.progress import progress
from fewset.data.images.decoding import BadImage, decode_photo
from fewset.data.images.importers import IMPORTERS, Entry
from fewset.data.images.nearness import groups_by_name, nearest_classes
from fewset.data.images.sources import Source, open_source
from fewset.data.manifest import home
from fewset.encoders import Encoder
from fewset.io.files import check_digest, replacing_with_digest
from fewset.io.reading import regular_file

_RELATED_BY_MOST = 25


@dataclass(frozen=True, eq=False)
class EmbeddedSet:
    """Rows of features with what is known of the images that they are from."""

    features: Float32[np.ndarray, "n D"]
    labels: Int64[np.ndarray, " n"]
    """The class of each row, a number into `class_names`."""
    class_names: tuple[str, ...]
    fingerprints: UInt64[np.ndarray, " n"]
    origins: Int64[np.ndarray, " n"] | None
    """What each image was made from, such as the photo of a sketch; None where each stands for itself."""
    images_digest: str
    encoder: EncoderStamp
    nearest: Int64[np.ndarray, "classes others"] | None = None
    """The other classes of each class, nearest first, for tasks of related classes."""


@dataclass(frozen=True)
class SetSource:
    """Where the images are: a directory or zip file in the layout `kind` of `fewset data import`.

    With `split`, only the images of that split, which the source must name; with `domain`, of that domain;
    with `most`, only so many of each class, the first by name.
    """

    kind: str
    source: Path
    split: str | None = None
    domain: str | None = None
    most: int | None = None


def embedded_set(where: SetSource, encoder: Encoder) -> EmbeddedSet:
    """The rows of a set; kept in `home() / "embeddings"` for the next time, for these images and encoder."""
    with open_source(where.source) as source:
        entries = _chosen(where, IMPORTERS[where.kind].entries(source))
        digest = _digest(source, entries)
        file = home() / "embeddings" / f"{digest[:16]}-{encoder.digest[:16]}.safetensors"
        if not file.exists():
            _embed(source, entries, encoder, file)
        features, fingerprints = _kept(file)
    class_names, labels = np.unique([entry.class_name for entry in entries], return_inverse=True)
    return EmbeddedSet(
        features,
        labels,
        tuple(class_names.tolist()),
        fingerprints,
        _shared_origins(entries),
        digest,
        EncoderStamp(encoder.id, encoder.digest),
    )


def related(items: EmbeddedSet, where: SetSource, encoder: Encoder, grouped: bool) -> EmbeddedSet:
    """The set with its classes related by class means of another encoder, of 25 images a class.

    `grouped`, classes whose names end with the same word come first, as in CUB.
    """
    if encoder.digest == items.encoder.digest:
        raise UserError(
            f"classes are related by {encoder.id}, which is also measured; nearness must come from another "
            "encoder: give another --encoder, or another `related_by` in the plan"
        )
    seen = embedded_set(replace(where, most=_RELATED_BY_MOST), encoder)
    means = np.stack(
        [seen.features[seen.labels == label].mean(axis=0) for label in range(len(seen.class_names))]
    )
    groups = groups_by_name(items.class_names) if grouped else None
    return replace(items, nearest=np.array(nearest_classes(groups, means.astype(np.float64))))


def _kept(file: Path) -> tuple[np.ndarray, np.ndarray]:
    check_digest(file)
    try:
        with safe_open(regular_file(file), framework="numpy") as kept:
            return kept.get_tensor("features"), kept.get_tensor("fingerprints")
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file} cannot be read ({error}); remove it, and the rows are made anew") from None


def _chosen(where: SetSource, entries: list[Entry]) -> list[Entry]:
    for name in ("split", "domain"):
        wanted, there = getattr(where, name), {getattr(entry, name) for entry in entries} - {None}
        if wanted is not None and wanted not in there:
            raise unknown_name(f"{name} of {where.source}:", wanted, there)
        entries = [entry for entry in entries if wanted in (None, getattr(entry, name))]
    if any(entry.quarter_turns for entry in entries):
        raise UserError(f"the layout {where.kind} turns its images, which is not for photos; take another")
    entries = sorted(entries, key=lambda entry: (entry.class_name, entry.file))
    classes = groupby(entries, key=lambda entry: entry.class_name)
    return [entry for _, those in classes for entry in islice(those, where.most)]


def _shared_origins(entries: list[Entry]) -> Int64[np.ndarray, " n"] | None:
    """A number for the origin of each image, where some have the same."""
    names, numbers = np.unique([entry.origin or entry.file for entry in entries], return_inverse=True)
    return numbers if len(names) < len(entries) else None


def _digest(source: Source, entries: list[Entry]) -> str:
    """Of all that the rows and their labels depend on."""
    state = hashlib.sha256()
    for entry in entries:
        data = np.ascontiguousarray(entry.read()).data if entry.read else source.read(entry.file)
        described = (entry.file, entry.class_name, entry.origin, entry.box, hashlib.sha256(data).hexdigest())
        state.update(json.dumps(described).encode())
    return state.hexdigest()


def _embed(source: Source, entries: list[Entry], encoder: Encoder, file: Path) -> None:
    photos = [_photo(source, entry, encoder.input_size) for entry in entries]
    features = np.empty((len(photos), encoder.dim), dtype=np.float32)
    fingerprints = np.empty(len(photos), dtype=np.uint64)
    with progress(f"embedding {source.path.name}", len(photos)) as advance:
        for number, row in enumerate(photo_rows(photos, encoder, thumbnails=True)):
            if row.problem:
                raise UserError(f"{row.name} of {source.path} cannot be read ({row.problem}); mend it")
            features[number], fingerprints[number] = row.features, row.fingerprint
            advance()
    with replacing_with_digest(file) as temporary:
        save_file({"features": features, "fingerprints": fingerprints}, temporary)


def _photo(source: Source, entry: Entry, size: int) -> Photo:
    def read() -> Pixels:
        data = entry.read() if entry.read else source.read(entry.file)
        if entry.box is None:
            return data
        try:
            return decode_photo(data, size, entry.box)
        except BadImage as error:
            raise OSError(str(error)) from error

    return Photo(entry.file, read)
