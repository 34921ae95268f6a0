"""Speed, as ratios within one run."""

import json
from inspect import signature
from pathlib import Path
from typing import Annotated

import typer

from fewset.cli.options import DeviceOption, JsonOption, PluginOption, counted
from fewset.cli.output import echo
from fewset.core.errors import UserError, refuse_unknown

PANEL = "Speed"
commands = typer.Typer()


@commands.command()
def bench(
    part: Annotated[
        str,
        typer.Argument(
            help="evaluate: tasks embedded once against the published way; train: the steps of both stages "
            "against PyTorch's plain default; data: the input of training, and the import of JPEG files; "
            "classify: the encoder of photos, large photos to a saved classifier, and the start of predict."
        ),
    ],
    data: Annotated[str | None, typer.Option(help="An imported set; default: strokes.")] = None,
    backbone: Annotated[str | None, typer.Option(help="With random weights; default: conv4.")] = None,
    size: Annotated[
        int | None, counted("Pixels a side; default: 84, or what the set has.", least=8, most=1024)
    ] = None,
    batch: Annotated[
        int | None, counted("Images in a step of pre-training; default: 128.", least=2, most=10**5)
    ] = None,
    steps: Annotated[int | None, counted("Steps in a repetition; default: 1.")] = None,
    repetitions: Annotated[int, counted("Repetitions of each side, after one to warm up.")] = 5,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
    as_json: JsonOption = False,
    out: Annotated[Path | None, typer.Option("--out", help="Write the record (JSON) to this file.")] = None,
) -> None:
    """Measure a part of fewset against PyTorch's plain default or the published way.

    Example: `fewset bench train --data miniimagenet --out train.json`
    """
    # The measuring processes tune themselves and load the plugins; this process does neither.
    from fewset.bench.measuring import Measuring, record_text
    from fewset.bench.parts import PARTS
    from fewset.io.files import write_json

    refuse_unknown("part of the benchmark", part, PARTS)
    given = {"data": data, "backbone": backbone, "size": size, "batch": batch, "steps": steps}
    options = {name: value for name, value in given.items() if value is not None}
    for name in options.keys() - signature(PARTS[part]).parameters:
        raise UserError(f"--{name} is not an option of `fewset bench {part}`; leave it out")
    record = PARTS[part](Measuring(repetitions, device, tuple(plugin or ())), **options)
    if out is not None:
        write_json(out, record)
    if as_json:
        print(json.dumps(record, indent=2))
    else:
        echo(record_text(record))
        if out is not None:
            echo(f"record: {out}")
