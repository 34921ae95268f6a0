"""A classifier as one file: safetensors with a JSON description. It holds no code; none is run to read it.

==================  =====================================================================================
``features``        float32 (n, D): the labelled photos
``labels``          int64 (n): the class of each, a number into the description's `classes`
``fingerprints``    uint64 (n): their perceptual hashes
``thumbnails``      uint8: small JPEG files, one after another
``thumbnail_ends``  int64 (n): where each of these ends
``shift``           float64 (D)
``weight``          float64 (D, N)
``bias``            float64 (N)
``background.*``    float32: the weights of FEAT, where the background gave one (`AdaptedHead`)
==================  =====================================================================================

The description (the metadata entry "fewset.classifier") is a `Description`. What was learned is stored, not
learned anew, so that a file gives the probabilities of the classifier that was saved, to the bit. Beside the
description stands `sha256`, of it and of the tensors, by which damage is noticed.
"""

import json
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from fewset import __version__
from fewset.classify.background.head import AdaptedHead, Background, HeldOutComparison
from fewset.classify.embedding import name_from_file
from fewset.classify.heads import CLASSIFIER_HEADS
from fewset.classify.labels import check_class_names
from fewset.classify.model import EncoderStamp, Learned, LinearClassifier
from fewset.classify.photos.support import Support
from fewset.classify.trust import Trust
from fewset.core.errors import UserError
from fewset.core.names import one_line
from fewset.core.parsing import parse, plain
from fewset.io.files import replacing
from fewset.io.paths import without_machine
from fewset.io.reading import parse_json
from fewset.training.seeding import seeded

FORMAT = 1
_ENTRY, _DIGEST = "fewset.classifier", "sha256"
_BACKGROUND = "background."
_LONGEST_NAME = 4096
_LARGEST_THUMBNAIL = 2**18
_LARGEST_POWER = 10
_DTYPES = {
    "features": "F32",
    "labels": "I64",
    "fingerprints": "U64",
    "thumbnails": "U8",
    "thumbnail_ends": "I64",
    "shift": "F64",
    "weight": "F64",
    "bias": "F64",
}


@dataclass(frozen=True)
class Description:
    """What a file says besides its tensors."""

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
    """The share of the classes' own photos that may be turned away."""
    groups: tuple[str, ...] | None = None
    """What each photo belongs to with others; None where every one stands for itself."""


def save_classifier(learned: Learned, reject: float | None, path: Path) -> None:
    """Write a file, as a whole or not at all."""
    support, linear = learned.support, learned.linear
    if support.classes.dtype.kind not in "iuUO":
        raise UserError(
            f"labels of type {support.classes.dtype} cannot be saved; expected texts or whole numbers"
        )
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
        learned.background.comparison if learned.background else None,
        reject,
        support.groups if any(support.groups) else None,
    )
    tensors = {
        "features": support.features,
        "labels": support.labels,
        "fingerprints": support.fingerprints,
        "thumbnails": np.frombuffer(b"".join(support.thumbnails), dtype=np.uint8),
        "thumbnail_ends": np.cumsum([len(thumbnail) for thumbnail in support.thumbnails]),
        "shift": linear.shift,
        "weight": linear.weight,
        "bias": linear.bias,
        **_weights(learned.background),
    }
    tensors = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    table = plain(description)
    described = table | {_DIGEST: _digest(table, tensors)}
    with replacing(path) as temporary:
        save_file(tensors, temporary, metadata={_ENTRY: json.dumps(described, sort_keys=True)})


def is_classifier(path: Path) -> bool:
    """Whether a file says that it is a classifier, whatever its name ends with."""
    if not path.is_file():
        return False
    try:
        with safe_open(path, framework="numpy") as file:
            return _ENTRY in (file.metadata() or {})
    except (SafetensorError, OSError):
        return False


def load_classifier(path: Path) -> tuple[Learned, float | None]:
    """The classifier of a file, and the share of its own photos that may be turned away.

    Whatever is wrong with the file, the error is one line that names it.
    """
    if not path.is_file():
        raise UserError(f"there is no file {path}; make one: fewset fit PHOTOS -o {path.name}")
    try:
        description, tensors = _read(path)
    except (SafetensorError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"{path} is not a usable classifier: {reason}; make it again: fewset fit PHOTOS -o {path.name}"
        ) from None
    support = Support(
        np.array(description.classes),
        tensors["labels"],
        tensors["features"],
        description.photos,
        _thumbnails(tensors),
        tensors["fingerprints"],
        description.groups or ("",) * len(description.photos),
    )
    linear = LinearClassifier(
        description.power, tensors["shift"], tensors["weight"], tensors["bias"], description.temperature
    )
    encoder = description.encoder
    if encoder is not None:
        encoder = replace(encoder, id=name_from_file(encoder.id, path.parent))
    learned = Learned(
        support,
        description.head,
        linear,
        description.trust,
        encoder,
        _background(description, tensors),
    )
    return learned, description.reject


def _read(path: Path) -> tuple[Description, dict[str, np.ndarray]]:
    """What is in a file, once it is sure to fit together."""
    with safe_open(path, framework="numpy") as file:
        text = (file.metadata() or {}).get(_ENTRY)
        if text is None:
            raise UserError(f"it has no description {_ENTRY!r}")
        table = parse_json(text)
        if not isinstance(table, dict):
            raise UserError(f"its description {_ENTRY!r} is not a table")
        if table.get("format") != FORMAT:
            raise UserError(
                f"it has format {table.get('format')!r}, expected {FORMAT}, and was written by fewset "
                f"{table.get('version')!r}, not {__version__}"
            )
        digest = table.pop(_DIGEST, None)
        description: Description = parse(Description, table, what="description")
        check_class_names(np.array(description.classes))
        _check_description(description)
        _check_shapes(description, {name: file.get_slice(name) for name in file.keys()})  # noqa: SIM118
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    _check_values(description, tensors)
    _demand(digest == _digest(table, tensors), "the sha256 of its contents: it is damaged")
    return description, tensors


def _digest(table: dict[str, Any], tensors: dict[str, np.ndarray]) -> str:
    """Of the description and the numbers, whatever order they have in the file."""
    state = sha256(json.dumps(table, sort_keys=True).encode())
    for name in sorted(tensors):
        state.update(name.encode())
        state.update(np.ascontiguousarray(tensors[name]).data)
    return state.hexdigest()


def _check_description(description: Description) -> None:
    classes, trust, head = description.classes, description.trust, description.head
    _demand(head in CLASSIFIER_HEADS, f"one of the heads {', '.join(sorted(CLASSIFIER_HEADS))}, got {head!r}")
    photos, way = len(description.photos), len(classes)
    _demand(way >= 2 and len({type(label) for label in classes}) == 1, "two classes of one kind")
    _demand(sorted(set(classes)) == list(classes), "sorted classes, each once")
    numbers = [label for label in classes if isinstance(label, int)]
    _demand(all(-(2**63) <= number < 2**63 for number in numbers), "labels below 2^63")
    shown = (one_line(name[:_LONGEST_NAME]) for name in description.photos)
    _demand(tuple(shown) == description.photos, "printable names of photos")
    _demand(0 < description.power <= _LARGEST_POWER, f"a power above 0, and {_LARGEST_POWER} at most")
    _demand(description.temperature > 0, "a temperature above 0")
    _demand(description.reject is None or 0 < description.reject < 1, "a share between 0 and 1")
    _demand(description.groups is None or len(description.groups) == photos, "a group for each photo")
    numbers = [number for group in trust.copies for number in group]
    numbers += [suspect.photo for suspect in trust.suspects]
    _demand(all(0 <= number < photos for number in numbers), f"numbers of photos below {photos}")
    labels = [*trust.untested, trust.weakest, *(suspect.looks_like for suspect in trust.suspects)]
    labels += [label for confusion in trust.confusions for label in (confusion.label, confusion.taken_for)]
    _demand(all(0 <= label < way for label in labels), f"numbers of classes below {way}")
    _demand(0 <= trust.right <= trust.tested <= trust.photos == photos, "as many photos as it has names")
    _demand(0 < trust.left <= 1, "a share of photos above 0, and 1 at most")
    if trust.groups is not None:
        _demand(bool(trust.groups) == bool(trust.tested), "groups where photos were tested")
        _demand(0 <= trust.groups <= trust.tested, "no more groups than photos")


def _check_shapes(description: Description, found: dict[str, Any]) -> None:
    photos, way = len(description.photos), len(description.classes)
    shapes = {name: tuple(part.get_shape()) for name, part in found.items()}
    dim = (shapes.get("features") or (0,))[-1]
    learned = _background_shapes(description, dim)
    dtypes = _DTYPES | dict.fromkeys(learned, "F32")
    wrong = [name for name, dtype in dtypes.items() if name not in found or found[name].get_dtype() != dtype]
    _demand(not wrong and len(found) == len(dtypes), f"the tensors {', '.join(dtypes)}")
    expected = {
        "features": (photos, dim),
        "labels": (photos,),
        "fingerprints": (photos,),
        "thumbnails": (prod(shapes["thumbnails"]),),
        "thumbnail_ends": (photos,),
        "shift": (dim,),
        "weight": (dim, way),
        "bias": (way,),
        **learned,
    }
    for name, shape in expected.items():
        _demand(shapes[name] == shape, f"{name} of shape {shape}, got {shapes[name]}")


def _check_values(description: Description, tensors: dict[str, np.ndarray]) -> None:
    labels, ends = tensors["labels"], tensors["thumbnail_ends"]
    way = len(description.classes)
    _demand(np.array_equal(np.unique(labels), np.arange(way)), "a photo of every class, and of no other")
    for name, values in tensors.items():
        _demand(bool(np.isfinite(values).all()), f"finite numbers in {name}")
    sizes = np.diff(ends, prepend=0)
    _demand(bool(((sizes >= 0) & (sizes <= _LARGEST_THUMBNAIL)).all()), "small thumbnails, one after another")
    _demand(int(ends[-1]) == len(tensors["thumbnails"]), "thumbnails that end where their file does")


def _weights(background: Background | None) -> dict[str, np.ndarray]:
    """Of FEAT, as they were trained."""
    if background is None or background.head is None:
        return {}
    state = background.head.state_dict()
    return {_BACKGROUND + name: value.float().numpy() for name, value in state.items()}


def _background_shapes(description: Description, dim: int) -> dict[str, tuple[int, ...]]:
    if description.background is None or not description.background.kept:
        return {}
    with torch.device("meta"):
        state = AdaptedHead(dim, description.background.uses_set).state_dict()
    return {_BACKGROUND + name: tuple(value.shape) for name, value in state.items()}


def _background(description: Description, tensors: dict[str, np.ndarray]) -> Background | None:
    if description.background is None:
        return None
    weights = {
        name.removeprefix(_BACKGROUND): torch.from_numpy(value)
        for name, value in tensors.items()
        if name.startswith(_BACKGROUND)
    }
    if not weights:
        return Background(description.background, None)
    with seeded(0):  # initial weights, which the loaded ones replace
        head = AdaptedHead(tensors["features"].shape[1], description.background.uses_set)
    head.load_state_dict(weights)
    return Background(description.background, head.finished())


def _demand(fulfilled: bool, expected: str) -> None:
    if not fulfilled:
        raise UserError(f"expected {expected}")


def _thumbnails(tensors: dict[str, np.ndarray]) -> tuple[bytes, ...]:
    ends = [0, *tensors["thumbnail_ends"].tolist()]
    return tuple(tensors["thumbnails"][start:end].tobytes() for start, end in pairwise(ends))
