"""Large-scale low-shot as a user does it: a file of features, a table, a run, results."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fewset.data.features.table import FeatureTable, list_features, open_features
from fewset.data.images.store import ImageSet
from fewset.encoders import register_encoder
from fewset.evaluation.embedding import embed_images
from fewset.evaluation.protocols.low_shot import PRIORS
from fewset.evaluation.scoring import evaluate
from fewset.experiments.weights import load
from fewset.report.loading import load_result
from fewset.tasks.spec import TaskSpec
from tests.helpers.command_line import fail, options, succeed
from tests.helpers.feature_files import save_hdf5, save_npz
from tests.helpers.features import DIM, ROWS, SEEN, UNSEEN
from tests.helpers.low_shot import NAMES, oracle

SCORE = ["data.set=birds", "train.validation_way=3", "evaluate.tasks=2", "evaluate.seed=4"]
TRAIN = [
    *SCORE, "train.epochs=1", "train.tasks_per_epoch=3", "train.way=3", "train.query=2",
    "train.validation_query=2", "train.validation_tasks=5",
]  # fmt: skip
METHODS = {"protonet": SCORE, "simpleshot": SCORE, "feat": TRAIN}


def write_file(path: Path, seen: int = SEEN, unseen: int = UNSEEN, rows: int = ROWS) -> Path:
    """In the layout of the benchmark: lists of classes for both setups; a third of the rows are queries."""
    generator = np.random.default_rng(0)
    order = generator.permutation(seen + unseen)
    lists = [*np.array_split(order[:seen], 2), *np.array_split(order[seen:], 2)]
    names = ("base_classes_1", "base_classes_2", "novel_classes_1", "novel_classes_2")
    labels = generator.permutation(np.arange(rows) % (seen + unseen))
    centres = generator.normal(size=(seen + unseen, DIM))
    content = {
        "features": (centres[labels] + generator.normal(size=(rows, DIM))).astype(np.float32),
        "labels": labels,
        "role": np.where(generator.permutation(np.arange(rows) % 3 == 0), "test", "train"),
        **dict(zip(names, lists, strict=True)),
    }
    return (save_npz if path.suffix == ".npz" else save_hdf5)(path, content)


@pytest.fixture
def birds(tmp_path: Path) -> FeatureTable:
    succeed("data", "import", "features", write_file(tmp_path / "birds.npz"))
    return open_features("birds")


def train(out: Path, method: str, *overrides: str) -> Path:
    succeed("train", f"low-shot/{method}", "--out", out, *options([*METHODS[method], *overrides]))
    return out


def check(run: Path, result: dict, table: FeatureTable, shot: int, prior: float, setup: str | None) -> None:
    """Every accuracy of every trial, against a loop over queries and classes."""
    assert (result["setting"], result["data"], result["split"]) == ("low-shot", "birds", setup or "all")
    assert result["way"] == len(table.classes("unseen", setup))
    assert (result["shot"], result["tasks"], result["fields"]["prior"]) == (shot, 2, prior)
    scores = {name: score for name, score in result["scores"].items() if name != "alone"}
    assert set(scores) == set(NAMES)
    assert result["mean"] == result["scores"]["top5_all"]["mean"]
    folder = run if (run / result["per_task"]).exists() else run / "results"
    for trial in range(2):
        expected = oracle(load(run), table, shot, trial, 4, prior, setup)
        found = {name: float(np.load(folder / score["per_task"])[trial]) for name, score in scores.items()}
        assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("suffix", ["npz", "hdf5"])
@pytest.mark.parametrize("method", METHODS)
def test_from_a_file_to_a_result(tmp_path: Path, suffix: str, method: str) -> None:
    source = write_file(tmp_path / f"features.{suffix}")
    succeed("data", "import", "features", source, "--name", "birds")
    table = open_features("birds")
    run = train(tmp_path / "run", method)
    own = json.loads((run / "result.json").read_text())
    check(run, own, table, shot=1, prior=0.8, setup=None)
    assert own["fields"]["queries"] == (table.roles == 1).sum()
    assert json.loads(succeed("eval", run, "--json"))["scores"] == own["scores"]
    assert not (run / "results").exists()

    words = ("--shot", 2, "--prior", 0.3, "--setup", "test", "--json")
    other = json.loads(succeed("eval", run, "--setting", "low-shot", *words))
    check(run, other, table, shot=2, prior=0.3, setup="test")
    (file,) = (run / "results").glob("*.json")
    assert file.name == "low-shot-prior0.3-birds-test-3way-2shot-8query-2tasks-seed4.json"
    assert json.loads((run / "result.json").read_text())["scores"] == own["scores"]
    assert set(load_result(file).scores) - {"alone"} == set(NAMES)  # by the report


def test_tasks_of_the_unseen_classes_are_drawn_from_a_table(birds: FeatureTable, tmp_path: Path) -> None:
    """5-way tasks of rows, as those of images: the same as from the arrays in Python."""
    run = train(tmp_path / "run", "feat")
    words = ("--setting", "standard", "--way", 3, "--shot", 2, "--query", 4, "--tasks", 40, "--json")
    for split, classes in (("val", ["validation"]), ("test", ["test"]), ("all", None)):
        found = json.loads(succeed("eval", run, *words, "--split", split))
        assert (found["setting"], found["split"], found["data"]) == ("standard", split, "birds")
        unseen = [birds.classes("unseen", setup) for setup in classes or ()]
        chosen = np.concatenate(unseen) if unseen else np.arange(len(birds.class_names))
        rows = np.flatnonzero(np.isin(birds.labels, chosen))
        spec = TaskSpec(way=3, shot=2, query=4, tasks=40, seed=4)
        score = evaluate(load(run), torch.from_numpy(birds.read(rows)), birds.labels[rows], spec)
        assert found["mean"] == pytest.approx(score.mean, abs=1e-6)
        assert {"alone", "foreign"} <= set(found["scores"])
    together = json.loads(succeed("eval", run, *words[2:], "--setting", "transductive"))
    assert together["variant"] == "dagger"


def test_the_size_of_the_features_is_that_of_the_table(birds: FeatureTable, tmp_path: Path) -> None:
    run = train(tmp_path / "run", "simpleshot")
    assert f"dim = {DIM}\n" in (run / "recipe.toml").read_text()
    model = load(run)
    assert model.dim == DIM
    rows = birds.read(birds.rows(birds.classes("seen"), "train")).astype(np.float64)
    np.testing.assert_allclose(model.feature_transform.mean, rows.mean(axis=0), rtol=1e-5)
    words = ["train", "low-shot/protonet", *options([*SCORE, "model.backbone_options.dim=7"])]
    assert "takes features (dimension 7)" in fail(*words, "--out", tmp_path / "wide")
    assert not (tmp_path / "wide").exists()


def test_the_prior_is_chosen_on_the_validation_setup(birds: FeatureTable, tmp_path: Path) -> None:
    run = train(tmp_path / "run", "protonet", "model.head_options.temperature=2.0")
    words = ("eval", run, "--shot", 2, "--json")
    chosen = json.loads(succeed(*words, "--setup", "test", "--prior", "auto"))
    check(run, chosen, birds, 2, chosen["fields"]["prior"], "test")
    validated = [
        json.loads(succeed(*words, "--setup", "validation", "--prior", prior))["scores"] for prior in PRIORS
    ]
    means = [scores["top5_all_with_prior"]["mean"] for scores in validated]
    assert len(set(means)) > 1
    assert chosen["fields"]["prior"] == PRIORS[int(np.argmax(means))]
    assert "give --setup test" in fail(*words, "--prior", "auto")


@pytest.mark.usefixtures("birds")
def test_user_errors_of_eval_name_the_mistake(tmp_path: Path) -> None:
    run = train(tmp_path / "run", "protonet")
    for words, message in [
        (["--way", "5"], "leave out --way"),
        (["--setting", "generalised"], "the setting generalised takes images"),
        (["--setting", "standard", "--way", "30"], "30"),
        (["--setting", "standard", "--domain", "photo"], "has no domains"),
        (["--setting", "standard", "--way", "3", "--related", "5"], "which classes are near"),
        (["--prior", "2"], "prior is 2.0, expected a probability"),
        (["--shot", "99"], "lower the shot"),
        (["--data", "strokes"], "'strokes' is an image set"),
    ]:
        assert message in fail("eval", run, *words), words
    assert not (run / "results").exists()


@pytest.mark.usefixtures("birds", "tiny_set")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "strokes/feat", "--set", "data.set=birds"], "'birds' is a table of features"),
        (["train", "low-shot/feat", "--set", "data.set=tiny"], "fewset embed RUN --data tiny --out FILE.npz"),
        (["train", "low-shot/feat"], "unknown table of features 'features'"),
        (["pretrain", "low-shot/feat"], "use `fewset train`"),
        (["train", "low-shot/feat", *options([*TRAIN, "model.average=post"])], "average='pre'"),
        (["train", "low-shot/protonet", *options(TRAIN)], "this model has nothing to train"),
    ],
    ids=lambda value: " ".join(value[:4]) if isinstance(value, list) else "",
)
def test_user_errors_name_the_mistake(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in fail(*words)
    assert not (tmp_path / "runs").exists()


def test_list_info_verify(birds: FeatureTable) -> None:
    assert "birds" in succeed("data", "list")
    for command in ("info", "verify"):
        output = succeed("data", command, "birds")
        assert birds.digest in output
        assert "setups: 10 for validation, 8 for test (classes)" in output
        assert ("every byte is as it was written" in output) == (command == "verify")
        assert birds.digest in succeed("data", command, birds.path)
    (birds.path / "features.npy").write_bytes(b"")
    assert "import it again: fewset data import features" in fail("data", "verify", "birds")


# From a run on images to features


@pytest.fixture
def pretrained(tmp_path: Path, tiny_set: ImageSet) -> Path:
    """A run on the image set "tiny"."""
    tiny = [
        f"data.set={tiny_set.name}",
        "model.backbone_options.input_size=16",
        "model.backbone_options.dim=7",
    ]
    quick = ["train.epochs=0", "train.init=", "evaluate.way=3", "evaluate.query=3", "evaluate.tasks=3"]
    succeed("train", "strokes/protonet", "--out", tmp_path / "pre", *options([*tiny, *quick]))
    return tmp_path / "pre"


def test_embedded_with_an_encoder(tiny_set: ImageSet, tmp_path: Path) -> None:
    """Rows are what the encoder makes of the images as they are stored, and say what made them."""

    class MeanColour:
        id, dim, input_size, digest = "mean-colour", 3, 20, "made by a test"
        device = torch.device("cpu")

        def __call__(self, images: Sequence[Any]) -> np.ndarray:
            return np.array([np.asarray(image).mean(axis=(0, 1)) for image in images], dtype=np.float32)

    register_encoder("mean-colour")(lambda _: MeanColour())
    out = tmp_path / "table.npz"
    assert "name one with --data" in fail("embed", "mean-colour", "--out", out)
    assert "220 rows of 3 dimensions" in succeed("embed", "mean-colour", "--data", "tiny", "--out", out)
    with np.load(out) as file:
        rows = np.concatenate([tiny_set.select(split).rows for split in ("train", "test")])
        np.testing.assert_allclose(file["features"], tiny_set.images[rows].mean(axis=(1, 2)), rtol=1e-4)
        assert file["weights_digest"] == ["made by a test"]
        assert file["images_digest"] == [tiny_set.digest]
    own = tmp_path / "odd.npz"
    succeed("embed", "mean-colour", "--data", "tiny", "--domain", "odd", "--out", own)
    with np.load(own) as file:
        rows = np.concatenate([tiny_set.select(split, "odd").rows for split in ("train", "test")])
        np.testing.assert_allclose(file["features"], tiny_set.images[rows].mean(axis=(1, 2)), rtol=1e-4)


@pytest.mark.parametrize("suffix", ["npz", "h5"])
@pytest.mark.parametrize("val", [False, True])
def test_embedded_and_imported(
    suffix: str,
    val: bool,
    pretrained: Path,
    tiny_set: ImageSet,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("fewset.experiments.embed_set._ROWS", 17)
    out = tmp_path / f"table.{suffix}"
    output = succeed("embed", pretrained, "--out", out, *(["--val"] if val else []))
    assert f"{27 * 11 if val else 20 * 11} rows of 7 dimensions" in output
    assert [file.name for file in tmp_path.glob("*table*")] == [out.name]  # nothing temporary is left
    assert "exists" in fail("embed", pretrained, "--out", out)
    succeed("data", "import", "features", out, "--name", "mine")
    table = open_features("mine")
    selection = tiny_set.select("all")
    features = embed_images(load(pretrained), tiny_set.images, selection.rows).numpy()
    for number, name in enumerate(table.class_names):
        original = tiny_set.class_names.index(name)
        split = tiny_set.splits[tiny_set.labels == original][0]
        assert split != 1 or val
        assert table.unseen[number] == (split != 0)
        assert table.setups[number] == (0 if not val else {1: 1, 2: 2}.get(split, table.setups[number]))
        np.testing.assert_allclose(
            table.read(np.flatnonzero(table.labels == number)),
            features[tiny_set.labels == original],
            rtol=1e-5,
            atol=1e-6,
        )
    assert len(table.class_names) == (27 if val else 20)
    if val:
        halves = [len(table.classes("seen", setup)) for setup in ("validation", "test")]
        assert halves == [7, 6]
    run = train(tmp_path / "run", "simpleshot", "data.set=mine")
    assert json.loads((run / "result.json").read_text())["way"] == (14 if val else 7)


@pytest.mark.parametrize("split", ["train", "val", "test", "all"])
def test_one_split_embedded(split: str, pretrained: Path, tiny_set: ImageSet, tmp_path: Path) -> None:
    out = tmp_path / "table.npz"
    output = succeed("embed", pretrained, "--out", out, "--split", split)
    selection = tiny_set.select(split)
    assert output == f"{out}: {len(selection.rows)} rows of 7 dimensions\n"
    with np.load(out) as table:
        features = embed_images(load(pretrained), tiny_set.images, selection.rows).numpy()
        np.testing.assert_allclose(table["features"], features, rtol=1e-5, atol=1e-6)
        names = [tiny_set.class_names[label] for label in tiny_set.labels[selection.rows]]
        assert table["class_names"][table["labels"]].tolist() == names
        seen = {"train": {"seen"}, "all": {"seen", "unseen"}}.get(split, {"unseen"})
        assert set(table["class_split"]) == seen


@pytest.mark.usefixtures("birds")
def test_what_cannot_be_embedded(pretrained: Path, tmp_path: Path) -> None:
    run = train(tmp_path / "run", "protonet")
    for words, message in [
        ([run, "--out", "a.npz"], "embeds images, and this model takes features"),
        ([tmp_path / "absent", "--out", "a.npz"], "unknown run directory"),
        ([pretrained, "--out", "a.txt"], "expected a name that ends in one of .h5, .hdf5, .hdf, .npz"),
        ([pretrained, "--out", "a.npz", "--data", "absent"], "unknown image set"),
        ([pretrained, "--out", "a.npz", "--split", "tests"], "unknown split of 'tiny': 'tests'"),
        ([pretrained, "--out", "a.npz", "--split", "test", "--val"], "--split test is one alone"),
        ([pretrained, "--setting", "low-shot"], "(`fewset embed` makes one)"),
    ]:
        command = "eval" if "--setting" in words else "embed"
        assert message in fail(command, *words), words
    assert list_features() == ["birds"]
    assert not Path("a.npz").exists()


MEMORY = """
import sys
import numpy as np
from fewset.data.features.table import open_features, table_path, write_features
from fewset.compute.machine import peak_memory
from fewset.experiments.config import ModelConfig
from fewset.experiments.build import build_model
from fewset.evaluation.protocols.low_shot import evaluate_low_shot
from fewset.tasks.spec import TaskSpec

rows, dim, classes, shot, piece = map(int, sys.argv[1:])
labels = np.arange(rows) % classes
pieces = (
    np.random.default_rng(first).random((min(piece, rows - first), dim), dtype=np.float32)
    for first in range(0, rows, piece)
)
write_features(
    table_path("large"), pieces, dim=dim, labels=labels, roles=(np.arange(rows) // classes % 2),
    class_names=[str(number) for number in range(classes)], unseen=np.arange(classes) % 5 < 3,
    setups=np.zeros(classes, dtype=int), source="test", command="none",
)
model = build_model(ModelConfig("features", {"dim": dim}, adapter="attention"))
before = peak_memory()
evaluate_low_shot(model, open_features("large"), TaskSpec(shot=shot, tasks=1))
print(peak_memory() - before)
"""


@pytest.mark.slow
def test_memory_is_that_of_the_classes_not_of_the_rows() -> None:
    """1,000-way tasks of 2,048 dimensions: the memory that scoring adds does not grow with the table."""
    added = []
    for rows in (8_000, 32_000):  # 66 and 262 MB
        command = [sys.executable, "-c", MEMORY, *map(str, (rows, 2048, 1000, 2, 1000))]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        added.append(int(done.stdout))
    assert added[1] - added[0] < 50e6, added
