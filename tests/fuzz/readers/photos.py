"""Photos, zip files of photos, and tables that name photos."""

from functools import cache
from random import Random
from typing import Any
from unittest.mock import patch

from tests.fuzz.case import Case, command, data_import, reader
from tests.fuzz.judge import run_command
from tests.fuzz.room import Room
from tests.helpers.containers import packed_zip, spoil, spoiled
from tests.helpers.damage import Spared, damaged, odd_text
from tests.helpers.photos import photo_files, write_photos
from tests.helpers.trees import Tree, as_directory, folder, picture, tables


@reader("images")
def images(room: Room, rng: Random) -> Case:
    """A damaged photo in a folder of others; now and then its suffix is another format's."""
    labelled = write_photos(room.work / "photos", 1, first=1)
    suffix, data = rng.choice(list(photo_files().items()))
    bad = labelled / "grass" / f"0.{rng.choice(list(photo_files())) if rng.random() < 0.1 else suffix}"
    bad.write_bytes(spoiled(data, rng))
    skip = ["--skip-bad"] if rng.random() < 0.5 else []
    fit = command("fit", labelled, "-o", "out.fewset", *room.tiny)
    predict = command("predict", room.classifier, bad, *room.tiny)
    return rng.choice((data_import("folder", labelled, "--size", 16, *skip), predict, fit))


@cache
def _archive(kind: str) -> bytes:
    trees: dict[str, Tree] = {"folder": folder(3, 2), "csv": tables()}
    pictures = list(folder(1, 1).values()) * 4
    trees["domains"] = dict(
        zip(("a/x/1.png", "a/y/1.png", "b/x/1-1.png", "b/y/2.png"), pictures, strict=True)
    )
    names = "images_background/Latin/character01/1.png", "images_evaluation/ULOG/character01/1.png"
    trees["omniglot"] = dict(zip(names, pictures, strict=False))
    return packed_zip(list(trees[kind].items()))


@reader("zips")
def zips(room: Room, rng: Random) -> Case:
    kind = rng.choice(("folder", "csv", "domains", "omniglot"))
    file = room.work / "photos.zip"
    file.write_bytes(spoiled(_archive(kind), rng))
    if kind == "folder" and rng.random() < 0.4:
        fit = command("fit", file, "-o", "out.fewset", *room.tiny)
        return rng.choice((fit, command("predict", room.classifier, file, "--csv", "out.csv", *room.tiny)))
    return data_import(kind, file, "--size", 16, *(["--skip-bad"] if rng.random() < 0.5 else []))


def _spoiled_table(data: bytes, rng: Random, comma: str = ",") -> bytes:
    """Cells, lines and the head line changed; or bytes, and other encodings."""
    if isinstance(rng, Spared) or rng.random() < 0.3:
        return damaged(data, rng)
    lines = data.decode().splitlines()
    for _ in range(rng.randint(1, 3)):
        number = rng.randrange(len(lines))
        cells = lines[number].split(comma)
        first, *others = cells
        changed = [
            [odd_text(rng), *others],
            [*cells[:-1], odd_text(rng)],
            cells * rng.choice((0, 2, 200)),
            [f'"{first}', *others],
            [f"{first}\0", *others],
            [*cells, "x" * rng.choice((10, 200_000))],
        ]
        lines[number] = comma.join(rng.choice(changed))
    text = rng.choice(("\n", "\r\n", "\r")).join(lines)
    return text.encode(rng.choice(("utf-8", "utf-16", "utf-8-sig", "latin-1")), "replace")


@reader("CSV files of photos")
def photo_tables(room: Room, rng: Random) -> Case:
    rows = [f"{file},{file.parent.name}" for file in sorted(room.labelled.glob("*/*.png"))]
    table = room.work / "photos.csv"
    table.write_bytes(_spoiled_table("\n".join(["path,label", *rows]).encode(), rng))
    predict = command("predict", room.classifier, table, *room.tiny, "--json", "out.json")
    return rng.choice((command("fit", table, "-o", "out.fewset", *room.tiny), predict))


@reader("CSV files of sets")
def set_tables(room: Room, rng: Random) -> Case:
    tree = tables()
    name = rng.choice([name for name in tree if name.endswith(".csv")])
    tree[name] = _spoiled_table(tree[name], rng)
    return data_import("csv", as_directory(tree, room.work), "--size", 16)


@reader("lists of CUB")
def cub(room: Room, rng: Random) -> Case:
    names = [f"{label:03}.Bird_{label}/{number}.jpg" for label in (1, 2, 3) for number in range(2)]
    lists = {
        "images": [f"{number} {name}" for number, name in enumerate(names, start=1)],
        "image_class_labels": [f"{number} {int(name[:3])}" for number, name in enumerate(names, start=1)],
        "bounding_boxes": [f"{number} 1.0 2.0 9.0 9.0" for number in range(1, len(names) + 1)],
        "classes": [f"{label} {label:03}.Bird_{label}" for label in (1, 2, 3)],
    }
    tree = {f"{name}.txt": "\n".join(lines).encode() for name, lines in lists.items()}
    bad = f"{rng.choice(list(lists))}.txt"
    tree[bad] = _spoiled_table(tree[bad], rng, " ")
    tree |= {f"images/{name}": picture(1, "JPEG") for name in names}
    return data_import("cub", as_directory(tree, room.work), "--size", 16)


@reader("journals")
def journals(room: Room, rng: Random) -> Case:
    """The answers that a stopped run over photos left, from which the next one goes on."""
    words = "predict", room.classifier, room.labelled, *room.tiny, "--csv", "a.csv", "--resume"
    file = room.work / "a.csv.partial"
    file.write_bytes(_answers(tuple(map(str, words))))
    spoil(file, rng)
    return command(*words)


@cache
def _answers(words: tuple[str, ...]) -> bytes:
    """The answers of a whole run, in the current directory, as they are before it ends."""
    from fewset.classify.predict import run as predicting
    from fewset.classify.predict.files import PartialAnswers

    kept: list[bytes] = []
    usual = predicting._finish

    def finish(answers: PartialAnswers, *more: Any) -> Any:
        kept.append(answers.path.read_bytes())
        return usual(answers, *more)

    with patch.object(predicting, "_finish", finish):
        run_command(words)
    return kept[0]
