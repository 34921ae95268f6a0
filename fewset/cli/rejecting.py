"""`--reject [SHARE]`: the option of several commands for photos that are none of the classes."""

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from fewset.core.errors import UserError

OPTION = "--reject"
_USUAL = "auto"
NEVER_NONE = 'no photo is "none of these" here: that takes two different photos of a class'

RejectOption = Annotated[
    str | None,
    typer.Option(
        OPTION,
        metavar="[SHARE]",
        help='Say "none of these" of a photo that is unlike the labelled ones. SHARE of the photos of the '
        "classes may be rejected too; default: that of the classifier, or 0.05.",
    ),
]


class RejectCommand(TyperCommand):
    """A command with `RejectOption`. Typer has no option whose value may be left out, so it is added here."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_usual_share(args))


def with_usual_share(words: list[str]) -> list[str]:
    """The words of a command line, with "auto" after a `--reject` that no number follows."""
    options = words[: words.index("--")] if "--" in words else words
    found = []
    for word, following in zip(options, [*options[1:], ""], strict=True):
        found += [word, _USUAL] if word == OPTION and not _is_number(following) else [word]
    return [*found, *words[len(options) :]]


def share_of(reject: str | None, stored: float | None = None) -> float | None:
    """The share that the option means; `stored` is that of the classifier, None if it rejects no photo."""
    from fewset.classify.trust.rejection import SHARE, rejected_share

    if reject is None:
        return stored
    if reject == _USUAL:
        return stored or SHARE
    try:
        return rejected_share(float(reject))
    except ValueError:
        raise UserError(
            f"got {OPTION} {reject}, expected a share between 0 and 1, such as {OPTION} 0.05"
        ) from None


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
