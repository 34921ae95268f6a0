"""Encoders of others: ONNX files with their settings, and directories of transformers."""

import json
import shutil
from functools import cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp

from tests.fuzz.case import Case, command, reader
from tests.fuzz.readers.records import damage_json
from tests.fuzz.room import Room
from tests.helpers.containers import changed_safetensors
from tests.helpers.damage import damaged


def _place(room: Room, rng: Random) -> Path:
    """A new directory: what was once loaded from a path is not loaded again."""
    place = room.work / f"{rng.randrange(2**32):x}"
    place.mkdir()
    return place


@cache
def _onnx() -> tuple[bytes, str]:
    from tests.helpers.encoders import write_onnx

    file = write_onnx(Path(mkdtemp()) / "net.onnx")
    return file.read_bytes(), file.with_name("net.onnx.json").read_text()


@reader("ONNX encoders")
def onnx(room: Room, rng: Random) -> Case:
    data, settings = _onnx()
    file = _place(room, rng) / "net.onnx"
    beside = file.with_name("net.onnx.json")
    beside.write_text(json.dumps({"mean": [0.5] * 3, "std": [0.5] * 3, **json.loads(settings)}))
    file.write_bytes(data)
    if rng.random() < 0.5:
        file.write_bytes(damaged(data, rng))
    else:
        damage_json(beside, rng)
    return command("fit", room.root / "photos" / "labelled", "-o", "out.fewset", "--encoder", f"onnx:{file}")


@cache
def _huggingface() -> Path:
    from tests.helpers.encoders import write_huggingface

    return write_huggingface(Path(mkdtemp()) / "vit")


@reader("encoders of transformers")
def huggingface(room: Room, rng: Random) -> Case:
    folder = _place(room, rng) / "vit"
    shutil.copytree(_huggingface(), folder)
    file = rng.choice(sorted(folder.iterdir()))
    if file.suffix == ".json":
        damage_json(file, rng)
    else:
        file.write_bytes(changed_safetensors(file.read_bytes(), rng))
    return command("fit", room.root / "photos" / "labelled", "-o", "out.fewset", "--encoder", f"hf:{folder}")
