"""Speed, as ratios within one run."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fewset.cli.options import DeviceOption, JsonOption, PluginOption, counted, options_of
from fewset.cli.output import echo

PANEL = "Speed"
commands = typer.Typer(name="bench", help="Speed, as ratios within one run.", no_args_is_help=True)

StepsOption = Annotated[int, counted("Steps in a repetition.")]
BatchOption = Annotated[int, counted("Images in a step of pre-training.", least=2, most=10**5)]


def _measure(
    part: str,
    own: dict[str, Any],
    repetitions: Annotated[int, counted("Repetitions of each side, after one to warm up.")] = 5,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
    as_json: JsonOption = False,
    out: Annotated[Path | None, typer.Option("--out", help="Write the record (JSON) to this file.")] = None,
    **model: Any,
) -> None:
    """Measure a part with the shared options, those of a `_model` and its `own`.

    The measuring processes tune themselves and load the plugins; this process does neither.
    """
    from fewset.bench.measuring import Measuring, record_text
    from fewset.bench.parts import PARTS, ModelMeasuring
    from fewset.io.files import write_json

    kind = ModelMeasuring if model else Measuring
    setup = kind(repetitions=repetitions, device=device, plugins=tuple(plugin or ()), **model)
    record = PARTS[part](setup, **own)
    if out is not None:
        write_json(out, record)
    if as_json:
        print(json.dumps(record, indent=2))
    else:
        echo(record_text(record))
        if out is not None:
            echo(f"record: {out}")


def _model(
    data: Annotated[str, typer.Option(help="An imported set.")] = "strokes",
    backbone: Annotated[str, typer.Option(help="With random weights.")] = "conv4",
    size: Annotated[
        int | None,
        counted(
            "Pixels a side that the backbone takes; default: 84, or what the set has.", least=8, most=1024
        ),
    ] = None,
) -> None:
    """The options of the parts that train or score a model."""


@commands.command()
@options_of(_measure)
@options_of(_model)
def evaluate(
    split: Annotated[str, typer.Option(help="train, val or test.")] = "test",
    run: Annotated[
        str | None, typer.Option(help="A run or a released model, instead of random weights.")
    ] = None,
    way: Annotated[int, counted("Classes in a task.", most=10**5)] = 5,
    shot: Annotated[int, counted("Labelled items a class.", most=10**5)] = 1,
    query: Annotated[int, counted("Queries a class.", most=10**5)] = 15,
    tasks: Annotated[int, counted("How many tasks.")] = 10_000,
    published_tasks: Annotated[
        int, counted("Tasks in a repetition of the published code; it is extrapolated.")
    ] = 10,
    **shared: Any,
) -> None:
    """Embedding each image once, against re-embedding the images of each task as published code does.

    Example: `fewset bench evaluate --data miniimagenet --out results/performance/evaluate.json`
    """
    sizes = {"way": way, "shot": shot, "query": query, "tasks": tasks, "published_tasks": published_tasks}
    _measure("evaluate", {"split": split, "run": run, **sizes}, **shared)


@commands.command()
@options_of(_measure)
@options_of(_model)
def train(batch: BatchOption = 128, steps: StepsOption = 1, **shared: Any) -> None:
    """A step of pre-training and one of meta-training, against PyTorch's plain default.

    Example: `fewset bench train --data miniimagenet --out results/performance/train.json`
    """
    _measure("train", {"batch": batch, "steps": steps}, **shared)


@commands.command()
@options_of(_measure)
@options_of(_model)
def data(
    batch: BatchOption = 128,
    steps: StepsOption = 1,
    images: Annotated[int, counted("JPEG files to import.", least=5)] = 200,
    **shared: Any,
) -> None:
    """The input path of training against its steps, and the import of JPEG files.

    Example: `fewset bench data --data miniimagenet --out results/performance/data.json`
    """
    _measure("data", {"batch": batch, "steps": steps, "images": images}, **shared)


@commands.command()
@options_of(_measure)
def classify(
    images: Annotated[int, counted("Images that a side embeds in a repetition.")] = 40,
    photos: Annotated[int, counted("Photos of five classes, to a saved classifier.", least=10)] = 25,
    width: Annotated[int, counted("Pixels across such a photo.", least=20, most=20_000)] = 4000,
    height: Annotated[int, counted("Pixels down such a photo.", least=15, most=20_000)] = 3000,
    **shared: Any,
) -> None:
    """The encoder of photos against PyTorch's plain default, and large photos to a saved classifier.

    Example: `fewset bench classify --out results/performance/classify.json`
    """
    _measure("classify", {"images": images, "photos": photos, "width": width, "height": height}, **shared)
