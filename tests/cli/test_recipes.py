"""`fewset recipes`: the list, one recipe, and what is not one."""

import tomllib

from fewset.experiments.recipes import (
    find_recipe,
    read_recipe,
    recipe_text,
    recipes_directory,
    shipped_recipes,
)
from tests.helpers.command_line import fail, succeed


def test_all_recipes_are_listed_by_directory() -> None:
    *lines, where = succeed("recipes").splitlines()
    assert where == f"in {recipes_directory()}"
    listed, directory = {}, ""
    for row in (line for line in lines if line.startswith("│")):
        name, summary = (cell.strip() for cell in row.strip("│").split("│"))
        if name.endswith("/"):
            directory = name
        else:
            listed[directory + name] = summary
    assert list(listed) == list(shipped_recipes())
    for name, summary in listed.items():  # none is broken
        assert summary == read_recipe(find_recipe(name)).card.summary


def test_a_recipe_is_shown_with_its_card_and_in_full() -> None:
    output = succeed("recipes", "omniglot/feat-5shot")
    card, _, text = output.partition("\n\n")
    assert "cost:     about 4 minutes on 2 cores, after omniglot/protonet-5shot" in card.splitlines()
    assert card.splitlines()[-1] == "command:  fewset train omniglot/feat-5shot"
    whole = tomllib.loads(recipe_text(read_recipe(find_recipe("omniglot/feat-5shot"))))
    assert tomllib.loads(text) == {key: table for key, table in whole.items() if key != "card"}


def test_the_beginning_of_a_name_lists_those_that_have_it() -> None:
    output = succeed("recipes", "omniglot/feat")
    assert "feat-1shot" in output
    assert "feat-5shot" in output
    assert "protonet" not in output


def test_an_unknown_recipe_is_an_error() -> None:
    assert "Did you mean 'strokes/feat'?" in fail("recipes", "strokes/fat")
