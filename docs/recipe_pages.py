"""The page of the recipes: which come with fewset, and every key with its default.

The text of a key is the comment beside it in the code, that of a table the docstring of its dataclass.
"""

import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

import tomli_w

from fewset.experiments import recipes
from fewset.experiments.config import Recipe


def recipe_page() -> str:
    lines = ["# Recipes", "", inspect.getdoc(recipes) or "", "", *table_lines("", Recipe, None)]
    return "\n".join([*lines, *shipped_lines()])


def shipped_lines() -> Iterator[str]:
    """The shipped recipes, as `fewset recipes` lists them."""
    yield from ("## Shipped recipes", "", "| recipe | summary | expected |", "|---|---|---|")
    for name, path in recipes.shipped_recipes().items():
        card = recipes.read_recipe(path).card
        yield f"| `{name}` | {card.summary if card else ''} | {card.expected if card else ''} |"
    yield ""


def table_lines(name: str, kind: type, default: Any) -> Iterator[str]:
    """A table of a recipe with its keys and their defaults, then the tables in it."""
    yield from (f"## `[{name}]`" if name else "## Top level", "", inspect.getdoc(kind) or "", "")
    comments, hints = comments_of(kind), get_type_hints(kind)
    inner = {}
    for field in fields(kind):
        value = getattr(default, field.name) if default is not None else default_of(field)
        hint = hints[field.name]
        own = next((each for each in (hint, *get_args(hint)) if is_dataclass(each)), None)
        if own is not None:
            inner[field.name] = own, value if value is not None else own()
            continue
        choices = get_args(hint) if get_origin(hint) is Literal else ()
        known = f" One of {', '.join(map(repr, choices))}." if choices else ""
        shown = field.name if value in (None, MISSING) else assignment(field.name, value)
        yield from (f"`{shown}`", f": {comments[field.name]}{known}", "")
    for key, (own, value) in inner.items():
        yield from table_lines(f"{name}.{key}".lstrip("."), own, value)


def assignment(key: str, value: Any) -> str:
    """A key and its value as in a recipe, on one line."""
    if isinstance(value, dict):
        return f"{key} = {{}}"
    items = [tomli_w.dumps({key: item}).strip() for item in value] if isinstance(value, tuple) else None
    if items is None:
        return tomli_w.dumps({key: value}).strip()
    return f"{key} = [{', '.join(item.removeprefix(f'{key} = ') for item in items)}]"


def default_of(field: Any) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def comments_of(kind: type) -> dict[str, str]:
    """The comment beside each field, as a sentence."""
    found = re.findall(r"^    (\w+): [^#\n]*  # (.*)$", inspect.getsource(kind), flags=re.MULTILINE)
    return {key: f"{text[0].upper()}{text[1:].rstrip('.')}." for key, text in found}
