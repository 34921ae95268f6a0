"""Recipes: TOML files that fully describe runs, read into frozen dataclasses.

A file holds only differences: `extends` names the recipe that the rest comes from. Each `[variants.NAME]` is
a recipe, FILE-NAME, which extends the rest of the file or the recipe that it names. Tables are merged key by
key, lists and single values are replaced. The `name` of a run and the card's `summary`, `expected` and
`command` are not inherited.

The path of a variant is FILE-NAME.toml, beside FILE.toml, though there is no such file. A file with variants
is not a recipe itself. A file whose name begins with an underscore is only extended.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import tomli_w

from fewset.core.errors import UserError, unknown_name
from fewset.core.names import shortened
from fewset.core.parsing import lasting, parse, parse_value, plain
from fewset.experiments.config import Recipe
from fewset.experiments.run_directory import RECIPE
from fewset.io.paths import packaged_directory, recorded_path, user_path
from fewset.io.reading import parse_toml, read_text

_Table = dict[str, Any]

# Finding


def recipes_directory() -> Path:
    """Where the shipped recipes are."""
    return packaged_directory("recipes")


def shipped_recipes() -> dict[str, Path]:
    """The paths of the shipped recipes by name."""
    directories = sorted(each for each in recipes_directory().iterdir() if each.is_dir())
    return {recipe_label(path): path for directory in directories for path in list_recipes(directory)}


def list_recipes(directory: Path) -> list[Path]:
    """The paths of the recipes in a directory."""
    return [path for file in sorted(directory.glob("[!_]*.toml")) for path in _recipes_in(file)]


def find_recipe(name: str | Path) -> Path:
    """The path of a recipe by its path or, for a shipped one, by its name, such as "strokes/feat"."""
    path = recipe_path(name)
    if path is not None:
        return path
    for file in filter(Path.is_file, _candidates(name, Path())):
        recipes = ", ".join(recipe_label(each) for each in _recipes_in(file))
        raise UserError(f"{name} is several recipes in one file; name one of them: {recipes}")
    if Path(name).is_dir():
        raise UserError(
            f"{name} is a folder, expected a recipe; for a classifier from a folder of photos you want "
            f"`fewset fit {name} -o my.fewset`"
        )
    raise unknown_name("recipe", str(name), shipped_recipes())


def recipe_path(name: str | Path) -> Path | None:
    """As `find_recipe`, but None if there is no such recipe."""
    for path in _candidates(name, Path()):
        file, variant = _place(path)
        if file.is_file() and (variant or not _read(file)[1]):
            return path
    return None


def recipe_label(path: Path) -> str:
    """The name of a recipe on the command line: of a shipped one its name, of any other its path."""
    if path.is_relative_to(recipes_directory()):
        return path.relative_to(recipes_directory()).with_suffix("").as_posix()
    return str(path)


def _candidates(name: str | Path, beside: Path) -> list[Path]:
    """The paths that a recipe of this name may have: its own, and one among the shipped recipes."""
    file = str(name) if Path(name).suffix == ".toml" else f"{name}.toml"
    exact = [beside / name] if (beside / name).is_file() else []
    return [*exact, beside / file, recipes_directory() / file]


def _place(path: Path) -> tuple[Path, str]:
    """The file of a recipe, and the variant in it; "" for the file itself."""
    words = path.stem.split("-")
    for end in range(len(words) - 1, 0, -1) if not path.is_file() else ():
        file, variant = path.with_stem("-".join(words[:end])), "-".join(words[end:])
        if file.is_file() and variant in _read(file)[1]:
            return file, variant
    return path, ""


def _recipes_in(file: Path) -> list[Path]:
    return [file.with_stem(f"{file.stem}-{variant}") for variant in _read(file)[1]] or [file]


# Reading and writing


def read_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe at a path, with `key=value` overrides (`train.optimiser.lr=0.001`)."""
    label = recipe_label(path)
    default = path.stem if label == str(path) else label.replace("/", "-")
    table = {"name": default, **deepcopy(_resolve(path))}
    _drop_retired(table)
    for override in overrides:
        _override(table, override)
    recipe = parse_recipe(table)
    if recipe.card is None or recipe.card.command:
        return recipe
    return replace(recipe, card=replace(recipe.card, command=f"fewset {recipe.kind} {label}"))


_RETIRED: dict[str, _Table] = {
    "model": {"scales": []},
    "pretrain": {"crop_area": [0.08, 1.0], "rotation": 0.0},
    "train": {"crop_area": [0.08, 1.0], "other_ways": [], "other_shots": []},
}
"""Keys that are no longer there, with their defaults, which recorded recipes have written out."""


def _drop_retired(table: _Table) -> None:
    for name, keys in _RETIRED.items():
        found = table.get(name)
        for key, default in keys.items():
            if isinstance(found, dict) and key in found and found[key] == default:
                del found[key]


def run_recipe(run: Path) -> Recipe:
    """The resolved recipe of a run directory; the path of its set is relative to the working directory."""
    if not (run / RECIPE).exists():
        raise UserError(f"{run} is not a run directory: it has no {RECIPE}")
    recipe = read_recipe(run / RECIPE)
    place = run.parent / recipe.data.set
    if "/" in recipe.data.set and place.exists():
        return replace(recipe, data=replace(recipe.data, set=str(place)))
    return recipe


def parse_recipe(table: Mapping[str, Any]) -> Recipe:
    return parse(Recipe, table)


def recipe_digest(recipe: Recipe) -> str:
    """The sha256 of a recipe without its card; keys in `later` count if they are not at their defaults."""
    table = lasting(replace(recipe, card=None))
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()


def recorded_recipe(recipe: Recipe, beside: Path) -> Recipe:
    """The recipe as a run in the directory `beside` records it, with paths relative to that directory."""
    stage: Any = getattr(recipe, recipe.kind)
    changes: dict[str, Any] = {}
    if "/" in recipe.data.set:
        changes["data"] = replace(recipe.data, set=_recorded(recipe.data.set, beside))
    if stage.init:
        changes[recipe.kind] = replace(stage, init=_recorded(stage.init, beside))
    return replace(recipe, **changes)


def _recorded(name: str, beside: Path) -> str:
    path = user_path(name)
    found = next((place for place in (beside / path, path) if place.exists()), None)
    return recorded_path(found or path, beside) if found or path.is_absolute() else name


def recipe_text(recipe: Recipe) -> str:
    """The resolved recipe as TOML, every default written out."""
    return tomli_w.dumps(plain(recipe))


# Resolving


def _read(file: Path) -> tuple[_Table, dict[str, _Table]]:
    """The table of a file without its variants, and these."""
    try:
        table = _parse_toml(read_text(file))
    except (OSError, ValueError) as error:
        raise UserError(f"{file} is not valid TOML: {error}") from None
    variants = parse_value(dict[str, dict], table.get("variants", {}), "variants")  # type: ignore[type-arg]
    return _without(table, "variants"), variants


# One file may be read for each of its variants, and again for each that another one extends.
_parse_toml = lru_cache(64)(parse_toml)


def _resolve(path: Path, chain: tuple[Path, ...] = ()) -> _Table:
    """The table of a recipe or of the shared part of a file; `chain` has the files that led to it."""
    chain = (*chain, path.resolve())
    if chain[-1] in chain[:-1]:
        circle = " -> ".join(recipe_label(link) for link in chain[chain.index(chain[-1]) :])
        raise UserError(f"recipes extend each other in a circle, {circle}; remove one `extends`")
    file, variant = _place(path)
    shared, variants = _read(file)
    own = variants[variant] if variant else shared
    below: _Table = {}
    if "extends" in own:
        below = _resolve(_parent(own["extends"], file), chain)
    elif variant:
        below = _resolve(file, chain)
    below = _without(below, "name")
    if isinstance(below.get("card"), dict):
        below["card"] = _without(below["card"], "summary", "expected", "command")
    return _merge(below, _without(own, "extends"))


def _parent(extends: Any, file: Path) -> Path:
    """The path of the recipe that a file, or a variant in it, extends."""
    name = parse_value(str, extends, "extends")
    for path in _candidates(name, file.parent):
        if _place(path)[0].is_file():
            return path
    beside = [each.stem for each in (*file.parent.glob("*.toml"), *_recipes_in(file))]
    raise unknown_name(f"recipe that {file} extends,", name, {*beside, *shipped_recipes()})


def _without(table: _Table, *keys: str) -> _Table:
    return {key: value for key, value in table.items() if key not in keys}


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> _Table:
    """`above` over `below`: tables in both are merged, other values are those of `above`."""
    merged = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(below[key], dict) and isinstance(above[key], dict):
            merged[key] = _merge(below[key], above[key])
    return merged


def _override(table: _Table, override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise UserError(f"--set {override!r} is not of the form key=value")
    try:
        parsed = parse_toml(f"value = {text}")
    except tomllib.TOMLDecodeError:
        parsed = {"value": text}  # a bare word is a string
    except ValueError as error:
        raise UserError(f"--set {shortened(override)!r}: {error}") from None
    if set(parsed) != {"value"}:
        raise UserError(f"--set {override!r} gives more than one value; give a --set for each")
    value = parsed["value"]
    *parents, last = key.strip().split(".")
    for parent in parents:
        table = table.setdefault(parent, {})
        if not isinstance(table, dict):
            raise UserError(f"--set {override!r}: {parent!r} is a value, not a table")
    table[last] = value
