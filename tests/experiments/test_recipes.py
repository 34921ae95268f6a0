"""Recipes: how they are read and rejected, what they extend, and that every shipped one is whole."""

import json
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch

from fewset.core.errors import UserError
from fewset.core.parsing import plain
from fewset.data.images.nearness import Nearness, nearest_classes, write_nearness
from fewset.data.images.store import ImageSet
from fewset.experiments.build import build_model
from fewset.experiments.config import Card
from fewset.experiments.recipes import (
    find_recipe,
    list_recipes,
    read_recipe,
    recipe_digest,
    recipe_path,
    recipe_text,
    recipes_directory,
    shipped_recipes,
)
from fewset.experiments.train_run import execute, stage_for
from fewset.experiments.weights import released_models

SHIPPED = shipped_recipes()
RECIPES = {name: read_recipe(path) for name, path in SHIPPED.items()}
FILES = sorted(recipes_directory().rglob("*.toml"))
MINIMAL = 'name = "one"\n[train]\n'


def write(tmp_path: Path, text: str, name: str = "recipe") -> Path:
    path = tmp_path / f"{name}.toml"
    path.write_text(text)
    return path


# The shipped recipes


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_recipe_parses_builds_and_says_what_it_is(name: str) -> None:
    path = find_recipe(name)
    recipe = read_recipe(path)
    if recipe.model.takes == "features":  # which come in any size
        recipe = read_recipe(path, ["model.backbone_options.dim=5"])
    assert recipe.card is not None
    for key in ("summary", "data", "cost", "expected"):
        assert getattr(recipe.card, key), f"the card does not state {key}"
    assert recipe.card.command.endswith(f"fewset {recipe.kind} {name}")
    model = build_model(recipe.model)
    size = model.backbone.input_size
    if recipe.model.takes == "features":
        assert model.dim == 5
        return
    with torch.no_grad():
        embedded = model.eval().backbone(torch.zeros(2, 3, size, size))
    assert embedded.shape == (2, model.backbone.dim)


def test_the_names_of_runs_are_those_of_their_recipes() -> None:
    """But for one, which a released model names as what it started from."""
    named = {"miniimagenet/conv4-pretrain-stage3": "miniimagenet-conv4-pretrain-56px-average"}
    for name, recipe in RECIPES.items():
        assert recipe.name == named.get(name, name.replace("/", "-"))


def test_what_a_shipped_recipe_starts_from_is_shipped_beside_it() -> None:
    for directory in {path.parent for path in SHIPPED.values()}:
        recipes = [read_recipe(path) for path in list_recipes(directory)]
        assert {recipe.init for recipe in recipes} <= {"", *(recipe.name for recipe in recipes)}


@pytest.mark.parametrize("name", released_models())
def test_the_recipe_of_a_released_model_is_still_shipped(name: str) -> None:
    (shipped,) = (recipe for recipe in RECIPES.values() if recipe.name == name)
    assert shipped == read_recipe(released_models()[name] / "recipe.toml")


def test_expected_figures_are_the_published_ones() -> None:
    results = recipes_directory().parent / "results" / "runs"
    checked = 0
    for recipe in RECIPES.values():
        if recipe.card is not None and recipe.card.expected.endswith("(docs/results)"):
            (file,) = results.glob(f"*/{recipe.name}/result.json")
            mean = json.loads(file.read_text())["mean"]
            assert recipe.card.expected == f"{100 * mean:.2f} % (docs/results)"
            checked += 1
    assert checked > 20


def flat(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def layers(file: Path, variant: str = "") -> list[dict[str, Any]]:
    """What a recipe is made of, the furthest first: the oracle of `extends` and of variants."""
    table = tomllib.loads(file.read_text())
    variants = table.pop("variants", {})
    own = variants[variant] if variant else table
    below = layers(file) if variant else []
    if "extends" in own:
        below = layers(*located(own.pop("extends"), file.parent))
    return [*below, dict(flat(own))]


def located(name: str, directory: Path) -> tuple[Path, str]:
    for place in (directory, recipes_directory()):
        file, variant = name, ""
        while not (place / f"{file}.toml").exists() and "-" in file:
            file, _, word = file.rpartition("-")
            variant = f"{word}-{variant}".strip("-")
        if (place / f"{file}.toml").exists():
            return place / f"{file}.toml", variant
    raise AssertionError(name)


def inherited(below: list[dict[str, Any]]) -> dict[str, Any]:
    own = ("name", "card.summary", "card.expected", "card.command")
    return {key: value for layer in below for key, value in layer.items() if key not in own}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_recipe_is_what_it_states_over_what_it_extends(name: str) -> None:
    *below, own = layers(*located(name, recipes_directory()))
    stated = {**inherited(below), **own}
    resolved = dict(flat(plain(RECIPES[name])))
    assert stated == {key: resolved[key] for key in stated}


def test_a_file_holds_what_differs() -> None:
    """Nothing is stated that is inherited anyway, and no two files have six lines in common."""
    for file in FILES:
        for variant in ["", *tomllib.loads(file.read_text()).get("variants", {})]:
            *below, own = layers(file, variant)
            taken = inherited(below)
            again = [key for key, value in own.items() if taken.get(key) == value]
            assert not again, f"{file} {variant} states again {again}"
    blocks = {
        file: set(zip(*(significant(file)[start:] for start in range(6)), strict=False)) for file in FILES
    }
    for one, other in combinations(FILES, 2):
        assert not blocks[one] & blocks[other], f"{one} and {other} repeat each other"


def significant(file: Path) -> list[str]:
    return [line for line in file.read_text().splitlines() if line and not line.startswith("#")]


# Extending


@pytest.mark.parametrize(
    ("files", "circle"),
    [
        ({"a": 'extends = "a"'}, ["a", "a"]),
        ({"a": 'extends = "../here/b"', "b": 'extends = "c"', "c": 'extends = "b"'}, ["b", "c", "b"]),
        ({"a": 'extends = "a-x"\n[variants.x]'}, ["a", "a-x", "a"]),
    ],
)
def test_a_circle_is_rejected_with_its_members(
    tmp_path: Path, files: dict[str, str], circle: list[str]
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    for name, text in files.items():
        write(here, text, name)
    with pytest.raises(UserError) as error:
        read_recipe(here / "a.toml")
    assert " -> ".join(str(here / f"{name}.toml") for name in circle) in str(error.value)


@pytest.mark.parametrize(
    ("parent", "message"),
    [
        ('"strokes/fat"', "extends, 'strokes/fat'. Did you mean 'strokes/feat'?"),
        ('"bsae"', "extends, 'bsae'. Did you mean 'base'?"),
        ('"mine-5shots"', "extends, 'mine-5shots'. Did you mean 'mine-5shot'?"),
        ("3", "extends is 3 (int), expected str"),
    ],
)
def test_an_unknown_parent_is_rejected(tmp_path: Path, parent: str, message: str) -> None:
    write(tmp_path, "[train]", "base")
    path = write(tmp_path, f"[variants.1shot]\nextends = {parent}\n[variants.5shot]\n[train]", "mine")
    with pytest.raises(UserError) as error:
        read_recipe(path.with_stem("mine-1shot"))
    assert message in str(error.value)


# Variants

FAMILY = """
[model]
adapter = "attention"
adapter_options = { heads = 2 }
[train]
epochs = 7
[variants.1shot]
[variants.5shot]
train.shot = 5
[variants.5shot-wide]
extends = "family-5shot"
name = "wide"
model.adapter_options.heads = 4
[variants.other]
extends = "strokes/protonet"
"""


def test_a_variant_stands_over_the_rest_of_its_file_or_over_what_it_extends(tmp_path: Path) -> None:
    write(tmp_path, FAMILY, "family")
    assert [path.stem for path in list_recipes(tmp_path)] == [
        "family-1shot", "family-5shot", "family-5shot-wide", "family-other",
    ]  # fmt: skip
    one, five, wide, other = (read_recipe(path) for path in list_recipes(tmp_path))
    assert [each.name for each in (one, five, wide, other)] == [
        "family-1shot", "family-5shot", "wide", "family-other",
    ]  # fmt: skip
    assert one.train == replace(five.train, shot=1)
    assert wide.train == five.train
    assert [each.model.adapter_options["heads"] for each in (one, five, wide)] == [2, 2, 4]
    assert other.model == read_recipe(find_recipe("strokes/protonet")).model


def test_a_variant_is_found_by_name_and_its_file_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, FAMILY, "family")
    write(tmp_path, "[train]", "family-plain")
    write(tmp_path, "[train]", "_base")
    for name in ("family-5shot", "family-5shot.toml", "family-5shot-wide", "family-plain"):
        assert find_recipe(name) == Path(f"{name.removesuffix('.toml')}.toml")
    assert recipe_path("family") is None
    assert recipe_path("family-6shot") is None
    assert Path("_base.toml") not in list_recipes(Path())
    with pytest.raises(
        UserError, match="family is several recipes in one file; name one of them: family-1shot"
    ):
        find_recipe("family")
    with pytest.raises(UserError, match=r"variants\.5shot is 3 \(int\), expected a table"):
        find_recipe(write(tmp_path, "variants.5shot = 3", "broken"))


# Digests


def test_recorded_recipes_keep_their_digests() -> None:
    """Results and studies name recipes by digests from before keys were added and removed."""
    recorded = 0
    for file in (recipes_directory().parent / "results" / "runs").glob("*/*/recipe.toml"):
        digest = json.loads((file.parent / "result.json").read_text()).get("recipe_digest")
        assert digest in (None, recipe_digest(read_recipe(file)))
        recorded += digest is not None
    assert recorded > 50


def test_a_key_counts_in_the_digest_once_it_is_set() -> None:
    path = find_recipe("omniglot/feat-1shot")
    changes = ([], ["model.gate=true"], ["train.auxiliary=1.0"], ["train.epochs=1"])
    assert len({recipe_digest(read_recipe(path, each)) for each in changes}) == len(changes)


def test_keys_that_were_removed_are_ignored_at_their_defaults(tmp_path: Path) -> None:
    text = recipe_text(read_recipe(find_recipe("strokes/feat")))
    old = text.replace("[train]\n", "[train]\nother_ways = []\ncrop_area = [0.08, 1.0]\n")
    assert read_recipe(write(tmp_path, old)) == read_recipe(write(tmp_path, text))
    with pytest.raises(UserError, match=r"unknown .*train\.other_ways"):
        read_recipe(write(tmp_path, old.replace("other_ways = []", "other_ways = [5]")))


# Cards


def test_a_card_is_kept_but_is_no_part_of_what_is_compared(tmp_path: Path) -> None:
    recipe = read_recipe(find_recipe("strokes/feat"))
    kept = write(tmp_path, recipe_text(recipe))
    assert read_recipe(kept).card == recipe.card
    other, changed = read_recipe(kept, ["card.cost=a day"]), read_recipe(kept, ["train.epochs=99"])
    assert (other, recipe_digest(other)) == (recipe, recipe_digest(recipe))
    assert changed != recipe
    assert recipe_digest(changed) != recipe_digest(recipe)
    with pytest.raises(UserError, match=r"unknown recipe key 'card\.costs'. Did you mean 'card\.cost'"):
        read_recipe(kept, ["card.costs=a day"])


def test_the_command_of_a_card_names_the_recipe(tmp_path: Path) -> None:
    path = write(tmp_path, '[pretrain]\n[card]\nsummary = "mine"')
    assert read_recipe(path).card == Card(summary="mine", command=f"fewset pretrain {path}")
    assert read_recipe(path, ["card.command=make"]).card == Card(summary="mine", command="make")
    assert read_recipe(write(tmp_path, MINIMAL)).card is None


@pytest.mark.usefixtures("tiny_set")
def test_a_run_holds_the_resolved_recipe_and_goes_on_with_another_card(tmp_path: Path) -> None:
    base = ["data.set=tiny", "model.backbone_options.input_size=16", "evaluate.way=3", "evaluate.query=2"]
    small = [*base, "evaluate.tasks=3", "train.init=", "train.epochs=0"]
    recipe = read_recipe(find_recipe("strokes/feat"), small)
    execute(recipe, "train", tmp_path / "run")
    kept = tomllib.loads((tmp_path / "run" / "recipe.toml").read_text())
    assert not {"extends", "variants"} & {*kept}
    assert kept["card"]["command"] == "fewset train strokes/feat"
    assert kept["train"]["optimiser"]["momentum"] == 0.9  # a default
    (tmp_path / "run" / "result.json").unlink()  # stopped before the end
    again = read_recipe(find_recipe("strokes/feat"), [*small, "card.expected=more"])
    execute(again, "train", tmp_path / "run", resume=True)
    assert tomllib.loads((tmp_path / "run" / "recipe.toml").read_text()) == kept


# Reading


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (MINIMAL + "epoch = 3", "unknown recipe key 'train.epoch'. Did you mean 'train.epochs'"),
        (MINIMAL + "epochs = 3.0", "train.epochs is 3.0 (float), expected int"),
        (MINIMAL + "augment = [3]", "train.augment is 3 (int), expected str"),
        (MINIMAL + 'contrastive_scored = "both"', "unknown value of train.contrastive_scored 'both'"),
        ('name = "a/b"\n[train]', "cannot be the name of a folder"),
        (MINIMAL + "[pretrain]", "either a [pretrain] or a [train] table"),
        ("name = ", "not valid TOML"),
    ],
)
def test_a_bad_recipe_is_rejected_with_the_reason(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        read_recipe(write(tmp_path, text))
    assert message in str(error.value)


def test_overrides(tmp_path: Path) -> None:
    overrides = [
        "train.optimiser.lr=1",
        "data.set=other",
        'train.augment=["flip"]',
        "model.adapter=attention",
    ]
    recipe = read_recipe(write(tmp_path, MINIMAL), overrides)
    assert recipe.train is not None
    assert (recipe.train.optimiser.lr, recipe.train.augment) == (1.0, ("flip",))
    assert (recipe.data.set, recipe.method) == ("other", "attention")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("name.first=3", "not a table"),
        ("train.epochs=1\nseed = 3", "more than one value"),
        ("train.epochs=" + "[" * 5000, "nests"),
        ("train.optimiser.lr=nan", "expected float"),
        (f"train.balance={10**400}", "too large"),
        ("=1", "key=value"),
        ("seed=99999999999999999999999999", "seed"),
    ],
)
def test_bad_overrides(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_recipe(write(tmp_path, MINIMAL), [override])


@pytest.mark.parametrize("name", SHIPPED)
def test_the_resolved_recipe_is_the_same_recipe(tmp_path: Path, name: str) -> None:
    recipe = RECIPES[name]
    again = read_recipe(write(tmp_path, recipe_text(recipe)))
    assert (again, again.card) == (recipe, recipe.card)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("[pretrain]", "use `fewset train`"),
        ('[train]\n[data]\ndomain = "odd"\nhold_out = 0.2', "sets data.domain, data.hold_out"),
        ("[train]\n[model.maml]", "sets model.maml"),
        ('[train]\ninit = "pre"\naugment = ["flip"]', "sets train.init, train.augment"),
        ('[train]\n[evaluate]\nsplit = "val"\nway = 3', "evaluate.split, evaluate.way"),
    ],
)
def test_what_features_do_not_have_is_rejected(tmp_path: Path, table: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        read_recipe(write(tmp_path, f'name = "one"\n{table}'), ["model.backbone=features"])
    assert message in str(error.value)


SMALLEST = ["data.set=tiny", "model.backbone_options.input_size=16", "evaluate.way=3", "evaluate.query=2"]
SMALLEST_STAGE = {
    "pretrain": ["init=", "epochs=1", "batch=3", "validation_query=2"],
    "train": ["init=", "way=3", "shot=1", "query=2", "validation_way=3", "validation_query=2"],
}


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.usefixtures("tiny_table")
def test_every_shipped_recipe_runs_a_step(name: str, tmp_path: Path, tiny_set: ImageSet) -> None:
    """On a tiny set, at the smallest input of the backbone, with the recipe's own losses and optimiser."""
    one_group = nearest_classes([""] * len(tiny_set.class_names), None)
    write_nearness(Nearness(tiny_set.digest, "a test", one_group), tiny_set.path)
    path, shipped = SHIPPED[name], RECIPES[name]
    smallest = ["data.set=tiny-features"] if shipped.model.takes == "features" else SMALLEST
    stage_changes = [f"{shipped.kind}.{change}" for change in SMALLEST_STAGE[shipped.kind]]
    changes = ["data.domain=odd"] if shipped.data.domain else []
    if "slots" in shipped.model.adapter_options:  # one for each train class
        changes.append("model.adapter_options.slots=13")
    recipe = read_recipe(path, [*smallest, *changes, *stage_changes, "evaluate.tasks=3"])
    if recipe.train is not None and not recipe.train.epochs:  # a baseline: there is no step, only a result
        assert 0 <= execute(recipe, "train", tmp_path / recipe.name).mean <= 1
        return
    stage = stage_for(recipe, tmp_path)
    stage.module.train()
    loss, accuracy = stage.step(0)
    stage.optimiser.zero_grad()
    loss.backward()
    stage.optimiser.step()
    assert torch.isfinite(loss)
    assert 0 <= accuracy <= 1


def test_pretraining_rejects_what_it_does_not_train() -> None:
    changes = ["model.head='ridge'", "model.head_options.temperature=2.0", "model.gate=true"]
    with pytest.raises(UserError, match=r"sets model\.head, model\.head_options, model\.gate"):
        read_recipe(find_recipe("strokes/pretrain"), changes)


@pytest.mark.parametrize("key", ["query", "validation_tasks"])
def test_tasks_that_cannot_be_are_rejected_with_the_recipe(key: str) -> None:
    with pytest.raises(UserError, match=f"^{key} is 0, expected 1 or more"):
        read_recipe(find_recipe("strokes/feat"), [f"train.{key}=0"])
