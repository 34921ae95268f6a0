"""The command line: thin. It turns words into objects, calls the library, and prints what comes back."""

import json
import sys
from pathlib import Path
from pkgutil import iter_modules
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fewset import __version__
from fewset.errors import UserError

app = typer.Typer(
    name="fewset",
    help="Few-shot image recognition by adapting embeddings with set-to-set functions (FEAT).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Import image sets and look at them.", no_args_is_help=True)
app.add_typer(data_app, name="data")
bench_app = typer.Typer(help="Speed, as ratios within one run.", no_args_is_help=True)
app.add_typer(bench_app, name="bench")
console = Console(highlight=False, soft_wrap=True)

RecipeArgument = Annotated[str, typer.Argument(help="A TOML file, or the name of a shipped recipe.")]
RunArgument = Annotated[Path, typer.Argument(help="A run directory.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the recipe; repeatable."),
]
RunsOption = Annotated[Path, typer.Option(help="Where run directories live; --out overrides it.")]
OutOption = Annotated[Path | None, typer.Option(help="The run directory; default: RUNS/NAME of the recipe.")]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Go on from the last checkpoint, if there is one.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Start anew over an existing run.")]
PluginOption = Annotated[
    list[Path] | None,
    typer.Option(
        envvar="FEWSET_PLUGINS", help="A Python file with your own adapters; it is executed. Repeatable."
    ),
]
# The names of the files, which takes no import: help is quick.
_KINDS = ", ".join(
    module.name for module in iter_modules([str(Path(__file__).parent / "data" / "importers")])
)
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
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


def main() -> None:
    """Entry point: a user's error is one line and exit code 2; anything else keeps its traceback."""
    try:
        app()
    except UserError as error:
        Console(stderr=True, highlight=False, soft_wrap=True).print(
            f"[red]error:[/red] {_escape(str(error))}"
        )
        sys.exit(2)


def _say(text: str) -> None:
    console.print(text, markup=False)


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _start(plugins: list[Path] | None = None) -> None:
    """What every command that computes does first."""
    from fewset.machine import tune

    tune()
    for plugin in plugins or []:
        from fewset.plugins import load_plugin

        load_plugin(plugin)


def _version(asked: bool) -> bool:
    if asked:
        _say(f"fewset {__version__}")
        raise typer.Exit
    return asked


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None: ...


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where the runs and the report go.")] = Path("fewset-demo"),
) -> None:
    """From nothing to a report: pre-train, meta-train ProtoNet and FEAT, 10,000 tasks each.

    Example: `fewset demo --out demo`
    """
    from fewset.demo import demo as run_demo

    _start()
    run_demo(out, _say)


def _execute(
    kind: Any,
    recipe: str,
    overrides: list[str] | None,
    runs: Path,
    out: Path | None,
    resume: bool,
    force: bool,
) -> None:
    from fewset.recipes import find_recipe, read_recipe
    from fewset.runs import execute

    parsed = read_recipe(find_recipe(recipe), overrides or [])
    directory = out or runs / parsed.name
    try:
        _print_result(execute(parsed, kind, directory, resume=resume, force=force))
    except KeyboardInterrupt:
        _say(f"stopped; the same command with --resume goes on in {directory}")
        raise
    _say(f"run: {directory}")


def _print_result(result: dict[str, Any]) -> None:
    tasks = f"{result['way']}-way {result['shot']}-shot, {result['tasks']:,} tasks"
    place = f"{result['data']}/{result['split']}"
    if result["setting"] != "standard":
        tasks = f"{result['setting']}, {tasks}"
    if result["before"]:
        _say(f"before adaptation: {_percent(result['before'])}")
    for name, score in result.get("scores", {}).items():
        _say(f"{name.replace('_', ' ')}: {_percent(score)}")
    if "calibration" in result:
        _say(
            f"constant: {result['calibration']['constant']}, area of the curve: {result['curve']['area']:.4f}"
        )
    _say(f"{result['method']} on {place}, {tasks}: {_percent(result)}")


def _percent(score: dict[str, Any]) -> str:
    return f"{100 * score['mean']:.2f} ± {100 * score['ci95']:.2f} %"


@app.command()
def pretrain(
    recipe: RecipeArgument,
    overrides: SetOption = None,
    runs: RunsOption = Path("runs"),
    out: OutOption = None,
    resume: ResumeOption = False,
    force: ForceOption = False,
) -> None:
    """Train a backbone to classify the classes of the train split.

    Example: `fewset pretrain strokes/pretrain --set pretrain.epochs=10`
    """
    _start()
    _execute("pretrain", recipe, overrides, runs, out, resume, force)


@app.command()
def train(
    recipe: RecipeArgument,
    overrides: SetOption = None,
    runs: RunsOption = Path("runs"),
    out: OutOption = None,
    resume: ResumeOption = False,
    force: ForceOption = False,
    plugin: PluginOption = None,
) -> None:
    """Meta-train a whole model on sampled tasks.

    Example: `fewset train strokes/feat --set train.shot=5 --out runs/feat-5shot`
    """
    _start(plugin)
    _execute("train", recipe, overrides, runs, out, resume, force)


@app.command("eval")
def evaluate(
    run: RunArgument,
    data: Annotated[str | None, typer.Option(help="An imported set; default: the recipe's.")] = None,
    split: Annotated[str | None, typer.Option(help="train, val or test; default: the recipe's.")] = None,
    domain: Annotated[str | None, typer.Option(help="One domain of the set.")] = None,
    way: Annotated[int | None, typer.Option(help="Classes in a task.")] = None,
    shot: Annotated[int | None, typer.Option(help="Labelled items a class.")] = None,
    query: Annotated[int | None, typer.Option(help="Queries a class.")] = None,
    tasks: Annotated[int | None, typer.Option(help="How many tasks.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the tasks.")] = None,
    setting: Annotated[
        str, typer.Option(help="standard, transductive, generalised or cross-domain.")
    ] = "standard",
    variant: Annotated[
        str | None,
        typer.Option(
            help="Transductive: dagger (default), dagger-adapted-queries, double-dagger, "
            "double-dagger-published or semi-protonet."
        ),
    ] = None,
    support_domain: Annotated[
        str | None, typer.Option(help="Cross-domain: where the labelled items are from.")
    ] = None,
    query_domain: Annotated[
        str | None, typer.Option(help="Cross-domain: where the queries are from.")
    ] = None,
    fixed_seen: Annotated[
        bool | None,
        typer.Option("--fixed-seen", help="Generalised: leave the prototypes of the seen classes unadapted."),
    ] = None,
    seen_query: Annotated[
        int | None, typer.Option(min=1, help="Generalised: queries a seen class; default: as --query.")
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(help="Generalised: what the constant maximises, harmonic (default) or combined."),
    ] = None,
    validation_tasks: Annotated[
        int | None,
        typer.Option(min=1, help="Generalised: tasks that the constant is chosen on; default: 600."),
    ] = None,
    plugin: PluginOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score a run on sampled tasks; what is not given comes from its recipe.

    Example: `fewset eval runs/strokes-feat --way 10 --shot 5`
    """
    from fewset.results import evaluate_run

    _start(plugin)
    given = {"way": way, "shot": shot, "query": query, "tasks": tasks, "seed": seed}
    numbers = {key: value for key, value in given.items() if value is not None}
    own = {
        "variant": variant,
        "support_domain": support_domain,
        "query_domain": query_domain,
        "fixed_seen": fixed_seen,
        "seen_query": seen_query,
        "objective": objective,
        "validation_tasks": validation_tasks,
    }
    options = {key: value for key, value in own.items() if value is not None}
    result = evaluate_run(
        run, setting=setting, options=options, data=data, split=split, domain=domain, **numbers
    )
    if as_json:
        print(json.dumps(result, indent=2))
    else:
        _print_result(result)


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Two or more runs; the first is the baseline.")],
) -> None:
    """Paired differences on the same tasks, with their intervals.

    Example: `fewset compare runs/strokes-protonet runs/strokes-feat`
    """
    from fewset.report.results import read_results
    from fewset.report.tables import comparison_table, plain_text

    if len(runs) < 2:
        raise UserError(f"compare needs two or more runs, got {len(runs)}")
    _say(plain_text(comparison_table(read_results(runs), baseline=0)))


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.")],
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("report"),
) -> None:
    """One self-contained HTML page with tables and plots, and their files.

    Example: `fewset report runs/strokes-protonet runs/strokes-feat --out report`
    """
    from fewset.report.page import build_report

    console.print(f"report: {build_report(runs, out)}")


@app.command()
def results(
    directory: Annotated[Path, typer.Argument(help="The collection.")] = Path("docs/results"),
    add: Annotated[list[Path] | None, typer.Option(help="A finished run to keep; repeatable.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Only check that the page is up to date.")] = False,
) -> None:
    """Keep the results of runs, and make the page of a collection from its files.

    Example: `fewset results docs/results --add runs/strokes-feat`
    """
    from fewset.report.collection import check_page, keep, write_page

    keep(add or [], directory)
    if check:
        check_page(directory)
    else:
        _say(f"page: {write_page(directory)}")


@app.command()
def params() -> None:
    """The paper's table of parameters: each set-to-set function at 64 and 640 dimensions, computed.

    Example: `fewset params`
    """
    from fewset.adapters import ADAPTERS, count_parameters

    table = Table("adapter", "d = 64 (ConvNet)", "d = 640 (ResNet-12, WRN)")
    for name, adapter in sorted(ADAPTERS.items()):
        table.add_row(name, *(f"{count_parameters(adapter(dim)):,}" for dim in (64, 640)))
    console.print(table)


@app.command("import-weights")
def import_weights(
    file: Annotated[Path, typer.Argument(help="A .pth file in the layout of the FEAT authors.")],
    method: Annotated[
        str,
        typer.Option(
            help="ProtoNet, MatchNet, FEAT, DeepSet, GCN, BILSTM, SemiFEAT or SemiProtoFEAT; "
            "ProtoNet for a file of pre-training."
        ),
    ],
    backbone: Annotated[str, typer.Option(help="ConvNet, Res12, Res18 or WRN.")],
    out: Annotated[Path, typer.Option(help="The run directory.")],
    temperature: Annotated[float, typer.Option(help="What the logits are divided by.")] = 1.0,
    similarity: Annotated[
        str, typer.Option(help="euclidean or cosine; MatchNet is always by cosine.")
    ] = "euclidean",
    data: Annotated[str, typer.Option(help="The set that `fewset eval` scores it on.")] = "miniimagenet",
    shot: Annotated[int, typer.Option(help="The shots that `fewset eval` scores it with.")] = 1,
    force: ForceOption = False,
) -> None:
    """Make a run of a checkpoint that the authors of FEAT published; no code in the file is run.

    Example: `fewset import-weights feat-1-shot.pth --method FEAT --backbone ConvNet --temperature 64
    --out runs/published-feat`
    """
    from fewset import authors

    _start()
    recipe = authors.import_weights(
        file,
        out,
        method=method,
        backbone=backbone,
        temperature=temperature,
        similarity=similarity,
        data=data,
        shot=shot,
        force=force,
    )
    head = ", ".join(f"{key} {value}" for key, value in recipe.model.head_options.items())
    _say(f"{method}: {recipe.model.backbone}, {recipe.model.adapter}, {recipe.model.head} ({head})")
    _say(f"run: {out}; score it with `fewset eval {out}`")


@data_app.command("import")
def data_import(
    kind: Annotated[str, typer.Argument(help=f"The layout: {_KINDS}.")],
    source: Annotated[Path, typer.Argument(help="A directory or a zip file.")],
    name: Annotated[
        str | None, typer.Option(help="The name of the set; default: that of the source.")
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            min=8, max=1024, help="Stored pixels a side; default: 92, or what is usual for the kind."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the class split, where the source has none.")] = 0,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out images that cannot be read.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a set of that name.")] = False,
) -> None:
    """Decode the images of a directory or zip file once, into the store.

    Example: `fewset data import folder photos/ --name birds`
    """
    from fewset.data.importers import import_set

    images = import_set(kind, source, name, size=size, seed=seed, skip_bad=skip_bad, replace=force)
    _print_set(images.name)


@data_app.command("list")
def data_list() -> None:
    """The imported sets.

    Example: `fewset data list`
    """
    from fewset.data.store import GENERATED, home, list_sets, open_set

    table = Table("name", "items", "classes", "size", "train / val / test")
    for name in sorted({*list_sets(), *GENERATED}):
        if name in list_sets():
            manifest = open_set(name).manifest
            counts = " / ".join(f"{split['items']:,}" for split in manifest["counts"].values())
            table.add_row(
                name,
                f"{manifest['items']:,}",
                f"{len(manifest['class_names']):,}",
                str(manifest["size"]),
                counts,
            )
        else:
            table.add_row(name, "", "", "", "made when first used")
    console.print(table)
    console.print(f"in {home() / 'sets'}")


@data_app.command("info")
def data_info(name: Annotated[str, typer.Argument(help="An imported set.")]) -> None:
    """What a set holds and where it came from.

    Example: `fewset data info strokes`
    """
    _print_set(name)


@data_app.command("verify")
def data_verify(
    name: Annotated[str, typer.Argument(help="An imported set.")],
    sheet: Annotated[
        Path | None, typer.Option(help="Write a contact sheet (PNG): images of some classes.")
    ] = None,
) -> None:
    """Read every byte of a set and compare with its digest; warn of what a well-known set should not be.

    Example: `fewset data verify strokes --sheet strokes.png`
    """
    from fewset.data.sheet import contact_sheet
    from fewset.data.store import open_set
    from fewset.files import write_bytes

    images = open_set(name)
    images.verify()
    _print_set(name)
    _say("every byte is as it was written")
    if sheet is not None:
        write_bytes(sheet, contact_sheet(images))
        _say(f"contact sheet: {sheet}")


def _print_set(name: str) -> None:
    from fewset.data.known import warnings_for
    from fewset.data.store import open_set

    images = open_set(name)
    manifest = images.manifest
    table = Table("split", "classes", "items", title=images.name)
    for split, counts in manifest["counts"].items():
        table.add_row(split, f"{counts['classes']:,}", f"{counts['items']:,}")
    console.print(table)
    if images.domain_names:
        _say(f"domains: {', '.join(images.domain_names)}")
    if manifest["skipped"]:
        _say(f"left out: {len(manifest['skipped']):,} bad images")
        for line in manifest["skipped"][:10]:
            _say(f"  {line}")
    _say(f"size: {manifest['size']} px; source: {manifest['source']}")
    _say(f"digest: {images.digest}")
    _say(f"path: {images.path}")
    for line in warnings_for(images):
        _say(f"warning: {line}")


@bench_app.command("evaluate")
def bench_evaluate(
    data: BenchDataOption = "strokes",
    split: Annotated[str, typer.Option(help="train, val or test.")] = "test",
    backbone: BackboneOption = "conv4",
    size: SizeOption = None,
    run: Annotated[
        str | None, typer.Option(help="A run directory: its model instead of random weights.")
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


@bench_app.command("train")
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


@bench_app.command("data")
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


@bench_app.command("page")
def bench_page(
    directory: Annotated[Path, typer.Argument(help="The records.")] = Path("docs/performance"),
    check: Annotated[bool, typer.Option("--check", help="Only check that the page is up to date.")] = False,
) -> None:
    """Make the page of the records in a directory; it lies beside the directory.

    Example: `fewset bench page docs/performance`
    """
    from fewset.bench.page import check_page, write_page

    if check:
        check_page(directory)
    else:
        _say(f"page: {write_page(directory)}")


def _print_record(record: dict[str, Any], as_json: bool, out: Path | None) -> None:
    from fewset.bench.page import record_text
    from fewset.files import write_json

    if out is not None:
        write_json(out, record)
    if as_json:
        print(json.dumps(record, indent=2))
    else:
        _say(record_text(record))
