"""Tables as text: CSV files of photos, the lists of CUB, the answers of a stopped run."""

import json
from functools import cache
from random import Random
from typing import Any
from unittest.mock import patch

from tests.fuzz.case import FUZZED, Case, command, reader
from tests.fuzz.invariant import run_command
from tests.fuzz.room import Room
from tests.helpers.damage import Spared, altered, damaged, json_text, odd_text
from tests.helpers.trees import Tree, as_directory, picture, tables


def damaged_table(data: bytes, rng: Random) -> bytes:
    """Cells, lines and the head line changed; or bytes, also as other encodings have them."""
    if isinstance(rng, Spared) or rng.random() < 0.3:
        return damaged(data, rng)
    lines = data.decode().splitlines()
    for _ in range(rng.randint(1, 3)):
        number = rng.randrange(len(lines))
        cells = lines[number].split(",")
        action = rng.randrange(5)
        if action < 2:
            cells[rng.randrange(len(cells))] = odd_text(rng)
        elif action == 2:
            cells *= rng.choice((0, 2, 200))
        elif action == 3:
            cells[0] = f'"{cells[0]}' if rng.random() < 0.5 else f"{cells[0]}\0"
        else:
            cells.append("x" * rng.choice((10, 200_000)))
        lines[number] = ",".join(cells)
    text = rng.choice(("\n", "\r\n", "\r")).join(lines)
    return text.encode(rng.choice(("utf-8", "utf-16", "utf-8-sig", "latin-1")), "replace")


@reader("CSV files of photos")
def photos(room: Room, rng: Random) -> Case:
    folder = room.root / "photos" / "labelled"
    rows = ["path,label"]
    rows += [f"{file},{file.parent.name}" for file in sorted(folder.glob("*/*.png"))]
    table = room.work / "photos.csv"
    table.write_bytes(damaged_table("\n".join(rows).encode(), rng))
    tiny = "--encoder", "tiny", "--plugin", room.plugin
    if rng.random() < 0.5:
        return command("fit", table, "-o", "out.fewset", *tiny)
    return command("predict", room.classifier, table, *tiny, "--json", "out.json")


@reader("CSV files of sets")
def sets(room: Room, rng: Random) -> Case:
    tree = tables()
    name = rng.choice([name for name in tree if name.endswith(".csv")])
    tree[name] = damaged_table(tree[name], rng)
    source = as_directory(tree, room.work)
    return command("data", "import", "csv", source, "--name", "fuzzed", "--size", 16, owns=FUZZED)


def _cub() -> Tree:
    names = [f"{label:03}.Bird_{label}/{number}.jpg" for label in (1, 2, 3) for number in range(2)]
    lists = {
        "images.txt": [f"{number} {name}" for number, name in enumerate(names, start=1)],
        "image_class_labels.txt": [f"{number} {int(name[:3])}" for number, name in enumerate(names, start=1)],
        "bounding_boxes.txt": [f"{number} 1.0 2.0 9.0 9.0" for number in range(1, len(names) + 1)],
        "classes.txt": [f"{label} {label:03}.Bird_{label}" for label in (1, 2, 3)],
    }
    tree = {file: "\n".join(lines).encode() for file, lines in lists.items()}
    return tree | {f"images/{name}": picture(1, "JPEG") for name in names}


@reader("lists of CUB")
def cub(room: Room, rng: Random) -> Case:
    tree = _cub()
    name = rng.choice([name for name in tree if name.endswith(".txt")])
    tree[name] = damaged_table(tree[name].replace(b" ", b","), rng).replace(b",", b" ")
    source = as_directory(tree, room.work)
    return command("data", "import", "cub", source, "--name", "fuzzed", "--size", 16, owns=FUZZED)


@reader("journals")
def journals(room: Room, rng: Random) -> Case:
    """A run over photos that goes on from the answers that a stopped one left."""
    folder = room.root / "photos" / "labelled"
    tiny = "--encoder", "tiny", "--plugin", room.plugin
    words = "predict", room.classifier, folder, *tiny, "--csv", "a.csv", "--resume"
    whole = _answers(tuple(map(str, words)))
    lines = whole.splitlines(keepends=True)
    number = rng.randrange(len(lines))
    text = json_text(altered(json.loads(lines[number]), rng))
    lines[number] = text.encode("utf-8", "surrogatepass") + b"\n"
    data = b"".join(lines) if rng.random() < 0.7 else damaged(whole, rng)
    (room.work / "a.csv.partial").write_bytes(data)
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
