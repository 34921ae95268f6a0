"""Show the shipped recipes, or one of them."""

from pathlib import Path
from typing import Annotated

import typer

from fewset.cli.options import PluginOption, start
from fewset.cli.output import begin_group, console, echo, make_table

PANEL = "Experiments"
commands = typer.Typer()


@commands.command()
def recipes(
    name: Annotated[
        str | None, typer.Argument(help="A recipe, or how several begin; without one, lists all.")
    ] = None,
    plugin: PluginOption = None,
) -> None:
    """The recipes that come with fewset; of one its card (data, cost, expected figure) and every setting.

    Example: `fewset recipes strokes/feat`
    """
    start(plugin)
    from fewset.experiments.recipes import recipe_path, recipes_directory, shipped_recipes

    beginnings = ("",) if name is None else (f"{name}/", f"{name}-")
    several = {each: path for each, path in shipped_recipes().items() if each.startswith(beginnings)}
    if several and (name is None or recipe_path(name) is None):
        _print_list(several)
        echo(f"in {recipes_directory()}")
    else:
        _print_recipe(str(name))


def _print_list(recipes: dict[str, Path]) -> None:
    from fewset.experiments.recipes import read_recipe

    table, place = make_table("name", "what it is"), ""
    for name, path in recipes.items():
        directory, _, member = name.rpartition("/")
        card = read_recipe(path).card
        if place != (place := f"{directory}/"):
            begin_group(table, place)
        table.add_row(member, card.summary if card else "")
    console.print(table)


def _print_recipe(name: str) -> None:
    from dataclasses import asdict, replace

    from fewset.experiments.recipes import find_recipe, read_recipe, recipe_text

    recipe = read_recipe(find_recipe(name))
    for key, value in asdict(recipe.card).items() if recipe.card else ():
        echo(f"{key + ':':<10}{value or '–'}")
    echo("")
    echo(recipe_text(replace(recipe, card=None)))
