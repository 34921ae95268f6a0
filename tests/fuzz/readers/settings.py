"""TOML: recipes, with what they extend."""

import shutil
import tomllib
from functools import cache
from pathlib import Path
from random import Random

from tests.fuzz.case import Case, command, reader
from tests.fuzz.room import Room
from tests.helpers.damage import Spared, altered, damaged, odd_text, odd_value, toml_text
from tests.helpers.tiny_recipes import FEATURES, PRETRAIN, TRAIN

ROOT = Path(__file__).parents[3]


@cache
def _shipped() -> dict[str, bytes]:
    files = (ROOT / "recipes").rglob("*.toml")
    return {str(path.relative_to(ROOT / "recipes")): path.read_bytes() for path in files}


@cache
def _names() -> list[tuple[str, str]]:
    """The files that are shipped, each with the name of a recipe in it or after it."""
    from fewset.experiments.recipes import shipped_recipes

    names = list(shipped_recipes())
    found = []
    for file in _shipped():
        folder, _, stem = file.removesuffix(".toml").rpartition("/")
        beginning = f"{folder}/" if stem.startswith("_") else f"{folder}/{stem}"
        found += [(file, name) for name in names if name.startswith(beginning)][:3]
    return found


def damaged_toml(data: bytes, rng: Random) -> bytes:
    if rng.random() < 0.8:
        return toml_text(altered(tomllib.loads(data.decode()), rng)).encode("utf-8", "surrogatepass")
    return damaged(data, rng)


@reader("recipes")
def recipes(room: Room, rng: Random) -> Case:
    """Shipped ones are shown, tiny ones are trained."""
    if rng.random() < 0.5:
        folder = room.work / "recipes"
        damaged_file, name = rng.choice(_names())
        for file, data in _shipped().items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(damaged_toml(data, rng) if file == damaged_file else data)
        return command("recipes", folder / f"{name}.toml")
    table = rng.choice((PRETRAIN, TRAIN, FEATURES))
    stage = "pretrain" if table is PRETRAIN else "train"
    shutil.copytree(room.runs / "pre", room.work / "runs" / "start")
    (room.work / "runs" / "pre").symlink_to("start")
    file = room.work / "recipe.toml"
    file.write_bytes(
        toml_text(_short(altered({**table, "name": "new"}, rng))).encode("utf-8", "surrogatepass")
    )
    return command(stage, file, "--runs", room.work / "runs")


_FEW = {"epochs": 1, "tasks_per_epoch": 5, "tasks": 100, "validation_tasks": 100}
_COUNTS = {
    "pretrain": ("epochs", "validation_tasks"),
    "train": ("epochs", "tasks_per_epoch", "validation_tasks"),
    "evaluate": ("tasks",),
}


def _short(table: object) -> object:
    """The recipe without what makes a training long rather than wrong: counts that are large or not said."""
    few = _bounded(table)
    if isinstance(few, dict):
        for part, counts in _COUNTS.items():
            if isinstance(few.get(part), dict):
                few[part] = {**{count: _FEW[count] for count in counts}, **few[part]}
    return few


def _bounded(table: object) -> object:
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
        if "epochs" in key or "tasks" in key:
            continue
        value = rng.choice((odd_text(rng), toml_text({"x": odd_value(rng)}).partition("= ")[2].strip()))
        words += ["--set", _encodable(f"{key}={value}")[:100_000]]
    (room.work / "tiny.toml").write_text(toml_text(TRAIN))
    return command(
        "train", "tiny.toml", *words, "--set", "train.epochs=0", "--set", "train.init=''", "--runs", "runs"
    )


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
