"""Names that come from files or from users and become part of a path."""

from fewset.core.errors import UserError

LONGEST = 200
"""Bytes of a name: what is written beside it has a longer one, and no system takes more than 255."""

_SEPARATORS = frozenset('/\\:*?"<>|')
# Names of devices on Windows, whatever ending they have.
_RESERVED = {
    *("con", "prn", "aux", "nul"),
    *(f"{device}{number}" for device in ("com", "lpt") for number in range(10)),
}


def plain_name(name: str, what: str) -> str:
    """The name, if it is that of one file or folder on every system; else an error that says `what` it is.

    Refused are separators, "..", hidden names, drive letters, control characters, names of devices, and names
    that are too long.
    """
    problem = _problem(name)
    if problem:
        raise UserError(
            f"{what} {shortened(name)!r} cannot be the name of a folder or a file: it {problem}; choose "
            "another"
        )
    return name


def one_line(name: str) -> str:
    """A name as it can be shown on one line: what cannot be printed is a question mark."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def shortened(name: str, longest: int = LONGEST) -> str:
    """A name as errors show it."""
    return name if len(name) <= longest else f"{name[:longest]}…"


def _problem(name: str) -> str:
    """Why this cannot be the name of a file or folder; empty where it can."""
    strange = sorted(_SEPARATORS & set(name))
    if not name:
        return "is no name at all"
    if strange:
        return f"has {' and '.join(map(repr, strange))} in it"
    if not name.isprintable():
        return "has characters that cannot be printed"
    if len(name.encode()) > LONGEST:
        return f"is longer than {LONGEST} bytes"
    if name.startswith(".") or name != name.strip(" ") or name.endswith("."):
        return "begins with '.' or ' ', or ends with them"
    if name.partition(".")[0].strip().lower() in _RESERVED:
        return "is the name of a device on Windows"
    return ""
