"""What a classifier says of one photo, and why."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from fewset.core.errors import UserError

NONE_OF_THESE = "none of these"

Row = Mapping[str, Any]
"""What is said of one photo, as it goes into files."""


class Answer(NamedTuple):
    """The classification of one photo."""

    name: str
    label: Any
    """The class, or what stands for none of these; None for a photo that cannot be read."""
    probability: float
    """That of the likeliest class."""
    top: tuple[tuple[Any, float], ...]
    """The likeliest classes with their probabilities."""
    closeness: float
    """The largest cosine to a labelled photo or to the prototype of a class."""
    nearest: int
    """The number of the labelled photo that is nearest: the reason."""
    nearest_name: str
    problem: str = ""
    """Why the photo cannot be read."""


def unreadable(name: str, problem: str) -> Answer:
    """The answer for a photo that cannot be read."""
    return Answer(name, None, float("nan"), (), float("nan"), -1, "", problem)


def none_label(classes: np.ndarray) -> Any:
    """What stands for none of these among such labels: a text, or -1 as scikit-learn has it for outliers."""
    return -1 if np.issubdtype(classes.dtype, np.number) else NONE_OF_THESE


def rejected_label(classes: np.ndarray) -> Any:
    """The label of a rejected photo; an error where it could be confused with a class."""
    if classes.dtype.kind not in "ifUO":
        raise UserError(
            f'labels of type {classes.dtype} have no value for "none of these"; use texts or whole numbers, '
            "or set reject=None"
        )
    label = none_label(classes)
    if label in classes:
        raise UserError(
            f'the label {label} means "none of these", but there is a class {label}; give that class another '
            "label, or set reject=None"
        )
    return label


def top_classes(
    classes: np.ndarray, probabilities: Float[np.ndarray, "m N"], count: int
) -> list[tuple[tuple[Any, float], ...]]:
    """The likeliest classes of each photo, with their probabilities, the likeliest first."""
    if count < 1:
        raise UserError(f"got {count} for the number of likeliest classes, expected 1 or more")
    order = np.argsort(-probabilities, axis=1, kind="stable")[:, :count]
    return [
        tuple((plain_label(classes[label]), float(row[label])) for label in best)
        for row, best in zip(probabilities, order, strict=True)
    ]


def plain_label(label: Any) -> Any:
    """A label as plain Python has it: NumPy's numbers and texts become int and str."""
    return label.item() if isinstance(label, np.generic) else label
