"""Answers for photos: `fewset predict`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fewset.cli.classifiers import ClassifierArgument, EncoderOption, in_order, print_some
from fewset.cli.options import DeviceOption, PluginOption, start
from fewset.cli.output import STDOUT, console, echo, make_table, print_lines, print_warning, resumable
from fewset.cli.rejecting import NEVER_NONE, RejectCommand, RejectOption, share_of
from fewset.cli.shards import ParquetOption, ShardOption, check_shard, write_shard
from fewset.core.errors import UserError
from fewset.core.names import one_line
from fewset.io.files import file_digest

if TYPE_CHECKING:
    from fewset.classify.predict.answers import Predictor, Row
    from fewset.classify.predict.run import Outputs, Summary
    from fewset.encoders import Encoder

PANEL = "Classify"
commands = typer.Typer()
_PRINTED = 0.005  # classes of a smaller probability are not printed


@commands.command(cls=RejectCommand)
def predict(
    classifier: ClassifierArgument,
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Folders, zip files, photos, or CSV files with a column path, and x, y, width, height for "
            "parts of photos; films with --every."
        ),
    ],
    top: Annotated[int, typer.Option(min=1, help="How many of the likeliest classes are printed.")] = 3,
    reject: RejectOption = None,
    no_reject: Annotated[
        bool, typer.Option("--no-reject", help="Reject no photo, also where `fit --reject` said so.")
    ] = False,
    together: Annotated[
        bool,
        typer.Option("--together", help="The photos help to classify each other; for 1 to 4 shots a class."),
    ] = False,
    csv: Annotated[Path | None, typer.Option(help="Write the answers as CSV; - is standard output.")] = None,
    json: Annotated[
        Path | None, typer.Option(help="Write the answers as JSON, a line a photo; - is standard output.")
    ] = None,
    every: Annotated[
        float | None,
        typer.Option(min=0.001, metavar="SECONDS", help="Classify films, too: one frame in this time."),
    ] = None,
    move_to: Annotated[
        Path | None, typer.Option(help="Move the photos into DIR/CLASS.", metavar="DIR")
    ] = None,
    link_to: Annotated[
        Path | None, typer.Option(help="Link to the photos in DIR/CLASS.", metavar="DIR")
    ] = None,
    parquet: ParquetOption = None,
    shard: ShardOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a stopped run.")] = False,
    encoder: EncoderOption = None,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """Classify photos: the likeliest classes of each, and the labelled photo that is nearest.

    A photo that cannot be read is an answer with the reason. With --move-to or --link-to nothing is
    overwritten: of photos with equal names the second becomes "name (2).jpg". Those that are none of the
    classes go into a folder "none of these", those that cannot be read stay where they are.

    Example: `fewset predict my.fewset inbox/ --reject --csv answers.csv`
    """
    start(plugin, with_torch=False)
    from fewset.classify.embedding import files_of
    from fewset.classify.predict.parts import answer_columns
    from fewset.classify.predict.run import Outputs, predict_to
    from fewset.compute.device_names import find_device

    find_device(device)  # a wrong one is found first
    if move_to is not None and link_to is not None:
        raise UserError("photos are either moved or linked; give --move-to or --link-to, not both")
    if reject and no_reject:
        raise UserError("photos are rejected or not; give --reject or --no-reject, not both")
    classifier, paths = in_order(classifier, paths)
    options = {"--csv": csv, "--json": json, "--move-to": move_to, "--link-to": link_to, "--every": every}
    in_parts = check_shard(shard, parquet, options | {"--resume": resume, "--together": together})
    predictor, used = _predictor(classifier, encoder, device, top, reject, no_reject, together)
    if in_parts and parquet:
        made_by = [file_digest(classifier), used.digest, predictor.top, predictor.share]
        write_shard(paths, shard, parquet, answer_columns(predictor, used), made_by)
        return
    if STDOUT in (csv, json):
        if resume or len([each for each in (csv, json, move_to, link_to) if each]) > 1:
            raise UserError("standard output takes one table; leave out --resume and the other outputs")
        _check_any_readable(_print_answers(predictor, used, paths, every, "csv" if csv else "json"))
        return
    outputs = Outputs(csv, json, link_to or move_to, link_to is not None)
    if outputs.partial is None:
        if resume:
            raise UserError(
                "--resume goes on with a file or folder; give --csv, --json, --move-to or --link-to"
            )
        _check_any_readable(_print_answers(predictor, used, paths, every, "words"))
        return
    read = [classifier, *files_of(used.id), *(plugin or ())]
    with resumable(f"the same command with --resume goes on from {outputs.partial}"):
        summary = predict_to(predictor, used, file_digest(classifier), paths, outputs, resume, read, every)
    _print_summary(summary, outputs)
    _check_any_readable(summary)


def _predictor(
    file: Path,
    encoder: str | None,
    device: str,
    top: int,
    reject: str | None,
    no_reject: bool,
    together: bool,
) -> "tuple[Predictor, Encoder]":
    from fewset.classify.embedding import encoder_of
    from fewset.classify.model import warn_if_not_advised
    from fewset.classify.predict.answers import Predictor
    from fewset.classify.saving import load_classifier
    from fewset.compute.machine import tune

    learned, stored = load_classifier(file)
    used = encoder_of(learned, encoder, device)
    tune(with_torch=False)
    share = None if no_reject else share_of(reject, stored)
    if share is not None and not learned.trust.closeness:
        print_warning(NEVER_NONE)
    if together:
        warn_if_not_advised(learned.support.shots)
    return Predictor(learned, top, share, together), used


def _print_answers(
    predictor: "Predictor", encoder: "Encoder", paths: list[Path], every: float | None, form: str
) -> "Summary":
    """Print the answers as they come: in words, as CSV or as JSON."""
    from fewset.classify.photos.sources import opened_paths
    from fewset.classify.predict.files import csv_lines, json_lines
    from fewset.classify.predict.run import Summary, answered_chunks
    from fewset.compute import distributed

    summary = Summary()

    def rows() -> "Iterator[Row]":
        with opened_paths(paths, every, encoder.input_size) as listing:
            for chunk in answered_chunks(predictor, encoder, listing):
                for row in chunk:
                    summary.add(row)
                    yield row

    if form == "words":
        for line in map(_in_words, rows()):
            if distributed.is_main_process():
                echo(line)
    else:
        print_lines(csv_lines(rows(), predictor.top) if form == "csv" else json_lines(rows()))
    return summary


def _check_any_readable(summary: "Summary") -> None:
    if summary.unreadable and not summary.counts:
        raise UserError(f"none of the {summary.unreadable:,} photos can be read ({summary.problems[0]})")


def _in_words(row: "Row") -> str:
    file = one_line(row["file"])
    if row["problem"] is not None:
        return f"{file}: cannot be read: {row['problem']}"
    best, *others = (f"{label} {100 * share:.0f} %" for label, share in row["top"] if share >= _PRINTED)
    if row["class"] != row["top"][0][0]:  # probabilities that it is of one class or another would contradict
        best, others = row["class"], []
    more = f" ({', '.join(others)})" if others else ""
    nearest = f", nearest {row['nearest']}" if row["nearest"] else ""
    return f"{file}: {best}{more}{nearest}"


def _print_summary(summary: "Summary", outputs: "Outputs") -> None:
    table = make_table("class", "photos")
    for label, photos in summary.counts.most_common():
        table.add_row(label, f"{photos:,}")
    console.print(table)
    stays = " (they stay where they are)" if outputs.folder else ""
    print_some(f"photos that could not be read{stays}", summary.problems, summary.unreadable)
    if outputs.folder is not None:
        echo(f"{outputs.verb} into: {outputs.folder}")
    for file in filter(None, (outputs.csv, outputs.json)):
        echo(f"answers: {file}")
