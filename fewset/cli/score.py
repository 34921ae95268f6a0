"""Test a classifier on labelled photos."""

import json as json_format
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fewset.cli.classifiers import (
    ClassesFromOption,
    ClassifierArgument,
    EncoderOption,
    in_order,
    print_some,
)
from fewset.cli.options import DeviceOption, PluginOption, start
from fewset.cli.output import STDOUT, console, echo, make_table, print_lines
from fewset.compute import distributed
from fewset.core.errors import UserError
from fewset.core.names import one_line
from fewset.io.files import check_apart, check_output, write_text

if TYPE_CHECKING:
    from fewset.classify.scoring import LabelledScore

PANEL = "Classify"
commands = typer.Typer()
_LISTED = 10


@commands.command()
def score(
    classifier: ClassifierArgument,
    photos: Annotated[
        Path, typer.Argument(help="Labelled photos in any form that `fewset fit` takes, other than those.")
    ],
    csv: Annotated[
        Path | None, typer.Option(help="Write the answers and the labels as CSV; - is standard output.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the score as JSON; - is standard output.")] = None,
    classes_from: ClassesFromOption = None,
    encoder: EncoderOption = None,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """Test a classifier on labelled photos: accuracy, confusions, calibration and rejection.

    The accuracy has a 95 % interval. Photos with labels that the classifier does not know are other things,
    which it should reject.

    Example: `fewset score my.fewset labelled/`
    """
    start(plugin, with_torch=False)
    from fewset.classify.embedding import encoder_of
    from fewset.classify.photos.labelled import opened_classes
    from fewset.classify.photos.rows import photo_rows
    from fewset.classify.photos.sources import check_no_photo, read_files
    from fewset.classify.predict.answers import Predictor, answer_row
    from fewset.classify.predict.files import csv_lines, write_csv
    from fewset.classify.saving import load_classifier
    from fewset.classify.scoring import score_answers
    from fewset.classify.trust.rejection import SHARE
    from fewset.compute.device_names import find_device
    from fewset.compute.machine import tune
    from fewset.core.progress import progress

    find_device(device)  # a wrong one is found first
    classifier, (photos,) = in_order(classifier, [photos])
    if STDOUT in (csv, json) and csv and json:
        raise UserError("standard output takes one of --csv and --json; leave out the other")
    check_apart({"--csv": csv, "--json": json})
    for path in filter(None, (csv, json)):
        if path != STDOUT:
            check_output(path, [classifier, *read_files([photos])])
            check_no_photo(path)
    learned, share = load_classifier(classifier)
    used = encoder_of(learned, encoder, device)
    tune(with_torch=False)
    predictor = Predictor(learned, top=1, share=share or SHARE)
    with opened_classes(photos, classes_from) as (opened, labels):
        with progress("photos", len(opened)) as advance:
            answers = []
            for answer in predictor.answers(photo_rows(opened, used)):
                answers.append(answer)
                advance()
        groups = [photo.group for photo in opened]
    bad = [f"{one_line(answer.name)}: {answer.problem}" for answer in answers if answer.problem]
    good = [number for number, answer in enumerate(answers) if not answer.problem]
    if not good:
        raise UserError(f"none of the {len(bad):,} photos can be read ({bad[0]})")
    found = score_answers(
        [answers[number] for number in good],
        [labels[number] for number in good],
        learned.support.classes.tolist(),
        [groups[number] for number in good],
    )
    rows = [{**answer_row(answer), "label": label} for answer, label in zip(answers, labels, strict=True)]
    text = json_format.dumps(found.plain(), indent=2, ensure_ascii=False) + "\n"
    if STDOUT in (csv, json):
        print_lines(csv_lines(rows, 1, ["label"]) if csv == STDOUT else [text])
    else:
        _print_score(found, share or SHARE, bool(learned.trust.closeness))
        print_some("photos that could not be read", bad)
    if not distributed.is_main_process():
        return
    if csv not in (None, STDOUT):
        write_csv(csv, rows, 1, ["label"])
        echo(f"answers: {csv}")
    if json not in (None, STDOUT):
        write_text(json, text)
        echo(f"score: {json}")


def _print_score(found: "LabelledScore", share: float, rejects: bool) -> None:
    table = make_table("class", "photos", "right", "rejected")
    for each in found.classes:
        table.add_row(each.label, f"{each.photos:,}", f"{each.right:,}", f"{each.rejected:,}")
    console.print(table)
    low, high = found.interval
    echo(
        f"accuracy: {100 * found.accuracy:.1f} % ({found.right:,} of {found.photos:,} photos; 95 % interval "
        f"{100 * low:.1f} to {100 * high:.1f} %)"
    )
    if found.independent < found.photos:
        echo(f"the photos are of {found.independent:,} groups, which the interval counts")
    for label, taken_for, photos in found.confusions[:_LISTED]:
        echo(f"{photos} photo{'s' * (photos > 1)} of {label} taken for {taken_for}")
    echo(
        f"probabilities: {100 * found.probability:.1f} % on average, {100 * found.accuracy:.1f} % are right; "
        f"calibration error {100 * found.calibration_error:.1f} %"
    )
    if rejects:
        _print_rejection(found, share)
    else:
        echo("rejection: none, which takes two different photos of a class")
    print_some(
        "surest mistakes",
        [
            f"{one_line(photo)}: {label} taken for {taken_for} ({100 * probability:.0f} %)"
            for photo, label, taken_for, probability in map(astuple, found.mistakes)
        ],
    )


def _print_rejection(found: "LabelledScore", share: float) -> None:
    echo(
        f"rejection: {found.rejected:,} of {found.photos:,} photos of the classes "
        f"({100 * found.rejected / found.photos:.1f} %; the target is {100 * share:.3g} %)"
    )
    kept = found.photos - found.rejected
    if found.rejected and kept:
        echo(f"accuracy of the others: {100 * found.right_of_accepted / kept:.1f} %")
    if found.auroc is not None:
        echo(
            f"other things rejected: {found.others_rejected:,} of {found.others:,}; AUROC {found.auroc:.3f} "
            f"(labels that are no classes: {', '.join(map(one_line, found.other_labels))})"
        )
