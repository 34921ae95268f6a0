"""Recipes: a TOML file that fully describes a run, as frozen dataclasses, and the model it names.

An unknown key or a value of the wrong type is an error that lists what is known. Here (and in the command
line) names become objects; everything below takes the objects themselves.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from fewset.experiments.config import Recipe
from fewset.runtime.errors import UserError, unknown_name
from fewset.runtime.packaged import packaged_directory
from fewset.runtime.parsing import parse, plain

# Reading and writing


def recipes_directory() -> Path:
    """Where the shipped recipes are."""
    return packaged_directory("recipes")


def find_recipe(name: str | Path) -> Path:
    """A recipe file by its path, or a shipped one by its name, such as "strokes/feat"."""
    path = Path(name)
    if path.is_file():
        return path
    directory = recipes_directory()
    if (directory / f"{name}.toml").is_file():
        return directory / f"{name}.toml"
    names = [str(file.relative_to(directory).with_suffix("")) for file in directory.rglob("*.toml")]
    raise unknown_name("recipe", str(name), names)


def read_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe in a file, with `key=value` overrides (`train.optimiser.lr=0.001`)."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid TOML: {error}") from None
    for override in overrides:
        _override(table, override)
    return parse_recipe(table)


def parse_recipe(table: Mapping[str, Any]) -> Recipe:
    return parse(Recipe, table)


def recipe_digest(recipe: Recipe) -> str:
    """What tells a recipe from others: the sha256 of all its keys."""
    return hashlib.sha256(json.dumps(plain(recipe), sort_keys=True).encode()).hexdigest()


def recipe_text(recipe: Recipe) -> str:
    """The resolved recipe as TOML, every default written out."""
    return tomli_w.dumps(plain(recipe))


def _override(table: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise UserError(f"--set {override!r} is not of the form key=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # a bare word is a string
    *parents, last = key.strip().split(".")
    for parent in parents:
        table = table.setdefault(parent, {})
        if not isinstance(table, dict):
            raise UserError(f"--set {override!r}: {parent!r} is a value, not a table")
    table[last] = value
