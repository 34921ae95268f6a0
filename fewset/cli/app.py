"""The command line: thin. It turns words into objects, calls the library, and prints what comes back."""

import json
import sys
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from fewset import __version__
from fewset.runtime import distributed
from fewset.runtime.errors import UserError, unknown_name

if TYPE_CHECKING:
    from fewset.data.features.table import FeatureTable
    from fewset.data.images.store import ImageSet

app = typer.Typer(
    name="fewset",
    help="Few-shot image recognition by adapting embeddings with set-to-set functions (FEAT).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(
    help="Import image sets and tables of features, and look at them.", no_args_is_help=True
)
app.add_typer(data_app, name="data")
bench_app = typer.Typer(help="Speed, as ratios within one run.", no_args_is_help=True)
app.add_typer(bench_app, name="bench")
console = Console(highlight=False, soft_wrap=True)

RecipesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="RECIPE...", help="A TOML file, or the name of a shipped recipe. Several run one by one."
    ),
]
RunArgument = Annotated[Path, typer.Argument(help="A run directory, or the name of a released model.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the recipe; repeatable."),
]
RUNS = Path("runs")
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
_IMPORTERS = [
    module.name for module in iter_modules([str(Path(__file__).parents[1] / "data" / "images" / "importers")])
]
_KINDS = sorted([*_IMPORTERS, "features"])
NameArgument = Annotated[str, typer.Argument(help="An imported set, or a table of features.")]
DeviceOption = Annotated[
    str, typer.Option(help="Where to compute: cpu, cuda, cuda:1, or auto (a GPU where there is one).")
]
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
    """Entry point: a user's error is one line and exit code 2; anything else keeps its traceback.

    Under torchrun this is one of several processes: all meet a user's error, and the first one tells.
    """
    with distributed.session():
        try:
            app()
        except UserError as error:
            if distributed.is_main_process():
                _print_error(error)
            sys.exit(2)
        except distributed.LostProcess as error:
            _print_error(error)
            sys.exit(1)


def _print_error(error: Exception) -> None:
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"[red]error:[/red] {_escape(str(error))}")


def echo(text: str) -> None:
    console.print(text, markup=False)


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _start(plugins: list[Path] | None = None) -> None:
    """What every command that computes does first."""
    from fewset.runtime.machine import tune

    tune()
    for plugin in plugins or []:
        from fewset.experiments.plugins import load_plugin

        load_plugin(plugin)


def _version(asked: bool) -> bool:
    if asked:
        echo(f"fewset {__version__}")
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
    device: DeviceOption = "auto",
) -> None:
    """From nothing to a report: pre-train, meta-train ProtoNet and FEAT, 10,000 tasks each.

    Example: `fewset demo --out demo`
    """
    from fewset.paper.demo import demo as run_demo

    _start()
    run_demo(out, echo, device)


def _execute(
    kind: Any,
    recipes: list[str],
    overrides: list[str] | None,
    runs: Path,
    out: Path | None,
    resume: bool,
    force: bool,
    device: str,
) -> None:
    from fewset.experiments.execute import execute
    from fewset.experiments.recipes import find_recipe, read_recipe

    # All are read before the first one trains: a wrong name is found at once.
    parsed = [read_recipe(find_recipe(recipe), overrides or []) for recipe in recipes]
    directories = [out or runs / recipe.name for recipe in parsed]
    if len(set(directories)) < len(directories):
        raise UserError(
            f"{len(recipes)} recipes, but {len(set(directories))} run directories: leave out --out and "
            "--set name=NAME where several recipes run, and give each recipe once"
        )
    for recipe, directory in zip(parsed, directories, strict=True):
        try:
            result = execute(recipe, kind, directory, resume=resume, force=force, device=device, echo=echo)
        except KeyboardInterrupt:
            echo(f"stopped; the same command with --resume goes on in {directory}")
            raise
        _print_result(result)
        echo(f"run: {directory}")


def _print_result(result: dict[str, Any]) -> None:
    tasks = f"{result['way']}-way {result['shot']}-shot, {result['tasks']:,} tasks"
    place = f"{result['data']}/{result['split']}"
    if result["setting"] != "standard":
        tasks = f"{result['setting']}, {tasks}"
    if result["before"]:
        echo(f"before adaptation: {_percent(result['before'])}")
    for name, score in result.get("scores", {}).items():
        echo(f"{name.replace('_', ' ')}: {_percent(score)}")
    if "calibration" in result:
        echo(
            f"constant: {result['calibration']['constant']}, area of the curve: {result['curve']['area']:.4f}"
        )
    echo(f"{result['method']} on {place}, {tasks}: {_percent(result)}")


def _percent(score: dict[str, Any]) -> str:
    return f"{100 * score['mean']:.2f} ± {100 * score['ci95']:.2f} %"


@app.command()
def pretrain(
    recipes: RecipesArgument,
    overrides: SetOption = None,
    runs: RunsOption = RUNS,
    out: OutOption = None,
    resume: ResumeOption = False,
    force: ForceOption = False,
    device: DeviceOption = "auto",
) -> None:
    """Train a backbone to classify the classes of the train split.

    Example: `fewset pretrain strokes/pretrain --set pretrain.epochs=10`
    """
    _start()
    _execute("pretrain", recipes, overrides, runs, out, resume, force, device)


@app.command()
def train(
    recipes: RecipesArgument,
    overrides: SetOption = None,
    runs: RunsOption = RUNS,
    out: OutOption = None,
    resume: ResumeOption = False,
    force: ForceOption = False,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """Meta-train a whole model on sampled tasks.

    Example: `fewset train strokes/feat --set train.shot=5 --out runs/feat-5shot`
    """
    _start(plugin)
    _execute("train", recipes, overrides, runs, out, resume, force, device)


@app.command("eval")
def evaluate(
    run: RunArgument,
    data: Annotated[
        str | None, typer.Option(help="An imported set, or a table of features; default: the recipe's.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="train, val or test; default: the recipe's.")] = None,
    domain: Annotated[str | None, typer.Option(help="One domain of the set.")] = None,
    way: Annotated[int | None, typer.Option(help="Classes in a task.")] = None,
    shot: Annotated[int | None, typer.Option(help="Labelled items a class.")] = None,
    query: Annotated[int | None, typer.Option(help="Queries a class.")] = None,
    tasks: Annotated[int | None, typer.Option(help="How many tasks; low-shot: trials.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the tasks.")] = None,
    setting: Annotated[
        str | None,
        typer.Option(
            help="standard (default), transductive, generalised or cross-domain; for a run on a table of "
            "features: low-shot."
        ),
    ] = None,
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
    prior: Annotated[
        str | None,
        typer.Option(
            help="Low-shot: the probability that a query is of an unseen class (default: 0.8), or auto: "
            "chosen on the validation setup."
        ),
    ] = None,
    setup: Annotated[
        str | None,
        typer.Option(
            help="Low-shot: the classes of one setup, validation or test; default: all classes of the table."
        ),
    ] = None,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score a run on sampled tasks; what is not given comes from its recipe.

    A released model is copied to `runs/NAME` first, and its results go there.

    Example: `fewset eval runs/strokes-feat --way 10 --shot 5`
    """
    from fewset.experiments.evaluate import evaluate_run
    from fewset.experiments.zoo import run_of

    _start(plugin)
    directory = run_of(run, RUNS)
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
        "prior": prior,
        "setup": setup,
    }
    options = {key: value for key, value in own.items() if value is not None}
    result = evaluate_run(
        directory,
        setting=setting,
        options=options,
        data=data,
        split=split,
        domain=domain,
        device=device,
        **numbers,
    )
    if as_json:
        print(json.dumps(result, indent=2))
    else:
        _print_result(result)
        if directory != run:
            echo(f"run: {directory}")


@app.command()
def embed(
    run: RunArgument,
    out: Annotated[Path, typer.Option(help="The file to write: .npz, .h5 or .hdf5.")],
    data: Annotated[str | None, typer.Option(help="An imported image set; default: the recipe's.")] = None,
    val: Annotated[
        bool,
        typer.Option("--val", help="With the val classes, as the unseen classes of a validation setup."),
    ] = False,
    plugin: PluginOption = None,
) -> None:
    """Write the embeddings of an image set as a file of features: train classes seen, test classes unseen.

    Example: `fewset embed runs/strokes-pretrain --out strokes.npz`
    """
    from fewset.experiments.embed_set import embed_set
    from fewset.experiments.zoo import find_model

    _start(plugin)
    rows, dim = embed_set(find_model(run), out, data, val)
    echo(f"{out}: {rows:,} rows of {dim:,} numbers; import it with `fewset data import features {out}`")


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
    echo(plain_text(comparison_table(read_results(runs), baseline=0)))


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
    from fewset.paper.collection import check_page, keep, write_page

    keep(add or [], directory)
    if check:
        check_page(directory)
    else:
        echo(f"page: {write_page(directory)}")


OnOption = Annotated[
    str,
    typer.Option(help="Which recipes: the beginning of their names, such as strokes or miniimagenet/conv4."),
]
StudyTasksOption = Annotated[
    int | None, typer.Option(min=2, help="How many tasks a number is over; default: the recipe's.")
]
StudyOutOption = Annotated[Path, typer.Option(help="Where the tables and figures go.")]


@app.command()
def paper(
    name: Annotated[
        str | None, typer.Argument(help="A table or figure; without one, all of them are listed.")
    ] = None,
    on: OnOption = "strokes",
    overrides: SetOption = None,
    runs: RunsOption = RUNS,
    out: StudyOutOption = Path("paper"),
    tasks: StudyTasksOption = None,
    features: Annotated[
        str | None,
        typer.Option(help="Low-shot: a table of features; default: the set as its backbone embeds it."),
    ] = None,
    draw: Annotated[
        bool, typer.Option("--draw", help="Only draw what the study's file already holds.")
    ] = False,
    plugin: PluginOption = None,
) -> None:
    """A table or figure of the paper: makes the runs that are missing, goes on where it was stopped.

    Example: `fewset paper transductive --on strokes`
    """
    from fewset.paper.catalogue import STUDIES

    if name is None:
        _list_studies(STUDIES)
    elif features is not None and name != "low-shot":
        raise UserError(f"--features is not an option of {name}; leave it out, or take low-shot")
    else:
        _study(name, STUDIES, on, overrides, runs, out, tasks, plugin, features, draw)


@app.command()
def ablate(
    name: Annotated[
        str | None, typer.Argument(help="An ablation; without one, all of them are listed.")
    ] = None,
    on: OnOption = "strokes",
    overrides: SetOption = None,
    runs: RunsOption = RUNS,
    out: StudyOutOption = Path("paper"),
    tasks: StudyTasksOption = None,
    plugin: PluginOption = None,
) -> None:
    """An ablation of the paper: runs its grid, goes on where it was stopped, writes the table.

    Example: `fewset ablate heads --on strokes`
    """
    from fewset.paper.catalogue import ABLATIONS

    if name is None:
        _list_studies(ABLATIONS)
    else:
        _study(name, ABLATIONS, on, overrides, runs, out, tasks, plugin)


def _list_studies(studies: dict[str, Any]) -> None:
    table = Table("name", "what it shows")
    for name, study in studies.items():
        table.add_row(name, (study.__doc__ or "").splitlines()[0])
    console.print(table)


def _study(
    name: str,
    studies: dict[str, Any],
    on: str,
    overrides: list[str] | None,
    runs: Path,
    out: Path,
    tasks: int | None,
    plugins: list[Path] | None,
    features: str | None = None,
    draw: bool = False,
) -> None:
    from fewset.paper.render import render_study, study_tables
    from fewset.paper.study import read_study
    from fewset.report.tables import plain_text

    if name not in studies:
        raise unknown_name("study", name, studies)
    file = out / name / f"{name}.json"
    pictures: list[Path] = []
    if not draw:
        from fewset.paper.make import run_study
        from fewset.paper.runner import StudyRunner

        _start(plugins)
        runner = StudyRunner(on, runs, overrides or [], tasks, features, echo=echo)
        try:
            plan = studies[name](runner)
            run_study(name, plan, runner, file)
            pictures = plan.pictures(file.parent)
        except KeyboardInterrupt:
            echo("stopped; the same command goes on from here")
            raise
    written = [*render_study(file), *pictures]
    for table in study_tables(read_study(file)):
        echo(plain_text(table))
    echo("written: " + ", ".join(str(path) for path in (file, *written)))


@app.command()
def params() -> None:
    """The paper's table of parameters: each set-to-set function at 64 and 640 dimensions, computed.

    Example: `fewset params`
    """
    from fewset.models.adapters import ADAPTERS, count_parameters

    table = Table("adapter", "d = 64 (ConvNet)", "d = 640 (ResNet-12, WRN)")
    for name, adapter in sorted(ADAPTERS.items()):
        table.add_row(name, *(f"{count_parameters(adapter(dim)):,}" for dim in (64, 640)))
    console.print(table)


@app.command()
def weights() -> None:
    """The released models, which come with fewset: names for `fewset eval`, `fewset.load` and `train.init`.

    Example: `fewset weights`
    """
    from fewset.experiments.recipes import read_recipe
    from fewset.experiments.run_directory import RECIPE, WEIGHTS
    from fewset.experiments.zoo import released_models
    from fewset.runtime.packaged import packaged_directory

    titles = ("method", "backbone", "data", "trained on", "size")
    table = Table(Column("name", no_wrap=True), *(Column(title, overflow="fold") for title in titles))
    for name, model in released_models().items():
        recipe = read_recipe(model / RECIPE)
        train, size = recipe.train, (model / WEIGHTS).stat().st_size
        tasks = f"{train.way}-way {train.shot}-shot" if train and train.epochs else "all classes"
        parts = (recipe.method, recipe.model.backbone, recipe.data.set, tasks)
        table.add_row(name, *parts, f"{size / 1000:,.0f} kB")
    console.print(table)
    console.print(f"in {packaged_directory('weights')}")


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
    from fewset.experiments import authors

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
    echo(f"{method}: {recipe.model.backbone}, {recipe.model.adapter}, {recipe.model.head} ({head})")
    echo(f"run: {out}; score it with `fewset eval {out}`")


@data_app.command("import")
def data_import(
    kind: Annotated[str, typer.Argument(help=f"The layout: {', '.join(_KINDS)}.")],
    source: Annotated[
        Path,
        typer.Argument(help="A directory or a zip file; features: an HDF5 or NPZ file, or a directory."),
    ],
    name: Annotated[
        str | None, typer.Option(help="The name of the set; default: that of the source.")
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            min=8, max=1024, help="Stored pixels a side; default: 92, or what is usual for the kind."
        ),
    ] = None,
    held_out: Annotated[
        float | None,
        typer.Option(help="Features: the share of each class that become queries; default: 0.2."),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Seed of the class split, or of the queries, where the source has none.")
    ] = 0,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out images that cannot be read.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a set of that name.")] = False,
) -> None:
    """Decode the images of a directory or zip file once, into the store; or copy a table of features.

    Example: `fewset data import folder photos/ --name birds`
    """
    if kind not in _KINDS:
        raise unknown_name("kind of source", kind, _KINDS)
    of_images = {"--size": size is not None, "--skip-bad": skip_bad}
    for option, given in of_images.items() if kind == "features" else [("--held-out", held_out is not None)]:
        if given:
            raise UserError(f"{option} is not an option of the kind {kind}; leave it out")
    if kind == "features":
        from fewset.data.features.importer import HELD_OUT, import_features

        share = HELD_OUT if held_out is None else held_out
        _print_table(import_features(source, name, held_out=share, seed=seed, replace=force))
    else:
        from fewset.data.images.importing import import_set

        _print_set(import_set(kind, source, name, size=size, seed=seed, skip_bad=skip_bad, replace=force))


@data_app.command("list")
def data_list() -> None:
    """The imported sets and tables of features.

    Example: `fewset data list`
    """
    from fewset.data.features.table import list_features, open_features
    from fewset.data.images.store import GENERATED, home, list_sets, open_set

    sets = Table("name", "items", "classes", "size", "train / val / test")
    for name in sorted({*list_sets(), *GENERATED}):
        if name in list_sets():
            manifest = open_set(name).manifest
            counts = " / ".join(f"{split['items']:,}" for split in manifest["counts"].values())
            sets.add_row(
                name,
                f"{manifest['items']:,}",
                f"{len(manifest['class_names']):,}",
                str(manifest["size"]),
                counts,
            )
        else:
            sets.add_row(name, "", "", "", "made when first used")
    console.print(sets)
    tables = Table("features", "rows", "numbers a row", "seen / unseen classes")
    for name in list_features():
        manifest = open_features(name).manifest
        classes = " / ".join(f"{split['classes']:,}" for split in manifest["counts"].values())
        tables.add_row(name, f"{manifest['rows']:,}", f"{manifest['dim']:,}", classes)
    if tables.rows:
        console.print(tables)
    console.print(f"in {home()}")


@data_app.command("info")
def data_info(name: NameArgument) -> None:
    """What a set or a table of features holds and where it came from.

    Example: `fewset data info strokes`
    """
    for found in _imported(name):
        _print_data(found)


@data_app.command("verify")
def data_verify(
    name: NameArgument,
    sheet: Annotated[
        Path | None, typer.Option(help="Write a contact sheet (PNG): images of some classes.")
    ] = None,
) -> None:
    """Read every byte of a set and compare with its digest; warn of what a well-known set should not be.

    Example: `fewset data verify strokes --sheet strokes.png`
    """
    from fewset.data.images.contact_sheet import contact_sheet
    from fewset.data.images.store import ImageSet
    from fewset.runtime.files import write_bytes

    imported = _imported(name)
    if sheet is not None and not isinstance(imported[0], ImageSet):
        raise UserError(f"{name!r} is a table of features, which has no images for a --sheet; leave it out")
    for found in imported:
        found.verify()
        _print_data(found)
        echo("every byte is as it was written")
        if sheet is not None and isinstance(found, ImageSet):
            write_bytes(sheet, contact_sheet(found))
            echo(f"contact sheet: {sheet}")


def _imported(name: str) -> "list[ImageSet | FeatureTable]":
    """What has this name: an image set, a table of features, or one of each, the image set first."""
    from fewset.data.features.table import list_features, open_features
    from fewset.data.images.store import GENERATED, list_sets, open_set

    if Path(name).name != name:  # a path
        return [open_features(name) if (Path(name) / "features.npy").exists() else open_set(name)]
    sets, tables = {*list_sets(), *GENERATED}, list_features()
    if name not in (*sets, *tables):
        raise unknown_name("image set or table of features", name, {*sets, *tables})
    return [*([open_set(name)] if name in sets else []), *([open_features(name)] if name in tables else [])]


def _print_data(found: "ImageSet | FeatureTable") -> None:
    from fewset.data.images.store import ImageSet

    if isinstance(found, ImageSet):
        _print_set(found)
    else:
        _print_table(found)


def _print_set(images: "ImageSet") -> None:
    from fewset.data.images.well_known import warnings_for

    manifest = images.manifest
    table = Table("split", "classes", "items", title=images.name)
    for split, counts in manifest["counts"].items():
        table.add_row(split, f"{counts['classes']:,}", f"{counts['items']:,}")
    console.print(table)
    if images.domain_names:
        echo(f"domains: {', '.join(images.domain_names)}")
    if manifest["skipped"]:
        echo(f"left out: {len(manifest['skipped']):,} bad images")
        for line in manifest["skipped"][:10]:
            echo(f"  {line}")
    echo(f"size: {manifest['size']} px; source: {manifest['source']}")
    echo(f"digest: {images.digest}")
    echo(f"path: {images.path}")
    for line in warnings_for(images):
        echo(f"warning: {line}")


def _print_table(features: "FeatureTable") -> None:
    from fewset.data.features.table import ROLES, SETUPS

    manifest = features.manifest
    table = Table("classes", "number", "training rows", "queries", title=f"{features.name} (features)")
    for split, counts in manifest["counts"].items():
        table.add_row(split, f"{counts['classes']:,}", *(f"{counts[role]:,}" for role in ROLES))
    console.print(table)
    if features.setups.any():
        sizes = (f"{(features.setups == number).sum():,} for {SETUPS[number]}" for number in (1, 2))
        echo(f"setups: {', '.join(sizes)} (classes)")
    echo(f"{features.dim:,} numbers a row; source: {manifest['source']}")
    echo(f"digest: {features.digest}")
    echo(f"path: {features.path}")


@bench_app.command("evaluate")
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
