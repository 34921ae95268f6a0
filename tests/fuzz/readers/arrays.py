"""NPY and NPZ: values of tasks, example tasks, tables of features, the arrays of image sets."""

import io
import shutil
from random import Random

import numpy as np

from tests.fuzz.case import FUZZED, Case, command, reader
from tests.fuzz.room import Room
from tests.helpers.containers import changed_npy, changed_zip
from tests.helpers.damage import Spared, damaged, flipped, odd_number, odd_text
from tests.helpers.feature_files import ROWS, arrays


def damaged_npy(data: bytes, rng: Random) -> bytes:
    return changed_npy(data, rng) if rng.random() < 0.7 and data[:6] == b"\x93NUMPY" else damaged(data, rng)


def damaged_npz(data: bytes, rng: Random) -> bytes:
    kind = rng.randrange(10)
    if kind < 6:
        return changed_zip(data, rng, lambda content: damaged_npy(content, rng))
    return flipped(data, rng) if kind < 8 else damaged(data, rng)


def odd_arrays(rng: Random) -> dict[str, np.ndarray]:
    """The arrays of a table of features, one of them of another shape or type."""
    content = {key: np.asarray(value) for key, value in arrays().items()}
    if isinstance(rng, Spared):
        return content
    key = rng.choice([*content, "count", "class_names", "split", "base_classes", "novel_classes_2"])
    rows = len(content["labels"])
    odd = [
        lambda: np.arange(rows).astype(rng.choice(("f8", "f2", "i1", "U3", "S2", "c8", "?", "M8[s]"))),
        lambda: np.asarray(odd_number(rng) if rng.random() < 0.5 else odd_text(rng)[:300]),
        lambda: np.full((rows, 7), np.nan, dtype=np.float32),
        lambda: np.full(rows, 2**63 - 1),
        lambda: np.zeros((0, 7), dtype=np.float32),
        lambda: np.zeros((rows, 0), dtype=np.float32),
        lambda: np.array([odd_text(rng)[:300] for _ in range(rng.choice((rows, 5)))]),
        lambda: np.zeros((rows, 7, 1)),
        lambda: np.arange(rows)[:, None],
    ]  # fmt: skip
    content[key] = rng.choice(odd)()
    if rng.random() < 0.2:
        del content[rng.choice(list(content))]
    return content


@reader("values of tasks")
def per_task(room: Room, rng: Random) -> Case:
    run = room.work / "adapted"
    shutil.copytree(room.runs / "adapted", run)
    name = rng.choice(("per_task.npy", "per_task_before.npy", "examples.npz"))
    data = (run / name).read_bytes()
    (run / name).write_bytes(damaged_npz(data, rng) if name.endswith("z") else damaged_npy(data, rng))
    if name == "examples.npz" or rng.random() < 0.3:
        return command("report", run, "--out", "report")
    return command("compare", room.runs / "proto", run)


@reader("NPZ files of features")
def npz(room: Room, rng: Random) -> Case:
    buffer = io.BytesIO()
    save = rng.choice((np.savez, np.savez_compressed))
    if rng.random() < 0.5:
        save(buffer, **odd_arrays(rng))
        data = buffer.getvalue()
    else:
        # More bytes than zipfile reads at once, so that a wrong checksum comes to light behind the header.
        features = np.random.default_rng(0).normal(size=(ROWS, 101)).astype(np.float32)
        save(buffer, **arrays(features=features))
        data = damaged_npz(buffer.getvalue(), rng)
    file = room.work / "rows.npz"
    file.write_bytes(data)
    return command("data", "import", "features", file, "--name", "fuzzed", owns=FUZZED)


@reader("arrays of image sets")
def stored(room: Room, rng: Random) -> Case:
    """Whatever is not as it was written must be refused: every byte has its digest."""
    kind, name = rng.choice((("sets", "tiny"), ("features", "tiny-features")))
    place = room.work / name
    shutil.copytree(room.home / kind / name, place)
    file = rng.choice(sorted(place.glob("*.npy")))
    whole = file.read_bytes()
    file.write_bytes(damaged_npy(whole, rng))
    return command("data", "verify", place, only_refusal=file.read_bytes() != whole)
