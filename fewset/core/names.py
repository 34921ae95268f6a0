"""Names from files or users that become part of a path."""

from fewset.core.errors import UserError

LONGEST = 200
"""Bytes of a name: temporary files beside it have longer ones, and most systems take 255."""

_JOINERS = "\u200c\u200d"  # the zero-width non-joiner and joiner
_SEPARATORS = frozenset('/\\:*?"<>|')
_PORTS = (f"{port}{number}" for port in ("com", "lpt") for number in range(10))
_DEVICES = {"con", "prn", "aux", "nul", *_PORTS}


def plain_name(name: str, what: str) -> str:
    """The name, if every system can have a file of this name; else an error that says `what` it is."""
    if problem := _problem(name):
        rest = f"it {problem}; choose another"
        raise UserError(f"{what} {shortened(name)!r} cannot be the name of a folder or a file: {rest}")
    return name


def printable(text: str) -> bool:
    """Whether a text can be shown on one line; joiners are part of Persian words and of joined emoji."""
    return all(letter.isprintable() or letter in _JOINERS for letter in text)


def one_line(name: str) -> str:
    """A name as it can be shown on one line, with "?" for letters that cannot be printed."""
    return "".join(letter if printable(letter) else "?" for letter in name)


def shortened(name: str, longest: int = LONGEST) -> str:
    """A name as errors show it."""
    return name if len(name) <= longest else f"{name[:longest]}…"


def _problem(name: str) -> str:
    """Why this cannot be the name of a file or folder; empty if it can."""
    if not printable(name):
        return "has characters that cannot be printed"
    if len(name.encode()) > LONGEST:
        return f"is longer than {LONGEST} bytes"
    if separators := sorted(_SEPARATORS & set(name)):
        return f"has {' and '.join(map(repr, separators))} in it"
    if not name or name.startswith(".") or name != name.strip(" ") or name.endswith("."):
        return "is empty, or begins or ends with '.' or ' '"
    if name.partition(".")[0].strip().lower() in _DEVICES:
        return "is the name of a device on Windows"
    return ""
