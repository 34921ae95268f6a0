"""What comes with the package besides its code."""

from pathlib import Path


def shipped(name: str) -> Path:
    """A directory, such as "recipes": `_recipes` in an installed package, or beside it in a source tree."""
    package = Path(__file__).resolve().parent
    installed = package / f"_{name}"
    return installed if installed.is_dir() else package.parent / name
