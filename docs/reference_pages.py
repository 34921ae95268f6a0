"""Writes the pages of the reference from the package itself, before each build.

Nothing in them is written by hand: the public names, the members of each registry and the commands are listed
by code, and their text is that of the docstrings and of the help.
"""

import inspect
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, get_args, get_type_hints

import typer

import fewset
from fewset.cli.app import app
from fewset.runtime.registry import Registry


def write(directory: Path) -> None:
    """Write the pages that have changed, and remove those of earlier builds that are gone."""
    pages = {"python.rst": python_page(), "command-line.md": command_page(), **member_pages()}
    directory.mkdir(exist_ok=True)
    for file in directory.iterdir():
        if file.name not in pages:
            file.unlink()
    for name, text in pages.items():
        file = directory / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def python_page() -> str:
    """Every public name, and the types that these take and return."""
    public = {name: getattr(fewset, name) for name in fewset.__all__}
    lines = [*heading("Python", "="), ".. module:: fewset", "", "``import fewset`` gives these names.", ""]
    for name, member in public.items():
        lines += autodoc(f"fewset.{name}", member)
    lines += heading("Types that they take and return", "-")
    for used in types_of(public.values()):
        lines += autodoc(path_of(used), used)
    return "\n".join(lines)


def member_pages() -> dict[str, str]:
    """A page a registry."""
    list(walk_packages(fewset.__path__, "fewset."))  # imports every package, which makes the registries
    return {f"{kind}s.rst": member_page(kind, registry) for kind, registry in Registry.kinds.items()}


def member_page(kind: str, registry: Registry[Any]) -> str:
    """The contract of a kind, its members, and what one needs to write another."""
    package = sys.modules[registry.package]
    lines = [*heading(f"{kind.capitalize()}s", "="), inspect.getdoc(package) or "", ""]
    for code, names in groupby(registry, lambda name: code_of(registry[name])):
        lines += [*heading(", ".join(f"``{name}``" for name in names), "-"), *member_lines(code)]
    own = {name: value for name, value in vars(package).items() if is_own(value, package.__name__)}
    lines += [*heading(f"To write {kind}s", "-"), f".. module:: {package.__name__}", ""]
    for name, value in own.items():
        lines += autodoc(f"{package.__name__}.{name}", value)
    for used in types_of(own.values()):
        lines += autodoc(path_of(used), used)
    return "\n".join(lines)


def member_lines(code: Any) -> list[str]:
    """What the file of a member says about it, then the member itself."""
    lines = [inspect.getdoc(sys.modules[code.__module__]) or "", ""]
    if inspect.isclass(code):
        return lines + autodoc(path_of(code), code)
    return [*lines, inspect.getdoc(code) or "", ""]


def code_of(member: Any) -> Any:
    """The class or function of a member, which may be in a record (importers) or have arguments already."""
    return getattr(member, "entries", None) or getattr(member, "func", member)


def types_of(members: Any) -> list[type]:
    """The classes of fewset in the annotations of these, and in those of their own, and so on."""
    members = list(members)
    found: dict[type, None] = {}
    waiting = list(members)
    while waiting:
        for hint in hints(waiting.pop()):
            if inspect.isclass(hint) and hint.__module__.startswith("fewset.") and hint not in members:
                waiting += [] if hint in found else [hint]
                found[hint] = None
    return list(found)


def hints(member: Any) -> Iterator[Any]:
    """The types in the annotations of a function, or of a class, its public methods and properties."""
    if inspect.isclass(member):
        for name, value in vars(member).items():
            function = getattr(value, "fget", value)  # of a property
            if inspect.isfunction(function) and not name.startswith("_"):
                yield from hints(function)
    for hint in get_type_hints(member).values():
        yield from nested(hint)


def nested(hint: Any) -> Iterator[Any]:
    """A type and those in its brackets."""
    yield hint
    for inner in hint if isinstance(hint, list) else get_args(hint):
        yield from nested(inner)


def is_own(value: Any, module: str) -> bool:
    return (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == module


def path_of(member: Any) -> str:
    return f"{member.__module__}.{member.__qualname__}"


def autodoc(path: str, member: Any) -> list[str]:
    if inspect.isclass(member):
        return [f".. autoclass:: {path}", "   :members:", ""]
    return [f".. autofunction:: {path}", ""]


def heading(text: str, line: str) -> list[str]:
    return [text, line * len(text), ""]


def command_page() -> str:
    """Every command with its help."""
    return "\n".join(["# Command line", "", *command_lines(typer.main.get_command(app), "fewset", None)])


def command_lines(command: Any, name: str, parent: typer.Context | None) -> Iterator[str]:
    context = typer.Context(command, info_name=name, parent=parent)
    if parent is not None:
        yield from (f"## `{context.command_path}`", "")
    yield from (inspect.cleandoc(command.help or ""), "")
    if not hasattr(command, "commands"):
        yield from (
            "```",
            f"{context.command_path} {' '.join(command.collect_usage_pieces(context))}",
            "```",
            "",
        )
        for parameter in command.get_params(context):
            names, text = parameter.get_help_record(context) or ("", "")
            if names and parameter.name != "help":
                yield from (f"`{names}`", f": {text or '&nbsp;'}", "")
    for inner in getattr(command, "commands", {}).values():
        yield from command_lines(inner, inner.name, context)
