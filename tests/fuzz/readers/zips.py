"""Zip files of photos: their own structure, their names, and the photos within."""

from functools import cache
from random import Random

from tests.fuzz.case import FUZZED, Case, command, reader
from tests.fuzz.readers.images import damaged_photo
from tests.fuzz.room import Room
from tests.helpers.containers import changed_zip, packed_zip
from tests.helpers.damage import damaged
from tests.helpers.trees import Tree, folder, tables

_KINDS = "folder", "csv", "domains", "omniglot"


@cache
def archive(kind: str) -> bytes:
    trees: dict[str, Tree] = {"folder": folder(3, 2), "csv": tables()}
    images = list(folder(1, 1).values()) * 4
    trees["domains"] = dict(zip(("a/x/1.png", "a/y/1.png", "b/x/1-1.png", "b/y/2.png"), images, strict=True))
    names = "images_background/Latin/character01/1.png", "images_evaluation/ULOG/character01/1.png"
    trees["omniglot"] = dict(zip(names, images, strict=False))
    return packed_zip(list(trees[kind].items()))


@reader("zips")
def zips(room: Room, rng: Random) -> Case:
    kind = rng.choice(_KINDS)

    def change(content: bytes) -> bytes:
        return damaged(content, rng) if rng.random() < 0.7 else damaged_photo(rng)[1]

    data = archive(kind)
    data = changed_zip(data, rng, change) if rng.random() < 0.7 else damaged(data, rng)
    file = room.work / "photos.zip"
    file.write_bytes(data)
    tiny = "--encoder", "tiny", "--plugin", room.plugin
    if kind == "folder" and rng.random() < 0.4:
        fit = command("fit", file, "-o", "out.fewset", *tiny)
        return rng.choice((fit, command("predict", room.classifier, file, "--csv", "out.csv", *tiny)))
    skip = ["--skip-bad"] if rng.random() < 0.5 else []
    return command("data", "import", kind, file, "--name", "fuzzed", "--size", 16, *skip, owns=FUZZED)
