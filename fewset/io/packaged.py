"""What comes with the package besides its code: recipes and weights."""

from pathlib import Path

import fewset


def packaged_directory(name: str) -> Path:
    """A directory, such as "recipes": `_recipes` in an installed package, or beside it in a source tree."""
    package = Path(fewset.__file__).resolve().parent
    installed = package / f"_{name}"
    return installed if installed.is_dir() else package.parent / name
