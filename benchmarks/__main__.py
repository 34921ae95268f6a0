"""The command line of the benchmarks: run it at the top of the repository."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fewset.cli.options import DeviceOption, PluginOption, counted, options_of, start
from fewset.cli.output import echo

app = typer.Typer(help="Measurements for the maintainers of fewset.", no_args_is_help=True)

EncoderOption = Annotated[str, typer.Option(help="The encoder of the images.")]
TasksOption = Annotated[int | None, counted("At most this many tasks of a kind.", least=2)]


@app.command()
def classifier(
    plan: Annotated[Path, typer.Argument(help="The sets to measure on: a TOML file.")],
    data: Annotated[Path, typer.Option(help="The folder of the sources that the plan names.")] = Path(),
    page: Annotated[Path | None, typer.Option(help="Write the page of all results to this file.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this set of the plan; repeatable.")
    ] = None,
    encoder: EncoderOption = "auto",
    tasks: TasksOption = None,
    seed: Annotated[int, typer.Option(help="Draws the tasks.")] = 0,
    draw: Annotated[bool, typer.Option("--draw", help="Measure nothing; only write the page.")] = False,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """Measure every head of the classifier on image sets; the records are written beside the plan.

    The sets are embedded once; their features are kept beside the imported sets.

    Example: `python -m benchmarks classifier results/classifier/plan.toml --data ../shared/data`
    """
    start(plugin)
    from benchmarks.classifier.measurement import measure_set, read_plan, write_measurement
    from benchmarks.classifier.page import measured_page
    from fewset.compute.machine import describe
    from fewset.core.errors import refuse_unknown
    from fewset.experiments.run_encoder import load_encoder
    from fewset.io.files import write_text

    planned = {each.name: each for each in read_plan(plan).sets}
    for name in only or ():
        refuse_unknown(f"set of {plan}:", name, planned)
    if not draw:
        loaded, environment = load_encoder(encoder, device), describe()
        for name in only or planned:
            measured = measure_set(planned[name], data, loaded, environment, seed, tasks, echo)
            write_measurement(measured, plan.with_name(f"{name}.json"))
    if page is not None:
        write_text(page, measured_page(plan))


@app.command()
def background(
    kind: Annotated[str, typer.Argument(help="The layout of the source, as for `fewset data import`.")],
    source: Annotated[Path, typer.Argument(help="A directory or zip file.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file of the result, JSON.")],
    background: Annotated[str, typer.Option(help="The split that is the background.")] = "train",
    split: Annotated[str, typer.Option(help="The split whose classes the tasks have.")] = "test",
    encoder: EncoderOption = "auto",
    tasks: TasksOption = None,
    seed: Annotated[int, typer.Option(help="Draws the tasks and the initial weights.")] = 0,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """Measure what `fewset fit --background` gains: FEAT, learned from the classes of one split, on another.

    Example: `python -m benchmarks background cub cub.zip -o results/classifier/background/cub.json`
    """
    start(plugin)
    from benchmarks.classifier.background_gain import measure_background
    from benchmarks.classifier.embedded import SetSource
    from fewset.experiments.run_encoder import load_encoder

    where = [SetSource(kind, source, part) for part in (background, split)]
    for cell in measure_background(where[0], where[1], load_encoder(encoder, device), out, seed, tasks):
        echo(f"{cell.spec.way}-way {cell.spec.shot}-shot: {cell.alone}, with the background {cell.gain}")
        echo(f"  {cell.comparison.in_words}")


@app.command()
def trust(
    folder: Annotated[Path, typer.Argument(help="The folder of the tables of features (.npz).")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file of the result, JSON.")],
    tasks: Annotated[int, counted("Tasks of a kind.", least=2)] = 500,
    seed: Annotated[int, typer.Option(help="Draws the tasks.")] = 0,
) -> None:
    """Measure whether the interval of the accuracy holds: at few shots, and on new occasions.

    Example: `python -m benchmarks trust features/ -o results/classifier/trust.json`
    """
    from benchmarks.classifier.trust_coverage import measure_trust
    from fewset.io.files import write_json

    write_json(out, measure_trust(folder, tasks, seed, echo))


@app.command()
def suggest(
    data: Annotated[Path, typer.Option(help="The folder of the image sets.")] = Path(),
    out: Annotated[Path, typer.Option("--out", "-o", help="The record, JSON.")] = Path(
        "results/classifier/suggest.json"
    ),
    figure: Annotated[Path, typer.Option(help="The figure to draw.")] = Path("docs/static/suggest.png"),
    encoder: EncoderOption = "auto",
    tasks: Annotated[int, counted("Tasks of each set.", least=2)] = 50,
    seed: Annotated[int, typer.Option(help="Draws the tasks.")] = 0,
    draw: Annotated[bool, typer.Option("--draw", help="Measure nothing; only draw the figure.")] = False,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """Measure what `fewset suggest` is worth: accuracy by the number of labels, against random choice.

    Example: `python -m benchmarks suggest --data ../shared/data`
    """
    start(plugin)
    from benchmarks.classifier.suggesting import curves_figure, labels_table, measure_suggest
    from fewset.experiments.run_encoder import load_encoder
    from fewset.io.files import write_bytes, write_text
    from fewset.io.reading import read_json
    from fewset.report.figures import png

    if not draw:
        measured = measure_suggest(data, load_encoder(encoder, device), tasks, seed, echo)
        write_text(out, json.dumps(measured) + "\n")  # in one line: most of it is pairs of numbers
    record = read_json(out)
    write_bytes(figure, png(curves_figure(record)))
    echo(labels_table(record))


def _measure(
    part: Any,
    own: dict[str, Any],
    repetitions: Annotated[int, counted("Repetitions of each side, after one to warm up.")] = 5,
    device: DeviceOption = "auto",
    out: Annotated[Path | None, typer.Option("--out", help="Write the record (JSON) to this file.")] = None,
) -> None:
    from fewset.bench.measuring import Measuring, record_text
    from fewset.io.files import write_json

    record = part(Measuring(repetitions, device), **own)
    if out is None:
        echo(json.dumps(record, indent=2))
    else:
        write_json(out, record)
        echo(record_text(record))


@app.command()
@options_of(_measure)
def serve(
    uploads: Annotated[int, counted("Photos that are uploaded all at once.", least=10)] = 100,
    width: Annotated[int, counted("Width of such a photo in pixels.", least=20, most=20_000)] = 6600,
    height: Annotated[int, counted("Height of such a photo in pixels.", least=15, most=20_000)] = 5000,
    requests: Annotated[int, counted("Requests to classify new photos.")] = 1000,
    clients: Annotated[int, counted("Concurrent clients.", most=10**4)] = 64,
    **shared: Any,
) -> None:
    """Put the server of `fewset serve` under load, against its own encoder.

    Example: `python -m benchmarks serve --out results/performance/serve.json`
    """
    from benchmarks.serve import measure_serve

    own = {"uploads": uploads, "width": width, "height": height, "requests": requests, "clients": clients}
    _measure(measure_serve, own, **shared)


@app.command()
@options_of(_measure)
def methods(
    heads: Annotated[
        list[str] | None, typer.Option("--head", help="One head, default: all on embeddings; repeatable.")
    ] = None,
    dim: Annotated[int, counted("Dimensions of a row.", least=2, most=10**5)] = 64,
    large: Annotated[
        int, counted("Dimensions of a row for the heads that are timed again.", least=2, most=10**5)
    ] = 640,
    way: Annotated[int, counted("Classes in a task.", least=2, most=10**5)] = 5,
    shot: Annotated[int, counted("Labelled items a class.", most=10**5)] = 1,
    query: Annotated[int, counted("Queries a class.", most=10**5)] = 15,
    tasks: Annotated[int, counted("How many tasks.")] = 10_000,
    plain_tasks: Annotated[int, counted("Tasks in a repetition one at a time; it is extrapolated.")] = 30,
    **shared: Any,
) -> None:
    """Time every head on thousands of tasks at once, against one task at a time.

    Example: `python -m benchmarks methods --out results/performance/methods.json`
    """
    from benchmarks.methods import measure_methods

    own = {"heads": tuple(heads or ()), "dim": dim, "large": large, "way": way, "shot": shot, "query": query}
    _measure(measure_methods, {**own, "tasks": tasks, "plain_tasks": plain_tasks}, **shared)


@app.command()
def accuracy(
    table: Annotated[str, typer.Argument(help="A table of features with validation classes.")],
    out: Annotated[Path, typer.Option(help="The records are written to OUT/TABLE.")] = Path(
        "results/paper/methods"
    ),
    pages: Annotated[Path, typer.Option(help="The page is written to PAGES/TABLE.")] = Path(
        "docs/paper/methods"
    ),
    tasks: Annotated[int, counted("How many tasks.", least=2)] = 10_000,
    without: Annotated[
        list[str] | None, typer.Option(metavar="ROW", help="Leave this row out, such as PMN; repeatable.")
    ] = None,
    times: Annotated[bool, typer.Option("--times", help="Also measure how long each method takes.")] = False,
    draw: Annotated[bool, typer.Option("--draw", help="Measure nothing; only write the tables.")] = False,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """Score every method on one table of features, at 1 and 5 shots, with paired differences to FEAT.

    Numbers that are already recorded are not measured again. `fewset embed RUN --val --out FILE.npz` and
    `fewset data import features FILE.npz` make a table.

    Example: `python -m benchmarks accuracy miniimagenet-conv4 --tasks 2000`
    """
    start(plugin)
    from benchmarks.accuracy.embeddings import Embeddings
    from benchmarks.accuracy.measurement import measure_methods, time_methods
    from benchmarks.accuracy.rows import method_rows
    from benchmarks.accuracy.tables import methods_tables, render_methods
    from fewset.compute.devices import pick_device
    from fewset.report.tables import plain_text

    place = out / table
    if not draw:
        embeddings, rows = Embeddings.open(table, pick_device(device)), method_rows(without or [])
        record = measure_methods(rows, embeddings, place, tasks, echo)
        if times:
            time_methods(rows, embeddings, record, place, echo)
    for shown in methods_tables(place):
        echo(plain_text(shown))
    echo("written: " + ", ".join(str(path) for path in render_methods(place, pages / table)))


@app.command()
def scale(
    out: Annotated[Path, typer.Option("--out", "-o", help="The record, JSON.")],
    beside: Annotated[str, typer.Option(help="What else runs on the machine, in words.")],
    photos: Annotated[int, counted("Photos of each run.", most=10**5)] = 600,
) -> None:
    """Measure `fewset predict --shard` with one worker and with two, and its memory at a million names.

    Example: `python -m benchmarks scale --beside nothing -o results/performance/scale.json`
    """
    start()
    from tempfile import TemporaryDirectory

    from benchmarks.scale import measure_scale
    from fewset.io.files import write_json

    with TemporaryDirectory() as directory:
        write_json(out, measure_scale(Path(directory), photos, beside))


@app.command()
def performance(
    records: Annotated[Path, typer.Argument(help="The directory of the records.")] = Path(
        "results/performance"
    ),
    page: Annotated[Path, typer.Option(help="The page to write.")] = Path("docs/performance.md"),
) -> None:
    """Write the page on speed from the kept records.

    Example: `python -m benchmarks performance`
    """
    from benchmarks.performance import performance_page
    from fewset.io.files import write_text

    write_text(page, performance_page(records))


@app.command()
def contents(
    dist: Annotated[Path, typer.Argument(help="The directory of the two files.")] = Path("dist"),
) -> None:
    """Check that the wheel and the source distribution hold what git tracks, and no other file.

    Example: `python -m benchmarks contents dist`
    """
    from benchmarks.distribution import check_contents

    echo(check_contents(dist))


@app.command()
def install(
    wheel: Annotated[Path, typer.Argument(help="The wheel to install.")],
    torch: Annotated[str, typer.Option(help="What pip installs first: a build for the CPU, say.")] = "torch",
    record: Annotated[Path | None, typer.Option(help="Write time and size to this file.")] = None,
) -> None:
    """Install a wheel into an empty environment, and run the README's commands there.

    Example: `python -m benchmarks install dist/fewset-0.1.0-py3-none-any.whl`
    """
    from benchmarks.installation import try_installation
    from fewset.io.files import write_json

    measured = try_installation(wheel, torch, echo)
    if record is not None:
        write_json(record, measured)
    echo(json.dumps(measured, indent=2))


if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
