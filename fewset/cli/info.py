"""What a classifier holds: `fewset info`."""

from math import isfinite

import typer

from fewset.cli.classifiers import ClassifierArgument, print_learned
from fewset.cli.output import console, echo, make_table

PANEL = "Classify"
commands = typer.Typer()


@commands.command()
def info(classifier: ClassifierArgument) -> None:
    """Show the classes, photos and head of a classifier, and its expected accuracy.

    Example: `fewset info my.fewset`
    """
    from fewset.classify.saving import load_classifier
    from fewset.classify.trust.rejection import SHARE

    learned, share = load_classifier(classifier)
    table = make_table("class", "photos", title=classifier.name)
    for label, shots in zip(learned.support.classes, learned.support.shots, strict=True):
        table.add_row(str(label), f"{shots:,}")
    console.print(table)
    print_learned(learned)
    if learned.encoder is not None:
        echo(f"digest of the encoder: {learned.encoder.digest}")
    limit = learned.threshold(SHARE if share is None else share)
    if isfinite(limit):
        echo(f"with --reject a photo is none of these where its closeness is below {limit:.3f}")
