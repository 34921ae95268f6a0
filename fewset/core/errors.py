"""The one exception that means "the user can fix this"."""

from collections.abc import Collection, Iterable

_LISTED = 8  # names in an error


class UserError(ValueError):
    """Bad input from outside: what was got, what was expected, and the remedy.

    The command line prints it on one line and exits with code 2; every other exception is a defect of fewset
    and keeps its traceback.

    Args:
        message: The error in one line.

    Example:
        >>> import fewset
        >>> try:
        ...     fewset.TaskSpec(shot=0)
        ... except fewset.UserError as error:
        ...     print(error)
        shot is 0, expected 1 to 100,000,000
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)


def unknown_name(what: str, got: object, names: Iterable[object]) -> UserError:
    """An error for an unknown name: it suggests the closest one, and lists all if they are few."""
    from difflib import get_close_matches

    options = sorted(map(str, names))
    close = get_close_matches(str(got), options, n=_LISTED)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    listed = options if len(options) <= _LISTED else close or options[:_LISTED]
    rest = f" and {len(options) - len(listed)} more" if len(listed) < len(options) else ""
    return UserError(f"unknown {what} {got!r}.{hint} Known: {', '.join(listed) or 'none'}{rest}.")


def refuse_unknown(what: str, got: object, names: Collection[object]) -> None:
    """Raise `unknown_name` unless the name is among these."""
    if got not in names:
        raise unknown_name(what, got, names)
