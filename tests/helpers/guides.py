"""The examples of the README and of the guides, as a reader copies them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def blocks(document: str, language: str) -> list[str]:
    """The blocks of code in a document, by its path in the repository."""
    text = (ROOT / document).read_text(encoding="utf-8")
    found = re.findall(r"^```(.*?)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    return [text for name, text in found if name == language]


def example(document: str, mark: str) -> str:
    """The one block of Python that has this mark in it."""
    (found,) = (block for block in blocks(document, "python") if mark in block)
    return found
