from pathlib import Path

import pytest
import torch

from fewset.experiments.build import build_model
from fewset.experiments.config import ModelConfig
from fewset.experiments.execute import execute, stage_for
from fewset.experiments.recipes import find_recipe, read_recipe, recipe_text, recipes_directory
from fewset.experiments.weights import load, load_weights, save_weights
from fewset.runtime.errors import UserError

SHIPPED = sorted(recipes_directory().rglob("*.toml"))
MINIMAL = 'name = "one"\n[train]\n'


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(recipes_directory())))
def test_every_shipped_recipe_parses_builds_and_says_what_it_is(path: Path) -> None:
    recipe = read_recipe(path)
    if recipe.model.takes == "features":  # which come in any size
        recipe = read_recipe(path, ["model.backbone_options.dim=5"])
    model = build_model(recipe.model)
    assert path.stem in recipe.name
    header = [line for line in path.read_text().splitlines() if line.startswith("#")]
    for word in ("Data:", "Cost:", "Expected:", "Command:"):
        assert any(word in line for line in header), f"the header does not state {word}"
    size = model.backbone.input_size
    if recipe.model.takes == "features":
        assert model.dim == 5
        return
    with torch.no_grad():
        embedded = model.eval().backbone(torch.zeros(2, 3, size, size))
    assert embedded.shape == (2, model.backbone.dim)


def test_names_of_shipped_recipes_are_unique() -> None:
    names = [read_recipe(path).name for path in SHIPPED]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (MINIMAL + "epoch = 3", "unknown recipe key 'train.epoch'. Did you mean 'train.epochs'"),
        (MINIMAL + 'epochs = "3"', "train.epochs is '3' (str), expected int"),
        (MINIMAL + "epochs = true", "train.epochs is True (bool), expected int"),
        (MINIMAL + "epochs = 3.0", "train.epochs is 3.0 (float), expected int"),
        (MINIMAL + "augment = 3", "train.augment is 3 (int), expected a list"),
        (MINIMAL + "augment = [3]", "train.augment is 3 (int), expected str"),
        (MINIMAL + "optimiser = 3", "train.optimiser is 3 (int), expected a table"),
        (MINIMAL + 'contrastive_scored = "both"', "unknown value of train.contrastive_scored 'both'"),
        ("[train]", "lacks 'name'"),
        ('name = "a/b"\n[train]', "expected a plain name"),
        ('name = "one"', "either a [pretrain] or a [train] table"),
        (MINIMAL + "[pretrain]", "either a [pretrain] or a [train] table"),
        ("name = ", "not valid TOML"),
    ],
)
def test_a_bad_recipe_is_refused_with_the_reason(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        read_recipe(write(tmp_path, text))
    assert message in str(error.value)


def test_overrides(tmp_path: Path) -> None:
    path = write(tmp_path, MINIMAL)
    overrides = [
        "train.epochs=7",
        "train.optimiser.lr=1",
        "data.set=other",
        'train.augment=["flip"]',
        "model.adapter=attention",
    ]
    recipe = read_recipe(path, overrides)
    assert recipe.train is not None
    assert recipe.train.epochs == 7
    assert recipe.train.optimiser.lr == 1.0
    assert recipe.data.set == "other"
    assert recipe.train.augment == ("flip",)
    assert recipe.method == "attention"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.epochs", "not of the form key=value"),
        ("train.epoch=3", "unknown recipe key"),
        ("name.first=3", "'name' is a value, not a table"),
        ("train.epochs=many", "expected int"),
    ],
)
def test_bad_overrides(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_recipe(write(tmp_path, MINIMAL), [override])


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_resolved_recipe_is_the_same_recipe(tmp_path: Path, path: Path) -> None:
    recipe = read_recipe(path)
    assert read_recipe(write(tmp_path, recipe_text(recipe))) == recipe


def test_an_unknown_recipe_gets_the_closest_ones_not_all() -> None:
    with pytest.raises(UserError, match=r"Did you mean 'strokes/feat'\?.* and \d+ more\.$") as caught:
        find_recipe("strokes/fat")
    assert "imagenet" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (ModelConfig(adapter="atention"), "unknown adapter 'atention'. Did you mean 'attention'"),
        (ModelConfig(backbone="vgg"), "unknown backbone 'vgg'"),
        (ModelConfig(head="svm"), "unknown head 'svm'"),
        (
            ModelConfig(adapter="attention", adapter_options={"head": 2}),
            "unknown option of adapter 'attention' 'head'",
        ),
        (ModelConfig(adapter="attention", adapter_options={"heads": "2"}), "adapter_options.heads is '2'"),
        (ModelConfig(head_options={"similarity": "dot"}), "unknown similarity 'dot'"),
    ],
)
def test_an_unknown_part_or_option_is_named(config: ModelConfig, message: str) -> None:
    with pytest.raises(UserError) as error:
        build_model(config)
    assert message in str(error.value)


SMALL = ModelConfig(
    backbone_options={"input_size": 16, "dim": 8}, adapter="attention", adapter_options={"heads": 2}
)


def test_initial_weights_come_from_the_seed() -> None:
    first, again, other = (build_model(SMALL, seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_a_weights_file_is_self_describing_and_reproducible(tmp_path: Path) -> None:
    model = build_model(SMALL, seed=3)
    for name in ("one", "two"):
        save_weights(model, SMALL, tmp_path / f"{name}.safetensors")
    assert (tmp_path / "one.safetensors").read_bytes() == (tmp_path / "two.safetensors").read_bytes()
    loaded, config = load_weights(tmp_path / "one.safetensors")
    assert config == SMALL
    assert not loaded.training
    images = torch.randint(
        0, 256, (3, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    torch.testing.assert_close(loaded.embed(images), model.eval().embed(images), rtol=0, atol=0)


def test_weights_that_do_not_fit_are_named(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = tmp_path / "model.safetensors"
    save_weights(build_model(SMALL), SMALL, path)
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    tensors = load_file(path)
    removed = tensors.pop("backbone.blocks.0.0.weight")
    tensors["extra"] = torch.zeros(3)
    tensors["backbone.blocks.1.0.bias"] = torch.zeros(5)
    save_file(tensors, path, metadata=metadata)
    with pytest.raises(UserError) as error:
        load(path)
    assert removed.shape == (8, 3, 3, 3)
    for part in (
        "missing backbone.blocks.0.0.weight",
        "unexpected extra",
        "blocks.1.0.bias has shape (5,), expected (8,)",
    ):
        assert part in str(error.value)


def test_what_is_not_a_weights_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"not weights at all")
    with pytest.raises(UserError, match="not a weights file"):
        load(tmp_path / "weights")
    with pytest.raises(UserError, match="unknown run directory, weights file or released model"):
        load(tmp_path / "absent")
    with pytest.raises(UserError, match="unfinished"):
        load(tmp_path)


def test_a_model_on_features_needs_their_size() -> None:
    with pytest.raises(UserError, match=r"backbone_options.dim is not given"):
        build_model(ModelConfig(backbone="features"))
    assert build_model(ModelConfig(backbone="features", backbone_options={"dim": 7})).dim == 7


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("[pretrain]", "no images to learn them from; use a [train] table and `fewset train`"),
        ('[train]\n[data]\ndomain = "odd"\nhold_out = 0.2', "sets data.domain, data.hold_out: a table"),
        ("[train]\n[model.maml]", "sets model.maml: a table of features has no such thing"),
        (
            "[train]\n[model]\ntest_time_flip = true",
            "sets model.test_time_flip: a table of features has no such thing",
        ),
        ('[train]\ninit = "pre"\naugment = ["flip"]', "sets train.init, train.augment:"),
        ("[train]\nfreeze_batchnorm = true", "sets train.freeze_batchnorm:"),
        (
            '[train]\n[evaluate]\nsplit = "val"\nway = 3\nquery = 2',
            "evaluate.split, evaluate.way, evaluate.q",
        ),
    ],
)
def test_what_features_do_not_have_is_refused(tmp_path: Path, table: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        read_recipe(write(tmp_path, f'name = "one"\n{table}'), ["model.backbone=features"])
    assert message in str(error.value)


SMALLEST = ["data.set=tiny", "model.backbone_options.input_size=16", "evaluate.way=3", "evaluate.query=2"]
SMALLEST_TABLE = ["data.set=tiny-features", "train.validation_way=3"]
SMALLEST_STAGE = {
    "pretrain": ["pretrain.init=", "pretrain.epochs=1", "pretrain.batch=3"],
    "train": ["train.init=", "train.way=3", "train.shot=1", "train.query=2"],
}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(recipes_directory())))
@pytest.mark.usefixtures("tiny_set", "tiny_table")
def test_every_shipped_recipe_runs_a_step(path: Path, tmp_path: Path) -> None:
    """On a tiny set, at the smallest input of the backbone, with the recipe's own losses and optimiser."""
    shipped = read_recipe(path)
    smallest = SMALLEST_TABLE if shipped.model.takes == "features" else SMALLEST
    domain = ["data.domain=odd"] if shipped.data.domain else []
    recipe = read_recipe(path, [*smallest, *domain, *SMALLEST_STAGE[shipped.kind], "evaluate.tasks=3"])
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
