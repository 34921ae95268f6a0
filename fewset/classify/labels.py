"""The labels of classes: their plain values, names that are allowed, and "none of these"."""

from typing import Any

import numpy as np

from fewset.core.errors import UserError
from fewset.core.names import LONGEST, plain_name, printable

NONE_OF_THESE = "none of these"


def none_label(classes: np.ndarray) -> Any:
    """The label of "none of these": a text, or -1 as scikit-learn has it for outliers."""
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


def plain_label(label: Any) -> Any:
    """A label as a plain Python value: NumPy's scalars become int and str."""
    return label.item() if isinstance(label, np.generic) else label


def check_class_names(classes: np.ndarray) -> None:
    """Raise an error for a name that cannot be shown on one line, or that means something else."""
    for label in (label for label in classes.tolist() if isinstance(label, str)):
        if not label.strip() or len(label) > LONGEST or not printable(label):
            raise UserError(
                f"a class is called {label[:LONGEST]!r}, expected 1 to {LONGEST} printable characters; "
                "rename it"
            )
        if label == NONE_OF_THESE:
            raise UserError(
                f"a class is called {label!r}, which means that a photo is of no class; rename it"
            )


def folder_name(label: Any) -> str:
    """The label as the name of one folder, or an error if it is not one on every system."""
    return plain_name(str(plain_label(label)), "the class")
