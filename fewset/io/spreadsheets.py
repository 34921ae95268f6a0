"""Cells that a spreadsheet shows and does not compute."""

from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def harmless(cell: Any) -> Any:
    """What is in a cell, as a spreadsheet shows it and does not compute it."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
