"""Names from files or users that become part of a path."""

from fewset.core.errors import UserError

LONGEST = 200
"""Bytes of a name: temporary files beside it have longer ones, and most systems take 255."""

_SEPARATORS = frozenset('/\\:*?"<>|')
_DEVICES = {
    "con",
    "prn",
    "aux",
    "nul",
    *(f"{port}{number}" for port in ("com", "lpt") for number in range(10)),
}


def plain_name(name: str, what: str) -> str:
    """The name, if every system can have a file of this name; else an error that says `what` it is."""
    problem = _problem(name)
    if problem:
        raise UserError(
            f"{what} {shortened(name)!r} cannot be the name of a folder or a file: it {problem}; choose "
            "another"
        )
    return name


def one_line(name: str) -> str:
    """A name as it can be shown on one line, with "?" for letters that cannot be printed."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def shortened(name: str, longest: int = LONGEST) -> str:
    """A name as errors show it."""
    return name if len(name) <= longest else f"{name[:longest]}…"


def _problem(name: str) -> str:
    """Why this cannot be the name of a file or folder; empty if it can."""
    separators = sorted(_SEPARATORS & set(name))
    if not name:
        return "is empty"
    if separators:
        return f"has {' and '.join(map(repr, separators))} in it"
    if not name.isprintable():
        return "has characters that cannot be printed"
    if len(name.encode()) > LONGEST:
        return f"is longer than {LONGEST} bytes"
    if name.startswith(".") or name != name.strip(" ") or name.endswith("."):
        return "begins or ends with '.' or ' '"
    if name.partition(".")[0].strip().lower() in _DEVICES:
        return "is the name of a device on Windows"
    return ""
