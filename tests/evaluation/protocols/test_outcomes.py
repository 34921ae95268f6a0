"""Every setting as a user asks for it, on runs of a tiny set."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fewset.data.images.store import ImageSet
from fewset.evaluation.embedding import embed_images
from fewset.evaluation.protocols.outcomes import SETTINGS
from fewset.evaluation.protocols.transductive import METHODS
from fewset.evaluation.scoring import evaluate
from fewset.experiments.execute import execute, stage_for
from fewset.experiments.recipes import parse_recipe, read_recipe
from fewset.experiments.weights import load
from fewset.report.results import read_result
from fewset.report.tables import comparison_table, plain_text
from fewset.tasks.hold_out import hold_out
from fewset.tasks.spec import TaskSpec
from tests.helpers.command_line import fail, succeed

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
        read = read_result(file)
        assert read.score.mean == pytest.approx(result["mean"])
        assert set(read.scores) == set(result.get("scores", ()))
        return result

    return evaluate_with


def test_the_help_lists_the_settings_and_the_variants() -> None:
    output = re.sub(r"[\s│]+", " ", succeed("eval", "--help"))
    for name in (*SETTINGS, *METHODS):
        assert name in output


def test_standard_is_the_default(run: Path) -> None:
    own = json.loads((run / "result.json").read_text())
    result = json.loads(succeed("eval", run, "--setting", "standard", "--json"))
    assert (result["setting"], result["mean"]) == ("standard", own["mean"])
    assert not (run / "results").exists()


@pytest.mark.parametrize("variant", METHODS)
def test_transductive(variant: str, scored: Evaluate) -> None:
    result = scored("--setting", "transductive", "--variant", variant)
    assert (result["setting"], result["variant"], result["way"]) == ("transductive", variant, 3)
    assert 0 < result["mean"] < 1


def test_two_variants_are_compared_by_name(run: Path) -> None:
    for variant in ("dagger", "double-dagger"):
        succeed("eval", run, "--setting", "transductive", "--variant", variant)
    files = sorted((run / "results").glob("*.json"))
    assert [file.name for file in files] == [
        f"transductive-{variant}-tiny-test-3way-1shot-3query-23tasks-seed0.json"
        for variant in ("dagger", "double-dagger")
    ]
    table = plain_text(comparison_table([read_result(file) for file in files], baseline=0))
    assert "FEAT, double-dagger" in table


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
    assert result["fixed_seen"] == ("--fixed-seen" in words)
    scores, curve = result["scores"], result["curve"]
    assert set(scores) >= {"seen", "unseen", "combined", "harmonic", "uncalibrated_combined"}
    assert result["mean"] == scores["combined"]["mean"]
    # 13 seen classes beside the 3 of a task, each counting the same.
    among = [scores[f"{group}_among_all"]["mean"] for group in ("seen", "unseen")]
    assert result["mean"] == pytest.approx((13 * among[0] + 3 * among[1]) / 16, abs=1e-6)
    assert (curve["constants"][0], curve["constants"][-1]) == ("-inf", "inf")
    assert curve["seen"][0] == pytest.approx(scores["seen"]["mean"], abs=1e-6)
    assert curve["unseen"][-1] == pytest.approx(scores["unseen"]["mean"], abs=1e-6)
    (file,) = (run / "results").glob("*.json")
    read = read_result(file)
    assert read.constant == float(result["calibration"]["constant"])
    assert read.curve is not None
    assert read.curve.area == curve["area"]
    assert read.curve.constants[-1] == np.inf


def test_generalised_is_printed(run: Path) -> None:
    output = succeed("eval", run, "--setting", "generalised")
    assert "harmonic: " in output
    assert "constant: " in output
    assert "FEAT on tiny/test, generalised, 3-way 1-shot, 23 tasks: " in output


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
def test_weights_that_know_the_held_out_items_are_refused(changes: dict, run: Path) -> None:
    other = parse_recipe({**PRETRAIN, **changes, "name": "other"})
    execute(other, "pretrain", run.parent / "other")
    fresh = parse_recipe({**TRAIN, "train": {**TRAIN["train"], "init": "other"}})
    with pytest.raises(ValueError, match=r"--set data\.hold_out=0\.25 --set seed=0"):
        execute(fresh, "train", run.parent / "fresh")


def test_a_run_that_held_out_nothing_has_no_generalised_score(tmp_path: Path) -> None:
    execute(parse_recipe({**PRETRAIN, "data": {"set": "tiny"}}), "pretrain", tmp_path / "pre")
    message = fail("eval", tmp_path / "pre", "--setting", "generalised")
    assert "--set data.hold_out=0.25" in message


def test_a_run_of_an_older_version_is_resumed(run: Path) -> None:
    """Its recipe lacks keys that came later; they have their defaults."""
    file = run.parent / "pre" / "recipe.toml"
    file.write_text(file.read_text().replace("label_smoothing = 0.0\n", ""))
    (run.parent / "pre" / "result.json").unlink()
    assert "label_smoothing" not in file.read_text()
    execute(read_recipe(file), "pretrain", run.parent / "pre", resume=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--setting", "transductiv"], "unknown setting"),
        (["--variant", "dagger"], "--variant is not an option of the setting standard"),
        (["--setting", "transductive", "--fixed-seen"], "take --setting generalised"),
        (["--setting", "transductive", "--variant", "daggre"], "unknown variant"),
        (["--setting", "generalised", "--support-domain", "odd"], "take --setting cross-domain"),
        (["--setting", "generalised", "--split", "val"], "leave out --split"),
        (["--setting", "generalised", "--domain", "odd"], "leave out --data, --domain"),
        (["--setting", "generalised", "--objective", "both"], "unknown objective"),
        (["--setting", "generalised", "--seen-query", "9"], "were asked for"),
        (["--setting", "cross-domain"], "domains of 'tiny': even, odd"),
        (["--setting", "cross-domain", "--domain", "odd"], "not --domain"),
        (
            ["--setting", "cross-domain", "--support-domain", "even", "--query-domain", "old"],
            "unknown domain",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_user_errors_name_the_mistake(words: list[str], message: str, run: Path) -> None:
    assert message in fail("eval", run, *words)
    assert not (run / "results").exists()
