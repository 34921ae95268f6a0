"""Image sets and tables of features: import them and show them."""

from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Annotated

import typer

from fewset.cli.options import DeviceOption, PluginOption, counted, load_plugins, start
from fewset.cli.output import console, echo, make_table, print_warning
from fewset.core.errors import UserError, refuse_unknown

if TYPE_CHECKING:
    from fewset.data.features.table import FeatureTable
    from fewset.data.images.store import ImageSet

PANEL = "Data"
commands = typer.Typer(
    name="data", help="Import image sets and tables of features, and show them.", no_args_is_help=True
)
# The names of the files, without importing them, so that help is quick. Plugins may add more.
_FILES = iter_modules([str(Path(__file__).parents[1] / "data" / "images" / "importers")])
_KINDS = sorted([*(module.name for module in _FILES), "features", "sets"])
NameArgument = Annotated[str, typer.Argument(help="An imported set, or a table of features.")]


@commands.command("import")
def data_import(
    kind: Annotated[str, typer.Argument(help=f"The layout: {', '.join(_KINDS)}.")],
    source: Annotated[
        Path,
        typer.Argument(
            help="A directory or a zip file; features: an HDF5 or NPZ file, or a directory; sets: names of "
            "imported sets, such as miniimagenet+cub."
        ),
    ],
    name: Annotated[str | None, typer.Option(help="Of the set; default: the name of the source.")] = None,
    size: Annotated[
        int | None, counted("Stored pixels a side; default: 92, or that of the kind.", least=8, most=1024)
    ] = None,
    held_out: Annotated[
        float | None, typer.Option(help="Features: the share of each class for queries; default: 0.2.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the split of classes or queries, if none is given.")] = 0,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out damaged images.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a set of that name.")] = False,
    plugin: PluginOption = None,
) -> None:
    """Decode the images of a directory or zip file once, into the store; or copy a table of features.

    The kind `sets` makes one set of several imported ones, to train on all of them; each is a domain.

    Example: `fewset data import folder photos/ --name birds`
    """
    from fewset.data.images.importers import IMPORTERS

    load_plugins(plugin)
    refuse_unknown("kind of source", kind, (*IMPORTERS, "features", "sets"))
    given = {"--size": size is not None, "--skip-bad": skip_bad, "--held-out": held_out is not None}
    for option, is_given in given.items():
        if is_given and kind not in (["features"] if option == "--held-out" else IMPORTERS):
            raise UserError(f"{option} is not an option of the kind {kind}; leave it out")
    if kind == "features":
        from fewset.data.features.importer import HELD_OUT, import_features

        share = HELD_OUT if held_out is None else held_out
        _print_imported(import_features(source, name, held_out=share, seed=seed, replace=force))
    elif kind == "sets":
        from fewset.data.images.importing import merge_sets

        _print_imported(merge_sets(str(source).split("+"), name, replace=force))
    else:
        from fewset.data.images.importing import import_set

        images = import_set(kind, source, name, size=size, seed=seed, skip_bad=skip_bad, replace=force)
        _print_imported(images)


@commands.command("relate")
def data_relate(
    name: Annotated[str, typer.Argument(help="An imported image set.")],
    groups: Annotated[
        str | None,
        typer.Option(help="A CSV file with the columns class and group; or last-word (of each class name)."),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="Compare class means of this encoder; default without groups: efficientnet-lite0."),
    ] = None,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """Find the classes that are near each other, for tasks of related classes (`fewset eval --related 8`).

    Example: `fewset data relate cub --groups last-word --encoder efficientnet-lite0`
    """
    start(plugin)
    from fewset.data.images.store import open_set
    from fewset.encoders import DEFAULT
    from fewset.experiments.relate import relate_set

    images = open_set(name)
    nearness = relate_set(images, groups, encoder or (None if groups else DEFAULT), device=device)
    echo(f"nearness: {nearness.source}")
    for label in range(min(3, len(images.class_names))):
        near = ", ".join(images.class_names[other] for other in nearness.nearest[label][:4]) or "none"
        echo(f"  near {images.class_names[label]}: {near}")


@commands.command("list")
def data_list() -> None:
    """The imported sets and tables of features.

    Example: `fewset data list`
    """
    from fewset.data.features.table import list_features, open_features
    from fewset.data.images.store import available_sets, list_sets, open_set
    from fewset.data.manifest import home

    sets = make_table("name", "items", "classes", "size", "train / val / test")
    for name in sorted(available_sets()):
        if name in list_sets():
            manifest = open_set(name).manifest
            counts = " / ".join(f"{split['items']:,}" for split in manifest["counts"].values())
            items, classes = f"{manifest['items']:,}", f"{len(manifest['class_names']):,}"
            sets.add_row(name, items, classes, str(manifest["size"]), counts)
        else:
            sets.add_row(name, "", "", "", "made when first used")
    console.print(sets)
    tables = make_table("features", "rows", "dimensions", "seen / unseen classes")
    for name in list_features():
        manifest = open_features(name).manifest
        classes = " / ".join(f"{split['classes']:,}" for split in manifest["counts"].values())
        tables.add_row(name, f"{manifest['rows']:,}", f"{manifest['dim']:,}", classes)
    if tables.rows:
        console.print(tables)
    echo(f"in {home()}")


@commands.command("info")
def data_info(name: NameArgument) -> None:
    """Show the contents of a set or a table of features, and its source.

    Example: `fewset data info strokes`
    """
    for found in _imported(name):
        _print_imported(found)


@commands.command("verify")
def data_verify(
    name: NameArgument,
    sheet: Annotated[Path | None, typer.Option(help="Write images of some classes to this PNG.")] = None,
) -> None:
    """Read every byte of a set and compare with its digest; warn of what a well-known set should not be.

    Example: `fewset data verify strokes --sheet strokes.png`
    """
    from fewset.data.images.inspection import contact_sheet
    from fewset.data.images.store import ImageSet
    from fewset.io.files import write_bytes

    imported = _imported(name)
    if sheet is not None and not isinstance(imported[0], ImageSet):
        raise UserError(f"{name!r} is a table of features, which has no images for a --sheet; leave it out")
    if sheet is not None and sheet.exists():
        raise UserError(f"{sheet} exists; choose another name, or remove it first")
    for found in imported:
        found.verify()
        _print_imported(found)
        echo("every byte is as it was written")
        if sheet is not None and isinstance(found, ImageSet):
            write_bytes(sheet, contact_sheet(found))
            echo(f"contact sheet: {sheet}")


def _imported(name: str) -> "list[ImageSet | FeatureTable]":
    """The image set and the table of features of this name, whichever there is."""
    from fewset.data.features.table import list_features, open_features
    from fewset.data.images.store import available_sets, open_set

    if Path(name).name != name:  # a path
        return [open_features(name) if (Path(name) / "features.npy").exists() else open_set(name)]
    sets, tables = available_sets(), list_features()
    refuse_unknown("image set or table of features", name, {*sets, *tables})
    return [*([open_set(name)] if name in sets else []), *([open_features(name)] if name in tables else [])]


def _print_imported(found: "ImageSet | FeatureTable") -> None:
    from fewset.data.images.inspection import warnings_for
    from fewset.data.images.store import ImageSet

    if isinstance(found, ImageSet):
        _print_set(found)
    else:
        _print_table(found)
    echo(f"digest: {found.digest}")
    echo(f"path: {found.path}")
    for line in warnings_for(found) if isinstance(found, ImageSet) else ():
        print_warning(line)


def _print_set(images: "ImageSet") -> None:
    manifest = images.manifest
    table = make_table("split", "classes", "items", title=images.name)
    for split, counts in manifest["counts"].items():
        table.add_row(split, f"{counts['classes']:,}", f"{counts['items']:,}")
    console.print(table)
    if images.domain_names:
        echo(f"domains: {', '.join(images.domain_names)}")
    if manifest["skipped"]:
        echo(f"left out: {len(manifest['skipped']):,} images")
        for line in manifest["skipped"][:10]:
            echo(f"  {line}")
    echo(f"size: {manifest['size']} px; source: {manifest['source']}")


def _print_table(features: "FeatureTable") -> None:
    from fewset.data.features.table import ROLES, SETUPS

    manifest = features.manifest
    table = make_table("classes", "number", "training rows", "queries", title=f"{features.name} (features)")
    for split, counts in manifest["counts"].items():
        table.add_row(split, f"{counts['classes']:,}", *(f"{counts[role]:,}" for role in ROLES))
    console.print(table)
    if features.setups.any():
        sizes = (f"{(features.setups == number).sum():,} for {SETUPS[number]}" for number in (1, 2))
        echo(f"setups: {', '.join(sizes)} (classes)")
    echo(f"{features.dim:,} dimensions; source: {manifest['source']}")
    for what, digest in manifest.get("made_from", {}).items():
        echo(f"{what.replace('_', ' ')}: {digest}")
