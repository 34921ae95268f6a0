"""Runs, sets and studies: JSON, arrays of values, weights, checkpoints, recipes."""

import shutil
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import torch

from fewset.experiments.recipes import recipe_text, shipped_recipes
from fewset.io.files import digest_path, file_digest
from tests.fuzz.case import Case, command, reader
from tests.fuzz.readers.encoders import saved
from tests.fuzz.room import Room
from tests.helpers.containers import spoil
from tests.helpers.damage import Spared, altered, odd_text, odd_value, toml_text
from tests.helpers.tiny_recipes import FEATURES, PRETRAIN, TRAIN, recipe

ROOT = Path(__file__).parents[3]


def spoiled_copies(name: str, places: str, files: str, *commands: str, digests: bool = False) -> None:
    """A reader of copies of these places of the room, one of whose `files` is damaged.

    With `digests` every byte has its digest, so that any damage must be noticed.
    """

    @reader(name)
    def draw(room: Room, rng: Random) -> Case:
        copies = [room.copy(room.root / place) for place in places.split()]
        patterns = files.split()
        file = rng.choice([file for copy in copies for each in patterns for file in sorted(copy.glob(each))])
        whole = file.read_bytes()
        spoil(file, rng)
        return command(
            *rng.choice(commands).format(work=room.work).split(),
            must_reject=digests and file.read_bytes() != whole,
        )


RUNS = "runs/proto runs/adapted"
VALUES = "per_task.npy per_task_before.npy examples.npz"
PAGE = "report proto adapted --out report"
spoiled_copies(
    "results", RUNS, "result.json", "compare proto adapted", "results kept --add proto --add adapted"
)
spoiled_copies("reports", RUNS, "result.json metrics.jsonl recipe.toml", PAGE)
spoiled_copies("values of tasks", RUNS, VALUES, "compare proto adapted", PAGE)
spoiled_copies("environments", "runs/pre", "environment.json", "eval pre --tasks 3")
for place in ("home/sets/tiny", "home/features/tiny-features"):
    words = (f"data {what} {{work}}/{Path(place).name}" for what in ("info", "verify"))
    spoiled_copies(f"manifests of {Path(place).parent.name}", place, "manifest.json", *words)
    verify = f"data verify {{work}}/{Path(place).name}"
    spoiled_copies(f"arrays of {Path(place).parent.name}", place, "*.npy", verify, digests=True)


@reader("weights")
def weights(room: Room, rng: Random) -> Case:
    """The digest beside is that of the damaged file, or missing, or the right one, which must be noticed."""
    run = room.copy(room.runs / "feat")
    file = run / "model.safetensors"
    right = file_digest(file)
    spoil(file, rng)
    kind = rng.choice(("missing", "damaged", "right"))
    if kind == "missing":
        digest_path(file).unlink()
    elif kind == "damaged":
        _sign(file)
    act = rng.choice((("eval", run, "--tasks", 3), ("embed", run, "--out", "rows.npz", "--split", "val")))
    return command(*act, must_reject=kind == "right" and file_digest(file) != right)


@reader("checkpoints of a training")
def checkpoints(room: Room, rng: Random) -> Case:
    run = room.copy(room.runs / "feat")
    room.copy(room.runs / "pre")
    (run / "result.json").unlink()
    file = run / "checkpoint" / "last.pt"
    right = file_digest(file)
    if rng.random() < 0.3 and not isinstance(rng, Spared):
        file.write_bytes(saved(altered(torch.load(file, weights_only=True), rng), rng))
    else:
        spoil(file, rng)
    must_reject = file_digest(file) != right  # only the training itself writes the digest of a checkpoint
    (room.work / "feat.toml").write_text(recipe_text(recipe(TRAIN, epochs=1)))
    words = "train", "feat.toml", "--out", run, "--resume", "--runs", room.work
    return command(*words, must_reject=must_reject)


def _sign(file: Path) -> None:
    digest_path(file).write_text(f"{file_digest(file)}  {file.name}\n")


@reader("studies")
def studies(room: Room, rng: Random) -> Case:
    name = rng.choice(("heads", "similarity", "ways", "generalised"))
    file = room.work / "paper" / name / f"{name}.json"
    file.parent.mkdir(parents=True)
    shutil.copyfile(ROOT / "results" / "paper" / name / file.name, file)
    spoil(file, rng)
    return command("paper", name, "--draw", "--out", room.work / "paper")


# Recipes


@cache
def _shipped() -> list[tuple[str, str]]:
    """The files that are shipped, each with the name of a recipe in it or after it."""
    found = []
    for file in sorted((ROOT / "recipes").rglob("*.toml")):
        name = file.relative_to(ROOT / "recipes").as_posix()
        folder, _, stem = name.removesuffix(".toml").rpartition("/")
        beginning = f"{folder}/" if stem.startswith("_") else f"{folder}/{stem}"
        found += [(name, recipe) for recipe in shipped_recipes() if recipe.startswith(beginning)][:3]
    return found


@reader("recipes")
def recipes(room: Room, rng: Random) -> Case:
    """Shipped ones are shown, tiny ones are trained."""
    if rng.random() < 0.5:
        folder = room.copy(ROOT / "recipes")
        file, name = rng.choice(_shipped())
        spoil(folder / file, rng)
        return command("recipes", folder / f"{name}.toml")
    table = rng.choice((PRETRAIN, TRAIN, FEATURES))
    runs = room.work / "runs"
    shutil.copytree(room.runs / "pre", runs / "start")
    (runs / "pre").symlink_to("start")
    text = toml_text(_short(altered({**table, "name": "new"}, rng)))
    (room.work / "recipe.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
    return command("pretrain" if table is PRETRAIN else "train", "recipe.toml", "--runs", runs)


_FEW = {"epochs": 1, "tasks_per_epoch": 5, "tasks": 100, "validation_tasks": 100}
_COUNTS = {"pretrain": ["epochs", "validation_tasks"], "evaluate": ["tasks"],
           "train": ["epochs", "tasks_per_epoch", "validation_tasks"]}  # fmt: skip


def _short(table: Any) -> Any:
    """The recipe with small counts: a large or missing one makes a training long rather than wrong."""
    few = _bounded(table)
    for part, counts in _COUNTS.items() if isinstance(few, dict) else ():
        if isinstance(few.get(part), dict):
            few[part] = {**{count: _FEW[count] for count in counts}, **few[part]}
    return few


def _bounded(table: Any) -> Any:
    if not isinstance(table, dict):
        return table
    return {
        key: min(value, _FEW[key]) if key in _FEW and isinstance(value, int | float) else _bounded(value)
        for key, value in table.items()
    }


@reader("overrides")
def overrides(room: Room, rng: Random) -> Case:
    keys = [f"{part}.{key}" for part, values in TRAIN.items() if isinstance(values, dict) for key in values]
    words: list[str] = []
    for _ in range(0 if isinstance(rng, Spared) else rng.randint(1, 3)):
        key = rng.choice([*keys, odd_text(rng), "seed", "name", "extends"])
        if "epochs" not in key and "tasks" not in key:
            value = rng.choice((odd_text(rng), toml_text({"x": odd_value(rng)}).partition("= ")[2].strip()))
            words += ["--set", f"{key}={value}".encode("utf-8", "replace").decode()[:100_000]]
    (room.work / "tiny.toml").write_text(toml_text(TRAIN))
    short = "--set", "train.epochs=0", "--set", "train.init=''", "--runs", "runs"
    return command("train", "tiny.toml", *words, *short)
