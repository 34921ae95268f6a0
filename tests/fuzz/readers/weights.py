"""safetensors: the weights of a run, and the file of a classifier."""

import shutil
from random import Random

from tests.fuzz.case import Case, command, reader
from tests.fuzz.room import Room
from tests.helpers.containers import changed_safetensors
from tests.helpers.damage import damaged


def _damaged(data: bytes, rng: Random) -> bytes:
    return changed_safetensors(data, rng) if rng.random() < 0.7 else damaged(data, rng)


@reader("weights")
def weights(room: Room, rng: Random) -> Case:
    """The digest beside is that of the damaged file, is missing, or tells: then only a refusal will do."""
    from fewset.io.files import digest_path, file_digest

    run = room.work / "run"
    shutil.copytree(room.runs / "feat", run)
    file = run / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(_damaged(whole, rng))
    kind = rng.randrange(3)
    if kind == 0:
        digest_path(file).unlink()
    elif kind == 1:
        digest_path(file).write_text(f"{file_digest(file)}  {file.name}\n")
    told = kind == 2 and file.read_bytes() != whole
    act = rng.choice((("eval", run, "--tasks", 3), ("embed", run, "--out", "rows.npz", "--split", "val")))
    return command(*act, only_refusal=told)


@reader("classifiers")
def classifiers(room: Room, rng: Random) -> Case:
    file = room.work / "my.fewset"
    file.write_bytes(_damaged(room.classifier.read_bytes(), rng))
    photo = room.root / "photos" / "labelled" / "grass" / "0.png"
    tiny = "--encoder", "tiny", "--plugin", room.plugin
    return rng.choice((command("info", file), command("predict", file, photo, *tiny, "--reject")))
