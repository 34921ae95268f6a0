"""What the commands of classifiers share: arguments, the order of arguments, and what is printed."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fewset.cli.output import echo
from fewset.core.errors import UserError

if TYPE_CHECKING:
    from fewset.classify.model import Learned

_LISTED = 10

ClassifierArgument = Annotated[
    Path, typer.Argument(metavar="CLASSIFIER", help="A file that `fewset fit` wrote.")
]

ClassesFromOption = Annotated[
    str | None,
    typer.Option(
        metavar="WHICH",
        help="The folder that names the class of birds/owl/1.jpg: folder (owl), top (birds) or path "
        "(birds/owl). Default: folder, if the folders leave no doubt.",
    ),
]
EncoderOption = Annotated[str | None, typer.Option(help="Where the encoder is now, if it was moved.")]


def in_order(classifier: Path, photos: list[Path]) -> tuple[Path, list[Path]]:
    """The classifier and the photos, in whichever order they were given."""
    from fewset.classify.saving import is_classifier

    found = [path for path in photos if is_classifier(path)]
    if len(found) == 1 and not is_classifier(classifier):
        return found[0], [path for path in (classifier, *photos) if path != found[0]]
    if classifier.is_dir():
        raise UserError(
            f"{classifier} is a folder, expected a classifier first; make one: fewset fit PHOTOS -o my.fewset"
        )
    return classifier, photos


def card_of(classifier: Path) -> Path:
    """Where the model card of a classifier is."""
    return classifier.with_name(f"{classifier.name}.md")


@contextmanager
def left_out_later() -> Iterator[None]:
    """No warnings about photos that are left out, which the command prints in the end."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* was left out: ")
        yield


def print_learned(learned: "Learned") -> None:
    from fewset.classify.card import summary

    encoder = "rows of features" if learned.encoder is None else f"encoder {learned.encoder.id}"
    shots = learned.support.shots
    each = f"{shots.min()}" if shots.min() == shots.max() else f"{shots.min()} to {shots.max()}"
    photos = "photo" if shots.max() == 1 else "photos"
    echo(f"{len(shots):,} classes of {each} {photos}; {encoder}, head {learned.head}")
    for line in summary(learned):
        echo(line)


def print_some(what: str, lines: list[str], total: int | None = None) -> None:
    """How many there are, and the first of them."""
    count = len(lines) if total is None else total
    if count:
        echo(f"{what}: {count:,}")
        for line in lines[:_LISTED]:
            echo(f"  {line}")
        if count > _LISTED:
            echo(f"  and {count - _LISTED:,} more")
