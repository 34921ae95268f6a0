"""The scalars of the equivariant head, learned from tables of features."""

from pathlib import Path
from typing import Annotated

import typer

from fewset.cli.options import DeviceOption, PluginOption, counted
from fewset.cli.output import echo
from fewset.cli.start import start

PANEL = "Classify"
commands = typer.Typer()


@commands.command("train-head")
def train_head(
    tables: Annotated[
        list[Path], typer.Argument(help=".npz files with `features` and `labels`, one a domain.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file of the scalars, JSON.")],
    seed: Annotated[int, typer.Option(help="Draws the tasks.")] = 0,
    steps: Annotated[int, counted("Of the optimiser.")] = 50,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """Learn the scalars of the equivariant head of the classifier, on tasks of several domains.

    Example: `fewset train-head objects.npz birds.npz -o fewset/classify/heads/equivariant.json`
    """
    start(plugin)
    from fewset.classify.head_training import read_domain, train_equivariant, write_scalars
    from fewset.runtime.devices import pick_device
    from fewset.runtime.files import check_output

    check_output(out, tables)
    domains = [read_domain(table) for table in tables]
    scalars = train_equivariant(domains, seed, steps, after_step=_tell, device=pick_device(device))
    write_scalars(scalars, tables, seed, steps, out)
    echo(f"written: {out}")


@commands.command("head-table")
def head_table(
    kind: Annotated[str, typer.Argument(help="The layout of the source, as for `fewset data import`.")],
    source: Annotated[Path, typer.Argument(help="A directory or zip file.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The table of features, .npz.")],
    split: Annotated[str | None, typer.Option(help="Only the classes of that split.")] = None,
    most: Annotated[int | None, counted("Images of each class at most, the first by name.")] = None,
    drawn: Annotated[
        bool, typer.Option("--drawn", help="Edges in the place of the photographs, like drawings.")
    ] = False,
    encoder: Annotated[str, typer.Option(help="What turns the images into features.")] = "auto",
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """Make a table of features for `fewset train-head` of an image set, as the classifier embeds photos.

    Example: `fewset head-table cub cub.zip --split train --most 15 --drawn -o cub-train-drawn.npz`
    """
    start(plugin)
    from fewset.classify.encoder_place import files_of
    from fewset.classify.head_training import Domain, write_domain
    from fewset.classify.measure.embedded import SetSource, embedded_set
    from fewset.classify.photos import check_no_photo
    from fewset.experiments.run_encoder import load_encoder
    from fewset.runtime.files import check_output

    check_output(out, [source, *files_of(encoder), *(plugin or ())])
    check_no_photo(out)
    where = SetSource(kind, source, split, most=most, drawn=drawn)
    items = embedded_set(where, load_encoder(encoder, device))
    write_domain(Domain(items.features, items.labels), out)
    rows, dim = items.features.shape
    echo(f"{out}: {rows:,} rows of {dim:,} numbers, {len(items.class_names):,} classes")


def _tell(step: int, loss: float) -> None:
    if step % 10 == 9:
        echo(f"step {step + 1}: {loss:.4f} of the loss of ridge at the best scale for each kind of task")
