"""A classifier as one file: safetensors with a JSON description. It holds no code; none is run to read it.

==================  =====================================================================================
``features``        float32 (n, D): the labelled photos
``labels``          int64 (n): the class of each, an index into the description's `classes`
``fingerprints``    uint64 (n): their perceptual hashes
``thumbnails``      uint8: small JPEG files, one after another
``thumbnail_ends``  int64 (n): where each of these ends
``shift``           float64 (D)
``weight``          float64 (D, N)
``bias``            float64 (N)
``background.*``    float32: the weights of FEAT, where the background gave one (`AdaptedHead`)
==================  =====================================================================================

The description (the metadata entry "fewset.classifier") is a `Description`. The learned head is stored, so a
loaded classifier gives the probabilities of the saved one to the bit. The entry `sha256` of the description
is the digest of its other entries and of the tensors, and shows damage.
"""

import json
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from fewset import __version__
from fewset.classify.background.comparison import Background, HeldOutComparison
from fewset.classify.embedding import name_from_file
from fewset.classify.heads import CLASSIFIER_HEADS, prepared
from fewset.classify.model import EncoderStamp, Learned, LinearClassifier
from fewset.classify.photos.support import Support
from fewset.classify.trust import Trust
from fewset.classify.trust.copies import numbered_copies, numbered_groups
from fewset.classify.trust.rejection import closeness
from fewset.core.errors import UserError, refuse_unknown
from fewset.core.names import one_line
from fewset.core.parsing import parse, plain
from fewset.io.files import replacing
from fewset.io.hub import download, is_on_hub
from fewset.io.paths import without_machine
from fewset.io.reading import parse_json

FORMAT = 2
"""Files of format 1 have another closeness of the left-out photos."""
_ENTRY, _DIGEST = "fewset.classifier", "sha256"
_BACKGROUND = "background."
_LONGEST_NAME = 4096


@dataclass(frozen=True)
class Description:
    """The metadata of a file."""

    format: int
    version: str
    """Of the fewset that wrote it."""
    classes: tuple[str | int, ...]
    photos: tuple[str, ...]
    """Where the labelled photos came from."""
    head: str
    power: float
    temperature: float
    trust: Trust
    encoder: EncoderStamp | None = None
    background: HeldOutComparison | None = None
    reject: float | None = None
    """The allowed false-rejection rate."""
    groups: tuple[str, ...] | None = None
    """The group of each photo; None where there are no groups."""
    taken: tuple[str, ...] | None = None
    """When and with which camera each photo was taken; None where nothing is known."""


def save_classifier(learned: Learned, reject: float | None, path: Path) -> None:
    """Write a file, as a whole or not at all."""
    support, linear = learned.support, learned.linear
    if support.classes.dtype.kind not in "iuUO":
        raise UserError(
            f"labels of type {support.classes.dtype} cannot be saved; expected texts or whole numbers"
        )
    background = learned.background
    description = Description(
        FORMAT,
        __version__,
        tuple(support.classes.tolist()),
        tuple(one_line(without_machine(name)[:_LONGEST_NAME]) for name in support.names),
        learned.head,
        linear.power,
        linear.temperature,
        learned.trust,
        learned.encoder,
        background.comparison if background else None,
        reject,
        support.groups if any(support.groups) else None,
        support.taken if any(support.taken) else None,
    )
    weights = background.head.state_dict() if background and background.head else {}
    tensors = {
        "features": support.features,
        "labels": support.labels,
        "fingerprints": support.fingerprints,
        "thumbnails": np.frombuffer(b"".join(support.thumbnails), dtype=np.uint8),
        "thumbnail_ends": np.cumsum([len(thumbnail) for thumbnail in support.thumbnails]),
        "shift": linear.shift,
        "weight": linear.weight,
        "bias": linear.bias,
        **{_BACKGROUND + name: value.float().numpy() for name, value in weights.items()},
    }
    tensors = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    table = plain(description)
    described = table | {_DIGEST: _digest(table, tensors)}
    with replacing(path) as temporary:
        save_file(tensors, temporary, metadata={_ENTRY: json.dumps(described, sort_keys=True)})


_KINDS = {"labels": "i", "thumbnail_ends": "i", "fingerprints": "u"}  # of numbers; the others are floats


def is_classifier(path: Path) -> bool:
    """Whether the metadata of a file say that it is a classifier, whatever its name."""
    if not path.is_file():
        return False
    try:
        with safe_open(path, framework="numpy") as file:
            return _ENTRY in (file.metadata() or {})
    except (SafetensorError, OSError):
        return False


def classes_and_photos(path: Path) -> tuple[tuple[str, ...], int] | None:
    """The classes of a file and the number of its photos, without the rest; None if it is no classifier."""
    try:
        with safe_open(path, framework="numpy") as file:
            table = parse_json((file.metadata() or {})[_ENTRY])
        return tuple(map(str, table["classes"])), len(table["photos"])
    except (SafetensorError, OSError, ValueError, LookupError, TypeError):
        return None


def load_classifier(path: Path) -> tuple[Learned, float | None]:
    """The classifier of a file or of the Hub, and its allowed false-rejection rate."""
    if is_on_hub(path):
        path = _one_classifier(download(str(path), ["*.fewset"]), path)
    if not path.is_file():
        raise UserError(f"there is no file {path}; make one: fewset fit PHOTOS -o {path.name}")
    try:
        description, tensors = _read(path)
        return _learned(description, tensors, path), description.reject
    except Exception as error:  # whatever is wrong with the file
        reason = " ".join(str(error).split())
        raise UserError(
            f"{path} is not a usable classifier: {reason}; make it again: fewset fit PHOTOS -o {path.name}"
        ) from None


def _one_classifier(folder: Path, name: Path) -> Path:
    found = sorted(folder.glob("*.fewset"))
    if len(found) != 1:
        raise UserError(f"{name} has {len(found)} files *.fewset, expected one; name another model")
    return found[0]


def _learned(description: Description, tensors: dict[str, np.ndarray], path: Path) -> Learned:
    ends = pairwise([0, *tensors["thumbnail_ends"].tolist()])
    support = Support(
        np.array(description.classes),
        tensors["labels"],
        tensors["features"],
        description.photos,
        tuple(tensors["thumbnails"][start:end].tobytes() for start, end in ends),
        tensors["fingerprints"],
        description.groups or ("",) * len(description.photos),
        description.taken or ("",) * len(description.photos),
    )
    linear = LinearClassifier(
        description.power, tensors["shift"], tensors["weight"], tensors["bias"], description.temperature
    )
    encoder = description.encoder
    encoder = encoder and replace(encoder, id=name_from_file(encoder.id, path.parent))
    background, trust = _background(description, tensors), description.trust
    if description.format == 1:
        trust = replace(trust, closeness=_left_out_closeness(support, linear))
    return Learned(support, description.head, linear, trust, encoder, background)


def _left_out_closeness(support: Support, linear: LinearClassifier) -> tuple[float, ...]:
    """As `examine` finds it, where no photos were taken together."""
    ordered = support.take(support.order)
    copies = numbered_copies(prepared(ordered.features, linear.power), ordered.fingerprints)
    together = numbered_groups(ordered.groups, copies)
    found = closeness(ordered.features, ordered.labels).left_out(together)
    return tuple(sorted(found[~np.isnan(found)].tolist()))


def _read(path: Path) -> tuple[Description, dict[str, np.ndarray]]:
    """The description and the tensors of a file, if its format, its digest and all shapes are right."""
    with safe_open(path, framework="numpy") as file:
        text = (file.metadata() or {}).get(_ENTRY)
        if text is None:
            raise UserError(f"it has no description {_ENTRY!r}")
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    table = parse_json(text)
    if table.get("format") not in (1, FORMAT):
        raise UserError(
            f"it has format {table.get('format')!r}, expected 1 or {FORMAT}, and was written by fewset "
            f"{table.get('version')!r}, not {__version__}"
        )
    if table.pop(_DIGEST, None) != _digest(table, tensors):
        raise UserError("its sha256 does not fit its content: it is damaged")
    description: Description = parse(Description, table, what="description")
    refuse_unknown("classifier head", description.head, CLASSIFIER_HEADS)
    photos, way, dim = len(description.photos), len(description.classes), len(tensors["shift"])
    shapes: dict[str, tuple[int, ...]]
    shapes = {"features": (photos, dim), "weight": (dim, way), "bias": (way,)}
    shapes |= dict.fromkeys(("labels", "fingerprints", "thumbnail_ends"), (photos,))
    for name, shape in shapes.items():
        given = tensors[name].dtype.kind, tensors[name].shape
        if given != (_KINDS.get(name, "f"), shape):
            raise UserError(f"{name} has the kind and shape {given}, expected {_KINDS.get(name, 'f'), shape}")
    if photos and not 0 <= tensors["labels"].min() <= tensors["labels"].max() < way:
        raise UserError(f"its labels are not from 0 to {way - 1}")
    return description, tensors


def _digest(table: dict[str, Any], tensors: dict[str, np.ndarray]) -> str:
    """The sha256 of the description and the tensors, whatever their order in the file."""
    state = sha256(json.dumps(table, sort_keys=True).encode())
    for name in sorted(tensors):
        state.update(name.encode())
        state.update(np.ascontiguousarray(tensors[name]).data)
    return state.hexdigest()


def _background(description: Description, tensors: dict[str, np.ndarray]) -> Background | None:
    comparison = description.background
    if comparison is None or not comparison.kept:
        return None if comparison is None else Background(comparison, None)
    import torch

    from fewset.classify.background.head import AdaptedHead
    from fewset.training.seeding import seeded

    with seeded(0):  # initial weights, which the loaded ones replace
        head = AdaptedHead(tensors["features"].shape[1], comparison.uses_set)
    names = [name for name in tensors if name.startswith(_BACKGROUND)]
    head.load_state_dict({name.removeprefix(_BACKGROUND): torch.from_numpy(tensors[name]) for name in names})
    return Background(comparison, head.finished())
