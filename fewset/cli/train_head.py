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


def _tell(step: int, loss: float) -> None:
    if step % 10 == 9:
        echo(f"step {step + 1}: {loss:.4f} of the loss of ridge at the best scale for each kind of task")
