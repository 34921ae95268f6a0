"""Classifiers from a few photos a class: fit, predict, info, export and serve."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fewset.cli.classifiers import (
    ClassesFromOption,
    ClassifierArgument,
    EncoderOption,
    card_of,
    in_order,
    left_out_later,
    print_learned,
    print_some,
)
from fewset.cli.options import DeviceOption, PluginOption, start
from fewset.cli.output import STDOUT, console, echo, make_table, print_lines, print_warning, resumable
from fewset.cli.rejecting import RejectCommand, RejectOption, share_of
from fewset.cli.shards import ParquetOption, ShardOption, check_shard, write_shard
from fewset.core.errors import UserError
from fewset.core.names import one_line
from fewset.io.files import check_apart, check_output, file_digest, write_text

if TYPE_CHECKING:
    from fewset.classify.predict.answers import Predictor, Row
    from fewset.classify.predict.run import Outputs, Summary
    from fewset.encoders import Encoder

PANEL = "Classify"
commands = typer.Typer()
_LISTED = 10
_NEVER_NONE = 'no photo is "none of these" here: that takes two different photos of a class'
_PRINTED = 0.005  # classes of a smaller probability are not printed


@commands.command(cls=RejectCommand)
def fit(
    photos: Annotated[
        Path,
        typer.Argument(
            help="A folder with a folder of photos for each class, a zip file of that, or a CSV file with "
            "the columns path and label; group for photos that belong together; x, y, width, height for a "
            "part of a photo."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write, such as my.fewset.")],
    encoder: Annotated[
        str, typer.Option(help="A name, hf:DIRECTORY, onnx:FILE, or a run directory.")
    ] = "auto",
    head: Annotated[str, typer.Option(help="The head that learns from the features.")] = "auto",
    background: Annotated[
        Path | None,
        typer.Option(
            help="Photos of many other classes of the domain, as PHOTOS are: FEAT is trained on them, and "
            "kept, with the set or without it, where it is ahead."
        ),
    ] = None,
    reject: RejectOption = None,
    classes_from: ClassesFromOption = None,
    card: Annotated[Path | None, typer.Option(help="The model card, in Markdown; default: OUT.md.")] = None,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """Make a classifier from a few photos of each class, and estimate its accuracy.

    Example: `fewset fit photos/ -o my.fewset`
    """
    start(plugin, with_torch=background is not None)
    from fewset.classify.card import model_card
    from fewset.classify.classifier import FewShotClassifier
    from fewset.classify.embedding import chosen_encoder, files_of
    from fewset.classify.photos.sources import check_no_photo, read_files
    from fewset.classify.saving import is_classifier
    from fewset.compute import distributed
    from fewset.compute.machine import tune

    if is_classifier(photos):
        raise UserError(
            f"{photos} is a classifier; to add photos to it you want `fewset add {photos} PHOTOS`"
        )
    card = card or card_of(out)
    check_apart({"-o": out, "--card": card})
    folders = [photos] if background is None else [photos, background]
    for path in (out, card):
        check_output(path, chain(read_files(folders), files_of(encoder), plugin or ()))
        check_no_photo(path)
    chosen_encoder(encoder, device)  # a wrong name is an error before the photos are read
    tune(with_torch=False)
    options: Any = {
        "background": background,
        "reject": share_of(reject),
        "device": device,
        "classes_from": classes_from,
    }
    with left_out_later():
        classifier = FewShotClassifier(encoder, head, **options).fit(photos)
    learned = classifier.learned_
    if distributed.is_main_process():
        classifier.save(out)
        write_text(card, model_card(learned, out.stem))
    print_learned(learned)
    print_some("photos left out", [f"{name}: {problem}" for name, problem in classifier.skipped_])
    echo(f"classifier: {out}; use it with `fewset predict {out} PHOTOS`")
    echo(f"card: {card}")


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


@commands.command(cls=RejectCommand)
def export(
    source: Annotated[Path, typer.Argument(help="A classifier, a run directory, or a released model.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="FILE.onnx for one file, or a folder for the parts.")
    ] = None,
    joined: Annotated[bool, typer.Option("--joined", help="Write joined.onnx into the folder too.")] = False,
    web: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A folder with a page that classifies in the browser.")
    ] = None,
    runtime: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Of onnxruntime-web; default: where npm installs it.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
    hub: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A folder for the Hugging Face Hub: the classifier without its photos."
        ),
    ] = None,
    reject: RejectOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier export.")] = False,
    encoder: EncoderOption = None,
    plugin: PluginOption = None,
) -> None:
    """Write a classifier as ONNX, or as a page that needs no server; a model as ONNX for tasks of any size.

    Example: `fewset export my.fewset -o my.onnx`
    """
    start(plugin)
    from fewset.classify.embedding import files_of
    from fewset.classify.export import writing
    from fewset.experiments.weights import load

    as_file = out is not None and out.suffix.lower() == ".onnx"
    if out is None and web is None and hub is None:
        raise UserError("there is nothing to write; give -o FILE.onnx, -o DIR, --web DIR or --hub DIR")
    check_apart({"-o": out, "--web": web, "--hub": hub})
    if joined and out is None:
        raise UserError("--joined needs -o FILE.onnx or -o DIR")
    if runtime is not None and web is None:
        raise UserError("--runtime is for the page; give --web DIR")
    if title is not None and (web is None or not title.strip()):
        raise UserError("--title is the text above the page, which --web DIR writes")

    def check(read: list[Path]) -> None:
        for path, directory in ((out, not as_file), (web, True), (hub, True)):
            if path is not None:
                writing.check_target(path, directory=directory, force=force, read=read)

    check([source, *(plugin or ())])
    files = writing.find_runtime(runtime) if web is not None else []
    if writing.is_model(source):
        if any(given is not None for given in (web, hub, encoder, reject)):
            raise UserError(
                f"{source} is a model; --web, --hub, --encoder and --reject are for classifiers, leave them "
                "out"
            )
        exported: writing.ClassifierExport | writing.ModelExport = writing.ModelExport(load(source))
    else:
        opened = writing.open_classifier(source, encoder)
        exported = classifier = replace(opened, share=share_of(reject, opened.share))
        if reject is not None and not classifier.learned.trust.closeness:
            print_warning(_NEVER_NONE)
        check(files_of(classifier.encoder.id))
        if web is not None:
            classifier.write_page(web, files, title or writing.TITLE)
            echo(f"page: {web}; show it with `python -m http.server --directory {web}`")
        if hub is not None:
            classifier.write_hub(hub)
            echo(f"for the Hub: {hub}; publish it with `hf upload OWNER/NAME {hub}`")
    if out is not None:
        if as_file:
            exported.write_file(out)
        else:
            exported.write_folder(out, joined)
        echo(f"ONNX: {out}")


@commands.command()
def serve(
    classifier: Annotated[Path | None, typer.Argument(help="A classifier to continue with.")] = None,
    host: Annotated[str, typer.Option(help="Others than loopback need the printed token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8300,
    encoder: Annotated[str | None, typer.Option(help="Default: that of the classifier.")] = None,
    allowed_host: Annotated[
        list[str] | None, typer.Option(help="A name by which a proxy makes the page available; repeatable.")
    ] = None,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """Serve a page to sort photos into classes and try new ones. Stop it with Ctrl-C.

    Example: `fewset serve my.fewset`
    """
    start(plugin, with_torch=False)
    from fewset.compute.machine import tune
    from fewset.core.extras import import_extra

    for module in ("fastapi", "uvicorn", "python_multipart"):
        import_extra(module, "web")
    from fewset.classify.serve.project import earlier_work, work_file
    from fewset.classify.serve.server import run
    from fewset.classify.serve.workbench import open_workbench

    bench, queue = open_workbench(classifier, encoder, device)
    tune(with_torch=False)
    saved = work_file(classifier)
    earlier = earlier_work(saved)
    for file, when in earlier[:_LISTED]:
        echo(f"earlier work, saved at {when}: continue with `fewset serve {file}`, or delete that file")
    if len(earlier) > _LISTED:
        echo(f"and {len(earlier) - _LISTED} older ones; *Open* on the page lists them, too")

    def ready(address: str) -> None:
        echo(f"fewset is at {address}")
        echo(f"your work is saved to {saved} once two classes have photos; stop the server with Ctrl-C")

    run(bench, queue, host=host, port=port, ready=ready, allowed_hosts=allowed_host or (), saved=saved)


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
        print_warning(_NEVER_NONE)
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
