"""What a class may be called: names go into files, onto screens and, by wish, into folders."""

from typing import Any

import numpy as np

from fewset.classify.answers import NONE_OF_THESE, plain_label
from fewset.core.errors import UserError
from fewset.core.names import LONGEST, plain_name


def check_class_names(classes: np.ndarray) -> None:
    """Refuse texts that cannot be shown on one line, or that mean something else."""
    for label in classes.tolist():
        if not isinstance(label, str):
            continue
        if not label.strip() or len(label) > LONGEST or not label.isprintable():
            raise UserError(
                f"a class is called {label[:LONGEST]!r}, expected 1 to {LONGEST} printable characters; "
                "rename it"
            )
        if label == NONE_OF_THESE:
            raise UserError(
                f"a class is called {label!r}, which means that a photo is of no class; rename it"
            )


def folder_name(label: Any) -> str:
    """The label as the name of one folder; refused where it would lead elsewhere, or is none somewhere."""
    return plain_name(str(plain_label(label)), "the class")
