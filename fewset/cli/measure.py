"""How good the classifier is, measured on labelled image sets."""

from pathlib import Path
from typing import Annotated

import typer

from fewset.cli.options import DeviceOption, PluginOption, counted
from fewset.cli.output import echo
from fewset.cli.start import start
from fewset.core.errors import refuse_unknown

PANEL = "Classify"
commands = typer.Typer()


@commands.command()
def measure(
    plan: Annotated[Path, typer.Argument(help="The sets to measure on: a TOML file.")],
    data: Annotated[Path, typer.Option(help="The folder of the sources that the plan names.")] = Path(),
    out: Annotated[
        Path | None, typer.Option(help="The folder of the results; default: that of the plan.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this set of the plan; repeatable.")
    ] = None,
    encoder: Annotated[str, typer.Option(help="What turns the images into features.")] = "auto",
    tasks: Annotated[int | None, counted("At most so many tasks of a kind.", least=2)] = None,
    seed: Annotated[int, typer.Option(help="Draws the tasks.")] = 0,
    draw: Annotated[
        bool, typer.Option("--draw", help="Only make the page of what is measured already.")
    ] = False,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """Measure every head of the classifier on image sets, and make the page of the results.

    The sets are embedded once; their features are kept beside the imported sets. The page is named after the
    folder of the results, and lies beside it.

    Example: `fewset measure docs/classifier/plan.toml --data ../shared/data`
    """
    start(plugin)
    from fewset.classify.measure.measurement import measure_set, read_plan, write_measurement
    from fewset.compute.machine import describe
    from fewset.experiments.run_encoder import load_encoder
    from fewset.report.classifier_page import write_measured_page

    planned = {each.name: each for each in read_plan(plan).sets}
    for name in only or ():
        refuse_unknown(f"set of {plan}:", name, planned)
    out = out or plan.parent
    if not draw:
        loaded, environment = load_encoder(encoder, device), describe()
        for name in only or planned:
            measured = measure_set(planned[name], data, loaded, environment, seed, tasks, echo)
            write_measurement(measured, out / f"{name}.json")
    echo(f"written: {write_measured_page(plan, out)}")


@commands.command("measure-gain")
def measure_background(
    kind: Annotated[str, typer.Argument(help="The layout of the source, as for `fewset data import`.")],
    source: Annotated[Path, typer.Argument(help="A directory or zip file.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file of the result, JSON.")],
    background: Annotated[str, typer.Option(help="The split that is the background.")] = "train",
    split: Annotated[str, typer.Option(help="The split whose classes are told apart.")] = "test",
    encoder: Annotated[str, typer.Option(help="What turns the images into features.")] = "auto",
    tasks: Annotated[int | None, counted("At most so many tasks of a kind.", least=2)] = None,
    seed: Annotated[int, typer.Option(help="Draws the tasks and the initial weights.")] = 0,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """Measure what `fewset fit --background` gains: FEAT, learned from the classes of one split, on another.

    Example: `fewset measure-gain cub cub.zip -o docs/classifier/background/cub.json`
    """
    start(plugin)
    from fewset.classify.embedding import files_of
    from fewset.classify.measure.background_gain import measure_background as measured
    from fewset.classify.measure.embedded import SetSource
    from fewset.classify.photos.sources import check_no_photo
    from fewset.experiments.run_encoder import load_encoder
    from fewset.io.files import check_output

    check_output(out, [source, *files_of(encoder), *(plugin or ())])
    check_no_photo(out)
    where = [SetSource(kind, source, part) for part in (background, split)]
    for cell in measured(where[0], where[1], load_encoder(encoder, device), out, seed, tasks):
        echo(f"{cell.spec.way}-way {cell.spec.shot}-shot: {cell.alone}, with the background {cell.gain}")
        echo(f"  {cell.comparison.in_words}")
    echo(f"written: {out}")
