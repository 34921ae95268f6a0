"""Models: the methods, their sizes, their weights, their embeddings."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fewset.cli.options import DeviceOption, ForceOption, PluginOption, start
from fewset.cli.output import begin_group, console, echo, make_table
from fewset.cli.shards import ParquetOption, ShardOption, check_shard, write_shard
from fewset.core.errors import UserError

if TYPE_CHECKING:
    from fewset.models.method_info import MethodInfo

PANEL = "Models"
commands = typer.Typer()


def list_methods() -> list[tuple[str, str, "MethodInfo"]]:
    """Every adapter and head, and MAML: the key of a recipe, the name there, and what the method says."""
    from fewset.models.adapters import ADAPTERS
    from fewset.models.heads import HEADS
    from fewset.models.maml import MamlModel
    from fewset.models.method_info import method_info

    parts = {"model.adapter": ADAPTERS, "model.head": HEADS}
    members = [(part, name, kind) for part, registry in parts.items() for name, kind in registry.items()]
    return [(part, name, method_info(kind)) for part, name, kind in [*members, ("model", "maml", MamlModel)]]


@commands.command()
def params(plugin: PluginOption = None) -> None:
    """The methods (adapters, heads and MAML) with their papers, and the paper's table of parameters.

    A recipe may combine any adapter with any head. Parameters are counted at 64 and 640 dimensions.

    Example: `fewset params`
    """
    start(plugin)
    from fewset.models.adapters import ADAPTERS

    table, place = make_table("name", "kind", "needs", "paper"), ""
    for part, name, about in list_methods():
        if place != (place := part):
            begin_group(table, place)
        table.add_row(name, about.kind, ", ".join(about.needs()), f"{about.paper}: {about.summary}")
    console.print(table)

    def parameters(name: str, dim: int) -> str:
        return f"{sum(parameter.numel() for parameter in ADAPTERS[name](dim).parameters()):,}"

    sizes = make_table("adapter", "d = 64 (ConvNet)", "d = 640 (ResNet-12, WRN)")
    for name in ADAPTERS:
        sizes.add_row(name, *(parameters(name, dim) for dim in (64, 640)))
    console.print(sizes)


@commands.command()
def weights() -> None:
    """The released models, which come with fewset: names for `fewset eval`, `fewset.load` and `train.init`.

    Example: `fewset weights`
    """
    from fewset.experiments.recipes import read_recipe
    from fewset.experiments.run_directory import RECIPE, WEIGHTS
    from fewset.experiments.weights import released_models
    from fewset.io.paths import packaged_directory

    table, place = make_table("name", "method", "trained on", "size"), ""
    for name, model in released_models().items():
        recipe = read_recipe(model / RECIPE)
        train, size = recipe.train, (model / WEIGHTS).stat().st_size
        tasks = f"{train.way}-way {train.shot}-shot" if train and train.epochs else "all classes"
        if place != (place := f"{recipe.data.set}, {recipe.model.backbone}"):
            begin_group(table, place)
        table.add_row(name, recipe.method, tasks, f"{size / 1000:,.0f} kB")
    console.print(table)
    echo(f"in {packaged_directory('weights')}")


@commands.command("import-weights")
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
    similarity: Annotated[str, typer.Option(help="euclidean; or cosine, as MatchNet's.")] = "euclidean",
    data: Annotated[str, typer.Option(help="The set that `fewset eval` scores it on.")] = "miniimagenet",
    shot: Annotated[int, typer.Option(help="The shots that `fewset eval` scores it with.")] = 1,
    force: ForceOption = False,
) -> None:
    """Make a run of a checkpoint that the authors of FEAT published; no code in the file is run.

    Example: `fewset import-weights feat-1-shot.pth --method FEAT --backbone ConvNet --temperature 64
    --out runs/published-feat`
    """
    start()
    from fewset.experiments.authors_checkpoint import import_weights as import_checkpoint

    settings: dict[str, Any] = {
        "temperature": temperature,
        "similarity": similarity,
        "data": data,
        "shot": shot,
    }
    recipe = import_checkpoint(file, out, method=method, backbone=backbone, force=force, **settings)
    head = ", ".join(f"{key} {value}" for key, value in recipe.model.head_options.items())
    echo(f"{method}: {recipe.model.backbone}, {recipe.model.adapter}, {recipe.model.head} ({head})")
    echo(f"run: {out}; score it with `fewset eval {out}`")


@commands.command()
def embed(
    source: Annotated[
        str, typer.Argument(metavar="RUN", help="A run directory, a released model, or an encoder.")
    ],
    photos: Annotated[
        list[Path] | None,
        typer.Argument(help="With --parquet: folders, CSV or Parquet files with a column path, tar files."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Of an image set, the file to write: .npz, .h5 or .hdf5.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="An imported image set; default: the run's own.")] = None,
    split: Annotated[str | None, typer.Option(help="train, val or test alone, or all.")] = None,
    domain: Annotated[str | None, typer.Option(help="One domain of the set alone.")] = None,
    val: Annotated[
        bool, typer.Option("--val", help="The val classes, too: the unseen ones of a validation setup.")
    ] = False,
    parquet: ParquetOption = None,
    shard: ShardOption = None,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """Write the embeddings of an image set as a file of features: train classes seen, test classes unseen.

    With --parquet, those of any photos, a row each, with the reason for a photo that cannot be read.

    Example: `fewset embed runs/strokes-pretrain --out strokes.npz`
    """
    start(plugin)
    options = {"--out": out, "--data": data, "--split": split, "--domain": domain, "--val": val}
    if check_shard(shard, parquet, options) and parquet:
        if not photos:
            raise UserError("--parquet is for photos; name their folders, lists or tar files")
        from fewset.classify.embedding import chosen_encoder
        from fewset.classify.predict.parts import feature_columns

        encoder = chosen_encoder(source, device)
        write_shard(photos, shard, parquet, feature_columns(encoder), [encoder.digest])
        return
    if out is None or photos:
        raise UserError("an image set needs --out FILE; photos need --parquet DIR")
    from fewset.experiments.embed_set import embed_set

    rows, dim = embed_set(source, out, data, val, split=split, domain=domain, device=device)
    echo(f"{out}: {rows:,} rows of {dim:,} dimensions")
    if split is None:
        echo(f"import it with `fewset data import features {out}`")
