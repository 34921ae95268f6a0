"""Writes the pages of the reference from the package itself, before each build.

Nothing in them is written by hand: the public names, the members of each registry and the commands are listed
by code, and their text is that of the docstrings and of the help.
"""

import inspect
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from itertools import groupby
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, get_args, get_type_hints

import typer
from recipe_pages import recipe_page

import fewset
from fewset.cli.app import app
from fewset.core.registry import Registry

# The public names by what they are for, what most people need first.
PARTS = {
    "Classify photos": ["FewShotClassifier", "ImageEncoder", "embed", "Predictor", "Embedder"],
    "Load and score few-shot models": [
        "load",
        "list_models",
        "load_authors_checkpoint",
        "FewShotModel",
        "embed_images",
        "TaskSpec",
        "evaluate",
        "Score",
        "compare",
        "Difference",
    ],
    "Image sets": ["import_set", "open_set"],
    "Extend fewset": [name for name in fewset.__all__ if name.startswith("register_")],
    "Errors": ["UserError"],
}


def write(directory: Path) -> None:
    """Write the pages that have changed, and remove those of earlier builds that are gone."""
    list(walk_packages(fewset.__path__, "fewset."))  # imports every package, which makes the registries
    public = [getattr(fewset, name) for name in fewset.__all__]
    listed = [*public, *(item for registry in Registry.kinds.values() for item in contract(registry))]
    pages = {
        "python.rst": python_page(),
        "command-line.md": command_page(),
        "recipes.md": recipe_page(),
        **{f"{kind}s.rst": member_page(registry, public) for kind, registry in Registry.kinds.items()},
        "types.rst": types_page(listed),
    }
    directory.mkdir(exist_ok=True)
    for file in directory.iterdir():
        if file.name not in pages:
            file.unlink()
    for name, text in pages.items():
        file = directory / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


# Python


def python_page() -> str:
    """Every public name, in its part."""
    listed = [name for names in PARTS.values() for name in names]
    if sorted(listed) != fewset.__all__:
        raise ValueError(
            f"public names without a part: {sorted(set(fewset.__all__) ^ set(listed))}; see PARTS"
        )
    lines = [*heading("Python", "="), ".. module:: fewset", "", "``import fewset`` gives these names.", ""]
    for part, names in PARTS.items():
        lines += heading(part, "-")
        for name in names:
            lines += autodoc(f"fewset.{name}", getattr(fewset, name))
    return "\n".join(lines)


def types_page(listed: list[Any]) -> str:
    """The types that occur in the annotations of what the other pages list, and in those of these types."""
    lines = [*heading("Types", "="), "What the names on the other pages take and return.", ""]
    for used in types_of(listed):
        lines += autodoc(path_of(used), used)
    return "\n".join(lines)


def types_of(listed: list[Any]) -> list[type]:
    """The classes of fewset in the annotations of these, and in those of their own, and so on."""
    found: list[type] = []
    waiting = list(listed)
    while waiting:
        for hint in hints(waiting.pop(0)):
            known = hint in listed or hint in found
            if inspect.isclass(hint) and hint.__module__.startswith("fewset.") and not known:
                found.append(hint)
                waiting.append(hint)
    return sorted(found, key=lambda used: used.__name__)


def hints(member: Any) -> Iterator[Any]:
    """The types in the annotations of a function, or of a class, its public methods and properties."""
    if inspect.isclass(member):
        for name, value in vars(member).items():
            function = getattr(value, "fget", getattr(value, "func", value))  # of a property, kept or not
            if inspect.isfunction(function) and not name.startswith("_"):
                yield from hints(function)
    for hint in get_type_hints(member).values():
        yield from nested(hint)


def nested(hint: Any) -> Iterator[Any]:
    """A type and those in its brackets."""
    yield hint
    for inner in hint if isinstance(hint, list) else get_args(hint):
        yield from nested(inner)


# Members of the registries


def member_page(registry: Registry[Any], public: list[Any]) -> str:
    """The contract of a kind, its members, and what one needs to write another."""
    package = sys.modules[registry.package]
    lines = [*heading(f"{registry.kind.capitalize()}s", "="), inspect.getdoc(package) or "", ""]
    for code, names in groupby(registry, lambda name: code_of(registry[name])):
        lines += [*heading(", ".join(f"``{name}``" for name in names), "-"), *member_lines(code)]
    lines += [*heading(f"To write a new {registry.kind}", "-"), f".. module:: {package.__name__}", ""]
    for item in contract(registry):
        lines += autodoc(path_of(item), item) if item not in public else []
    return "\n".join(lines)


def contract(registry: Registry[Any]) -> list[Any]:
    """The public classes and functions of the package of a registry."""
    return [
        value
        for name, value in vars(sys.modules[registry.package]).items()
        if (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == registry.package
        and not name.startswith("_")
    ]


def code_of(member: Any) -> Any:
    """The class or function of a member, which may be in a record (importers) or have arguments already."""
    return getattr(member, "entries", None) or getattr(member, "func", member)


def member_lines(code: Any) -> list[str]:
    """What the file of a member says about it, then the member itself."""
    lines = [inspect.getdoc(sys.modules[code.__module__]) or "", ""]
    if not inspect.isclass(code):
        return [*lines, inspect.getdoc(code) or "", ""]
    options = [field for field in (fields(code) if is_dataclass(code) else ()) if "help" in field.metadata]
    if options:
        lines += [inspect.getdoc(code) or "", ""]
        for field in options:
            words = map(str, field.default if isinstance(field.default, tuple) else (field.default,))
            default = "" if field.default is None else f" Default: {','.join(words)}."
            lines += [f"``--{field.name.replace('_', '-')}``", f"   {field.metadata['help']}{default}", ""]
        return lines
    return lines + autodoc(path_of(code), code)


# The command line


def command_page() -> str:
    """Every command with its help."""
    return "\n".join(["# Command line", "", *command_lines(typer.main.get_command(app), "fewset", None)])


def command_lines(command: Any, name: str, parent: typer.Context | None) -> Iterator[str]:
    context = typer.Context(command, info_name=name, parent=parent)
    if parent is not None:
        yield from (f"## `{context.command_path}`", "")
    yield from (inspect.cleandoc(command.help or ""), "")
    if not hasattr(command, "commands"):
        usage = [context.command_path, *command.collect_usage_pieces(context)]
        yield from ("```", " ".join(usage), "```", "")
        for parameter in command.get_params(context):
            names, text = parameter.get_help_record(context) or ("", "")
            if names and parameter.name != "help":
                yield from (f"`{names}`", f": {text or '&nbsp;'}", "")
    for inner in getattr(command, "commands", {}).values():
        yield from command_lines(inner, inner.name, context)


# reStructuredText


def path_of(member: Any) -> str:
    return f"{member.__module__}.{member.__qualname__}"


def autodoc(path: str, member: Any) -> list[str]:
    if inspect.isclass(member):
        return [f".. autoclass:: {path}", "   :members:", ""]
    return [f".. autofunction:: {path}", ""]


def heading(text: str, line: str) -> list[str]:
    return [text, line * len(text), ""]
