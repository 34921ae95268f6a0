"""Every setting as a user asks for it, on runs of a tiny set."""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.data.images.store import ImageSet, open_set, set_path, write_store
from fewset.evaluation import protocols
from fewset.evaluation.embedding import embed_images
from fewset.evaluation.protocols.transductive import VARIANTS
from fewset.evaluation.scoring import evaluate
from fewset.experiments.recipes import parse_recipe
from fewset.experiments.result import command_line, read_result
from fewset.experiments.train_run import execute, stage_for
from fewset.experiments.weights import load
from fewset.report.comparison import compare_results
from fewset.report.loading import load_result
from fewset.report.tables import notes_table, plain_text
from fewset.tasks.hold_out import hold_out
from fewset.tasks.spec import TaskSpec
from tests.helpers.command_line import fail, succeed
from tests.helpers.tiny_set import spoiled_copy

pytestmark = pytest.mark.usefixtures("tiny_set")

MODEL = {"backbone": "conv4", "backbone_options": {"input_size": 16, "dim": 8}}
TASKS = {"way": 3, "shot": 1, "query": 3, "tasks": 23}
DATA = {"set": "tiny", "hold_out": 0.25}
PRETRAIN = {
    "name": "pre",
    "data": DATA,
    "model": MODEL,
    "pretrain": {"epochs": 1, "batch": 37, "validation_tasks": 5, "validation_query": 3},
    "evaluate": TASKS,
}
TRAIN = {
    "name": "feat",
    "method": "FEAT",
    "data": DATA,
    "model": {**MODEL, "adapter": "attention", "head_options": {"temperature": 8.0}},
    "train": {
        "init": "pre", "way": 3, "query": 3, "epochs": 1, "tasks_per_epoch": 2, "validation_tasks": 5,
        "validation_way": 3, "validation_query": 3,
    },
    "evaluate": TASKS,
}  # fmt: skip


def test_embeddings_that_are_not_finite_are_no_result(tmp_path: Path) -> None:
    """Pixels are divided by a deviation so small that they become infinite."""
    options = {**MODEL["backbone_options"], "std": [1e-42] * 3}  # type: ignore[dict-item]
    given = {**TRAIN, "model": {**MODEL, "backbone_options": options}, "train": {"epochs": 0}}
    with pytest.raises(UserError, match=r"rows of features are not finite"):
        execute(parse_recipe(given), "train", tmp_path / "run")
    assert not (tmp_path / "run" / "result.json").exists()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """FEAT, trained with a quarter of each class held out."""
    execute(parse_recipe(PRETRAIN), "pretrain", tmp_path / "pre")
    execute(parse_recipe(TRAIN), "train", tmp_path / "feat")
    return tmp_path / "feat"


Evaluate = Callable[..., dict]


@pytest.fixture
def scored(run: Path) -> Evaluate:
    """The result of `fewset eval RUN …`, which the report must read as well."""

    def evaluate_with(*words: object) -> dict:
        own = (run / "result.json").read_bytes()
        shutil.rmtree(run / "results", ignore_errors=True)
        result = json.loads(succeed("eval", run, *words, "--json"))
        (file,) = (run / "results").glob("*.json")
        assert json.loads(file.read_text()) == result
        assert (run / "result.json").read_bytes() == own
        read = load_result(file)
        assert read.score.mean == pytest.approx(result["mean"])
        assert set(read.scores) == set(result["scores"])
        return result

    return evaluate_with


def test_the_help_has_the_options_of_the_chosen_setting_alone() -> None:
    plain, chosen = succeed("eval", "--help"), succeed("eval", "--setting", "transductive", "--help")
    assert not {"--variant", "--prior", "--seen-query"} & set(plain.split())
    assert all(name in chosen for name in VARIANTS)
    assert "--prior" not in chosen
    assert "--prior" in succeed("eval", "--setting=low-shot", "--help")


@pytest.mark.parametrize("variant", VARIANTS)
def test_transductive(variant: str, scored: Evaluate) -> None:
    result = scored("--setting", "transductive", "--variant", variant)
    assert (result["setting"], result["variant"], result["way"]) == ("transductive", variant, 3)
    assert 0 < result["mean"] < 1


def test_unbalanced_queries_are_said_and_not_paired_with_balanced_ones(run: Path) -> None:
    words = ("eval", run, "--setting", "transductive", "--query", 1, "--variant", "double-dagger", "--json")
    result, balanced = (json.loads(succeed(*words, *more)) for more in (("--dirichlet", 2), ()))
    assert result["options"] == {"variant": "double-dagger", "dirichlet": 2}
    assert result["fields"]["dirichlet"] == 2
    assert result["notes"] == {"unbalanced queries": "3 a task, shared out by a Dirichlet(2)"}
    assert result["mean"] != balanced["mean"]
    assert result["task_key"] != balanced["task_key"]  # which is what pairs results
    unbalanced, _ = (load_result(file) for file in sorted((run / "results").glob("*.json")))
    table = notes_table(compare_results([unbalanced]))
    assert "Dirichlet(2)" in plain_text(table)
    assert "FEAT, double-dagger-dirichlet2" in plain_text(table)


def test_a_transductive_head_is_scored_as_it_is(tmp_path: Path) -> None:
    model = {**MODEL, "head": "tim", "average": "post"}
    train = {"way": 3, "query": 3, "epochs": 0, "validation_way": 3, "validation_query": 3}
    recipe = {"name": "tim", "data": DATA, "model": model, "train": train, "evaluate": TASKS}
    execute(parse_recipe(recipe), "train", tmp_path / "tim")
    words = ("--setting", "transductive", "--query", 1, "--json")
    assert "take the variant 'head'" in fail("eval", tmp_path / "tim", *words)
    result = json.loads(succeed("eval", tmp_path / "tim", *words, "--variant", "head"))
    standard = json.loads(succeed("eval", tmp_path / "tim", "--query", 1, "--json"))
    assert result["mean"] == standard["mean"]
    unbalanced = json.loads(succeed("eval", tmp_path / "tim", *words, "--variant", "head", "--dirichlet", 2))
    assert unbalanced["mean"] != result["mean"]


def test_cross_domain(scored: Evaluate, run: Path, tiny_set: ImageSet) -> None:
    words = ("--setting", "cross-domain", "--query", 2)
    crossing = scored(*words, "--support-domain", "even", "--query-domain", "odd")
    assert (crossing["domain"], crossing["query"]) == ("even→odd", 2)
    assert crossing["before"]["mean"] > 0
    (file,) = (run / "results").glob("*.json")
    assert file.name.startswith("cross-domain-tiny-even-to-odd-test-")
    # One domain is the standard setting in it.
    same = scored(*words, "--support-domain", "odd", "--query-domain", "odd")
    selection, model = tiny_set.select("test", "odd"), load(run)
    features = embed_images(model, tiny_set.images, selection.rows)
    expected = evaluate(model, features, selection.labels, TaskSpec(3, 1, 2, 23))
    assert same["mean"] == pytest.approx(expected.mean)
    assert scored("--query", 2, "--domain", "odd")["mean"] == same["mean"]


@pytest.mark.parametrize("words", [(), ("--fixed-seen",), ("--objective", "combined", "--seen-query", 1)])
def test_generalised(words: tuple[object, ...], scored: Evaluate, run: Path) -> None:
    result = scored("--setting", "generalised", "--validation-tasks", 7, *words)
    assert result["options"]["fixed_seen"] == ("--fixed-seen" in words)
    scores, curve = result["scores"], result["fields"]["curve"]
    assert set(scores) >= {"seen", "unseen", "combined", "harmonic", "uncalibrated_combined"}
    assert result["mean"] == scores["combined"]["mean"]
    # 13 seen classes beside the 3 of a task, each counting the same.
    among = [scores[f"{group}_among_all"]["mean"] for group in ("seen", "unseen")]
    assert result["mean"] == pytest.approx((13 * among[0] + 3 * among[1]) / 16, abs=1e-6)
    assert (curve["constants"][0], curve["constants"][-1]) == ("-inf", "inf")
    assert curve["seen"][0] == pytest.approx(scores["seen"]["mean"], abs=1e-6)
    assert curve["unseen"][-1] == pytest.approx(scores["unseen"]["mean"], abs=1e-6)
    (file,) = (run / "results").glob("*.json")
    assert load_result(file).record.fields == result["fields"]
    assert float(result["fields"]["constant"]) is not None
    assert f"{curve['area']:.4f}" in result["notes"].values()


@pytest.mark.parametrize("table", [PRETRAIN, TRAIN], ids=["pretrain", "train"])
def test_held_out_items_are_not_trained_on(table: dict, run: Path, tiny_set: ImageSet) -> None:
    stage = stage_for(parse_recipe({**table, "seed": 0}), run.parent)
    everything = tiny_set.select("train")
    parts = hold_out(everything.labels, 0.25, 0)
    np.testing.assert_array_equal(stage.train.rows, everything.rows[parts.train])
    assert len(parts.val) + len(parts.test) == 13 * 3


@pytest.mark.parametrize(
    "changes", [{"data": {"set": "tiny"}}, {"data": {**DATA, "hold_out": 0.3}}, {"seed": 1}], ids=str
)
def test_weights_that_know_the_held_out_items_are_rejected(changes: dict, run: Path) -> None:
    other = parse_recipe({**PRETRAIN, **changes, "name": "other"})
    execute(other, "pretrain", run.parent / "other")
    fresh = parse_recipe({**TRAIN, "train": {**TRAIN["train"], "init": "other"}})
    with pytest.raises(ValueError, match=r"--set data\.hold_out=0\.25 --set seed=0"):
        execute(fresh, "train", run.parent / "fresh")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--setting", "transductiv"], "unknown setting"),
        (["--variant", "dagger"], "--variant is not an option of the setting standard"),
        (["--setting", "transductive", "--fixed-seen"], "take --setting generalised"),
        (["--setting", "transductive", "--variant", "head"], "PrototypeHead is not"),
        (["--setting", "generalised", "--split", "val"], "leave out --data, --domain and --split"),
        (["--setting", "generalised", "--seen-query", "9"], "query = 9"),
        (["--setting", "cross-domain"], "domains of 'tiny': even, odd"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_user_errors_name_the_mistake(words: list[str], message: str, run: Path) -> None:
    assert message in fail("eval", run, *words)
    assert not (run / "results").exists()


def test_one_task_has_no_interval_and_its_file_is_json(run: Path) -> None:
    output = succeed("eval", run, "--tasks", 1)
    (file,) = (run / "results").glob("*.json")
    record = json.loads(file.read_text(), parse_constant=pytest.fail)
    assert record["ci95"] is None
    assert "±" not in output
    assert math.isnan(load_result(file).score.ci95)


def test_ways_are_the_standard_tasks_of_each_way(scored: Evaluate) -> None:
    result = scored("--setting", "ways", "--ways", "2,5")
    for way in (2, 5):
        assert result["scores"][f"{way}_way"]["mean"] == scored("--way", way)["mean"]
    assert result["way"] == 3


def no_embedding(*_: object, **__: object) -> None:
    raise AssertionError("nothing is to be embedded")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--query", "11"], "lower the query to 10"),
        (["--shot", "9"], "lower the query to 2, or lower the shot to 8"),
        (["--setting", "cross-domain", "--support-domain", "even", "--query-domain", "odd", "--query", "7"],
         "lower the query to 5"),
        (["--setting", "generalised", "--query", "11"], "lower the query to 10"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_tasks_that_cannot_be_drawn_are_found_before_anything_is_embedded(
    words: list[str], message: str, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocols, "embed_images", no_embedding)
    assert message in fail("eval", run, *words)


def test_small_classes_are_left_out_on_request_and_named(run: Path, tiny_set: ImageSet) -> None:
    few = without_items(tiny_set, "class20", keep=2)
    message = fail("eval", run, "--data", few)
    assert "class 'class20' has 2 items" in message
    assert "leave out the 1 classes that are too small (--skip-small-classes)" in message
    output = succeed("eval", run, "--data", few, "--skip-small-classes")
    assert "left out, with too few items: class20" in output
    (file,) = (run / "results").glob("*.json")
    result = read_result(file)
    assert result.left_out == ("class20",)
    # The others are the tasks of a set that never had the class.
    gone = without_items(tiny_set, "class20", keep=0)
    succeed("eval", run, "--data", gone)
    (other,) = set((run / "results").glob("*.json")) - {file}
    assert read_result(other).mean == result.mean


@pytest.mark.parametrize("setting", ["standard", "transductive"])
def test_queries_for_a_handful(setting: str, run: Path, tiny_set: ImageSet) -> None:
    """As many as the smallest class has items for besides the shots; the same result as with that number."""
    few = without_items(tiny_set, "class20", keep=3)
    words = ["eval", run, "--data", few, "--setting", setting, "--shot", 2]
    assert "lower the query to 1" in fail(*words)
    assert "queries a class: 1\n" in succeed(*words, "--query", "auto")
    (file,) = (run / "results").glob("*.json")
    result = read_result(file)
    assert result.query == 1
    succeed(*words, "--query", 1)
    assert replace(read_result(file), seconds=0, command="") == replace(result, seconds=0, command="")


def test_auto_takes_at_most_the_queries_of_the_recipe(run: Path) -> None:
    assert "queries a class: 3\n" in succeed("eval", run, "--query", "auto")


def without_items(images: ImageSet, name: str, keep: int) -> str:
    """A set like this one, with fewer items of a class."""
    label = images.class_names.index(name)
    rows = np.flatnonzero((images.labels != label) | (np.cumsum(images.labels == label) <= keep))
    used, labels = np.unique(images.labels[rows], return_inverse=True)
    names = [images.class_names[one] for one in used]
    facts = {"labels": labels, "class_names": names, "splits": images.splits[rows]}
    with write_store(set_path(f"few{keep}"), size=20, **facts, source="test") as draft:
        draft.images[:] = images.images[rows]
    return f"few{keep}"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": {"query": 11}}, r"train split \(train.way, shot, query\): .* lower the query to 7"),
        ({"train": {"validation_way": 8}}, r"val split \(train.validation_way.* lower the way to 7"),
        ({"evaluate": {"way": 8}}, "the way is 8"),
    ],
    ids=str,
)
@pytest.mark.parametrize("frozen", [{}, {"frozen_blocks": 2}], ids=["whole", "frozen"])
def test_tasks_are_checked_before_the_first_step(
    changes: dict, message: str, frozen: dict, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {**TRAIN, **{key: {**TRAIN[key], **change} for key, change in changes.items()}}
    table["train"] = {**table["train"], **frozen}
    monkeypatch.setattr("fewset.training.frozen.embed_images", no_embedding)
    monkeypatch.setattr("fewset.experiments.train_run.fit", no_embedding)
    with pytest.raises(UserError, match=message):
        execute(parse_recipe(table), "train", run.parent / "fresh")
    assert not (run.parent / "fresh").exists()


def test_a_recorded_command_has_no_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    words = ["eval", f"{tmp_path}/runs/a b", f"--data={tmp_path}/here/set", "--set", "train.init=pre", "-5/3"]
    monkeypatch.setattr("sys.argv", ["/home/ann/.venv/bin/fewset", *words])
    assert command_line() == "fewset eval '../runs/a b' --data=set --set train.init=pre -5/3"


def test_another_set_of_the_same_name_has_a_result_of_its_own(tmp_path: Path, run: Path) -> None:
    own, images = (run / "result.json").read_bytes(), open_set("tiny")
    spoiled_copy(images, "spoiled", np.arange(0, len(images.labels), 2))
    other = tmp_path / "elsewhere" / "tiny"
    other.parent.mkdir()
    set_path("spoiled").rename(other)
    succeed("eval", run, "--data", other)
    assert (run / "result.json").read_bytes() == own
    (file,) = (run / "results").glob("tiny-*-test-*.json")
    assert read_result(file).data_digest not in (None, images.digest)
    succeed("eval", run, "--data", "tiny")
    assert len(list((run / "results").glob("*.json"))) == 1
