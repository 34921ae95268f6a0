"""Change a classifier: add photos, remove classes and photos, rename classes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fewset.cli.classifiers import (
    ClassesFromOption,
    ClassifierArgument,
    EncoderOption,
    card_of,
    in_order,
    left_out_later,
    print_learned,
    print_some,
)
from fewset.cli.options import DeviceOption, PluginOption, start
from fewset.cli.output import echo
from fewset.compute import distributed
from fewset.core.errors import UserError, unknown_name
from fewset.io.files import check_output, write_text

if TYPE_CHECKING:
    from fewset.classify.classifier import FewShotClassifier

PANEL = "Classify"
commands = typer.Typer()

OutOption = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Write the changed classifier here instead of replacing it."),
]


@commands.command()
def add(
    classifier: ClassifierArgument,
    photos: Annotated[
        list[Path],
        typer.Argument(help="Labelled photos in any form that `fewset fit` takes; with --label, any photos."),
    ],
    label: Annotated[
        str | None, typer.Option(help="All these photos are of this class, which may be a new one.")
    ] = None,
    classes_from: ClassesFromOption = None,
    out: OutOption = None,
    encoder: EncoderOption = None,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """Add labelled photos to a classifier. Those that it has already are not added again.

    Example: `fewset add my.fewset more/` or `fewset add my.fewset 1.jpg 2.jpg --label owl`
    """
    start(plugin, with_torch=False)
    from fewset.classify.photos.sources import read_files

    classifier, photos = in_order(classifier, photos)
    if label is not None and classes_from is not None:
        raise UserError("the photos are of one class, or of those that folders name; give one of the options")
    check_output(out or classifier, read_files(photos))
    changed = _load(classifier, encoder, device)
    changed.classes_from = classes_from
    before = len(changed.learned_.support)
    with left_out_later():
        for path in photos:
            if label is None:
                changed.partial_fit(path)
            else:
                changed.add(path, _typed(changed, label))
    echo(f"photos added: {len(changed.learned_.support) - before:,}")
    _save(changed, out or classifier)
    print_some(
        "photos left out", [f"{name}: {problem}" for name, problem in getattr(changed, "skipped_", ())]
    )


@commands.command()
def remove(
    classifier: ClassifierArgument,
    labels: Annotated[list[str] | None, typer.Argument(metavar="[CLASS]...", help="Classes.")] = None,
    photo: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A labelled photo, as `fit` and `predict` name it. Repeatable."),
    ] = None,
    out: OutOption = None,
    encoder: EncoderOption = None,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """Remove classes with their photos, or single photos, from a classifier.

    Example: `fewset remove my.fewset crow --photo owl/3.jpg`
    """
    start(plugin, with_torch=False)
    if not labels and not photo:
        raise UserError("there is nothing to remove; give classes, or --photo NAME")
    check_output(out or classifier)
    changed = _load(classifier, encoder, device)
    for label in labels or ():
        changed.remove_class(_known(changed, label))
    for name in photo or ():
        names = changed.learned_.support.names
        if name not in names:
            raise unknown_name("photo", name, names)
        changed.remove_photo(name)
    _save(changed, out or classifier)


@commands.command()
def rename(
    classifier: ClassifierArgument,
    old: Annotated[str, typer.Argument(help="A class.")],
    new: Annotated[str, typer.Argument(help="Its new name.")],
    merge: Annotated[
        bool, typer.Option("--merge", help="NEW is a class too: it gets the photos of OLD.")
    ] = False,
    out: OutOption = None,
    encoder: EncoderOption = None,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """Rename a class of a classifier, or merge it with another.

    Example: `fewset rename my.fewset owl "barn owl"`
    """
    start(plugin, with_torch=False)
    check_output(out or classifier)
    changed = _load(classifier, encoder, device)
    changed.rename_class(_known(changed, old), _typed(changed, new), merge)
    _save(changed, out or classifier)


def _load(classifier: Path, encoder: str | None, device: str) -> "FewShotClassifier":
    from fewset.classify.classifier import FewShotClassifier
    from fewset.compute.device_names import find_device
    from fewset.compute.machine import tune

    find_device(device)  # a wrong one is found first
    loaded = FewShotClassifier.load(classifier, encoder=encoder, device=device)
    tune(with_torch=False)
    return loaded


def _save(changed: "FewShotClassifier", out: Path) -> None:
    from fewset.classify.card import model_card

    if distributed.is_main_process():
        changed.save(out)
        write_text(card_of(out), model_card(changed.learned_, out.stem))
    print_learned(changed.learned_)
    echo(f"classifier: {out}")


def _known(changed: "FewShotClassifier", label: str) -> Any:
    """The class that a user names; labels may be numbers."""
    found = {str(each): each for each in changed.classes_.tolist()}
    if label not in found:
        raise unknown_name("class", label, found)
    return found[label]


def _typed(changed: "FewShotClassifier", label: str) -> Any:
    """A label that may be new, of the type of the others."""
    if changed.classes_.dtype.kind not in "iu":
        return label
    try:
        return int(label)
    except ValueError:
        raise UserError(f"got the label {label!r}, but the classes are whole numbers; give one") from None
