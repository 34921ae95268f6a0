"""The one exception that means "the user can mend this"."""

_LISTED = 8  # names in an error


class UserError(ValueError):
    """Bad input from outside: what was got, what was expected, and the remedy.

    A `ValueError`, so that library users catch what they expect. The command line prints it on one
    line and exits with code 2; every other exception is a defect of fewset and keeps its traceback.
    """


def unknown_name(what: str, got: object, names: object) -> UserError:
    """An error for a name that is not among the known ones; suggests the closest, and lists all if few."""
    from difflib import get_close_matches

    options = sorted(str(name) for name in names)  # type: ignore[attr-defined]
    close = get_close_matches(str(got), options, n=_LISTED)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    listed = options if len(options) <= _LISTED else close or options[:_LISTED]
    rest = f" and {len(options) - len(listed)} more" if len(listed) < len(options) else ""
    return UserError(f"unknown {what} {got!r}.{hint} Known: {', '.join(listed) or 'none'}{rest}.")
