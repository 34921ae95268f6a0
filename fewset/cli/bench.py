"""Speed, as ratios within one run."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fewset.cli.options import JsonOption
from fewset.cli.output import echo

PANEL = "Speed"
commands = typer.Typer(name="bench", help="Speed, as ratios within one run.", no_args_is_help=True)
BenchDataOption = Annotated[str, typer.Option("--data", help="An imported set.")]
BackboneOption = Annotated[str, typer.Option(help="With random weights.")]
SizeOption = Annotated[
    int | None,
    typer.Option(min=8, help="Pixels a side that the backbone takes; default: 84, or what the set has."),
]
RepetitionsOption = Annotated[
    int, typer.Option(min=1, help="How often each side takes its turn, after once to warm up.")
]
StepsOption = Annotated[int, typer.Option(min=1, help="Steps in a repetition.")]
BatchOption = Annotated[int, typer.Option(min=2, help="Images in a step of pre-training.")]
RecordOption = Annotated[Path | None, typer.Option("--out", help="Write the record (JSON) to this file.")]


@commands.command("evaluate")
def bench_evaluate(
    data: BenchDataOption = "strokes",
    split: Annotated[str, typer.Option(help="train, val or test.")] = "test",
    backbone: BackboneOption = "conv4",
    size: SizeOption = None,
    run: Annotated[
        str | None, typer.Option(help="A run or a released model, instead of random weights.")
    ] = None,
    way: Annotated[int, typer.Option(help="Classes in a task.")] = 5,
    shot: Annotated[int, typer.Option(help="Labelled items a class.")] = 1,
    query: Annotated[int, typer.Option(help="Queries a class.")] = 15,
    tasks: Annotated[int, typer.Option(help="How many tasks.")] = 10_000,
    published_tasks: Annotated[
        int, typer.Option(min=1, help="Tasks in a repetition of the published way; it is extrapolated.")
    ] = 10,
    repetitions: RepetitionsOption = 5,
    as_json: JsonOption = False,
    out: RecordOption = None,
) -> None:
    """Embedding each image once, against re-embedding the images of each task as published code does.

    Example: `fewset bench evaluate --data miniimagenet --out docs/performance/evaluate.json`
    """
    from fewset.bench import parts

    numbers = {"way": way, "shot": shot, "query": query, "tasks": tasks}
    record = parts.bench_evaluate(
        data,
        split,
        backbone=backbone,
        size=size,
        run=run,
        **numbers,
        published_tasks=published_tasks,
        repetitions=repetitions,
    )
    _print_record(record, as_json, out)


@commands.command("train")
def bench_train(
    data: BenchDataOption = "strokes",
    backbone: BackboneOption = "conv4",
    size: SizeOption = None,
    batch: BatchOption = 128,
    steps: StepsOption = 1,
    repetitions: RepetitionsOption = 5,
    as_json: JsonOption = False,
    out: RecordOption = None,
) -> None:
    """A step of pre-training and one of meta-training, against PyTorch's plain default.

    Example: `fewset bench train --data miniimagenet --out docs/performance/train.json`
    """
    from fewset.bench import parts

    record = parts.bench_train(
        data, backbone=backbone, size=size, batch=batch, steps=steps, repetitions=repetitions
    )
    _print_record(record, as_json, out)


@commands.command("data")
def bench_data(
    data: BenchDataOption = "strokes",
    backbone: BackboneOption = "conv4",
    size: SizeOption = None,
    batch: BatchOption = 128,
    steps: StepsOption = 1,
    images: Annotated[int, typer.Option(min=5, help="JPEG files to import.")] = 200,
    repetitions: RepetitionsOption = 5,
    as_json: JsonOption = False,
    out: RecordOption = None,
) -> None:
    """The input path of training against its steps, and the import of JPEG files.

    Example: `fewset bench data --data miniimagenet --out docs/performance/data.json`
    """
    from fewset.bench import parts

    record = parts.bench_data(
        data, backbone=backbone, size=size, batch=batch, steps=steps, images=images, repetitions=repetitions
    )
    _print_record(record, as_json, out)


@commands.command("page")
def bench_page(
    directory: Annotated[Path, typer.Argument(help="The records.")] = Path("docs/performance"),
    check: Annotated[bool, typer.Option("--check", help="Only check that the page is up to date.")] = False,
) -> None:
    """Make the page of the records in a directory; it lies beside the directory.

    Example: `fewset bench page docs/performance`
    """
    from fewset.bench.records import check_page, write_page

    if check:
        check_page(directory)
    else:
        echo(f"page: {write_page(directory)}")


def _print_record(record: dict[str, Any], as_json: bool, out: Path | None) -> None:
    from fewset.bench.records import record_text
    from fewset.runtime.files import write_json

    if out is not None:
        write_json(out, record)
    if as_json:
        print(json.dumps(record, indent=2))
    else:
        echo(record_text(record))
