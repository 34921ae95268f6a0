"""Results as they are read and compared."""

from pathlib import Path

import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.experiments.result import TASK_FIELDS
from fewset.report.comparison import compare_results, describe_fields, difference, differing_fields
from fewset.report.loading import load_result, load_results
from tests.helpers.results import (
    EXAMPLES,
    TASKS,
    MakeRun,
    example_arrays,
    naive_score,
    per_task,
    write_result,
)

OTHER = {
    "data_digest": "sha256:4567",
    "split": "val",
    "domain": "chalk",
    "setting": "transductive",
    "task_key": "0.25 held out with seed 0",
    "left_out": ("owl",),
    "way": 7,
    "shot": 3,
    "query": 11,
    "seed": 5,
    "related": 8,
}


def test_a_run_is_read_as_it_was_written(make_run: MakeRun) -> None:
    values, before = per_task(1), per_task(2, 0.5)
    result = load_result(make_run("feat", values, before, method="FEAT", domain="ink", seconds=3))
    record = result.record
    expected = ("feat", "FEAT", "ink", TASKS, 3.0)
    assert (record.run, record.method, record.domain, record.tasks, record.seconds) == expected
    np.testing.assert_array_equal(result.score.per_task, values)
    assert (result.score.mean, result.score.ci95) == pytest.approx(tuple(naive_score(values).values()))
    assert result.unadapted is not None
    assert result.unadapted.mean == pytest.approx(naive_score(before)["mean"])
    assert result.examples is not None
    for name, array in example_arrays().items():
        np.testing.assert_array_equal(getattr(result.examples, name), array)
    assert result.recipe == {"name": "feat", "seed": 3, "train.optimiser.lr": 0.01}


def test_an_epoch_may_lack_values(make_run: MakeRun) -> None:
    run = make_run()
    (run / "metrics.jsonl").write_text(
        '{"epoch": 1, "loss": 2}\n{"epoch": 2, "loss": null, "accuracy": 0.5}\n'
    )
    curves = load_result(run).curves
    assert curves is not None
    np.testing.assert_array_equal(curves.loss, [2, np.nan])
    np.testing.assert_array_equal(curves.accuracy, [np.nan, 0.5])
    assert curves.best is None
    (run / "metrics.jsonl").unlink()
    (run / "recipe.toml").unlink()
    without = load_result(run)
    assert (without.curves, without.recipe) == (None, {})


@pytest.mark.parametrize("name", ["run", "results"])
def test_another_result_of_a_run_is_read_with_the_run_around_it(make_run: MakeRun, name: str) -> None:
    run = make_run(name)
    values = per_task(3, tasks=43)
    (run / "results").mkdir()
    np.save(run / "results" / "other.per_task.npy", values)
    other = run / "results" / "other.json"
    other.write_text((run / "result.json").read_text())
    write_result(other, tasks=43, shot=7, per_task="other.per_task.npy", **naive_score(values))
    result = load_result(other)
    assert (result.record.shot, result.directory) == (7, run)
    assert result.curves is not None
    assert (result.recipe["name"], result.recipe["seed"]) == (name, 3)


@pytest.mark.parametrize("field", sorted(OTHER))
def test_results_on_other_tasks_are_not_paired(make_run: MakeRun, field: str) -> None:
    first = load_result(make_run("a"))
    second = load_result(make_run("b", **{field: OTHER[field]}))
    assert differing_fields(first, second) == [field]
    assert describe_fields(second, first) == f"{field} is {OTHER[field]}, not {getattr(first.record, field)}"
    with pytest.raises(UserError, match=rf"same tasks \({field} is .*fewset eval"):
        difference(first, second)
    assert [item.alone for item in compare_results([first, second])] == [True, True]


def test_different_numbers_of_tasks_are_paired_on_those_of_both(make_run: MakeRun) -> None:
    many, few = per_task(0, tasks=43), per_task(1, tasks=31)
    first, second = load_result(make_run("a", many)), load_result(make_run("b", few))
    assert differing_fields(first, second) == []
    assert set(OTHER) == set(TASK_FIELDS)
    differences = many[:31].astype(np.float64) - few
    got = difference(first, second)
    assert got.mean == pytest.approx(differences.mean())
    assert got.ci95 == pytest.approx(naive_score(differences)["ci95"])
    assert [item.tasks for item in compare_results([first, second])] == [43, 31]


def test_the_baseline_is_protonet_wherever_it_stands(make_run: MakeRun) -> None:
    results = load_results([make_run("a", method="FEAT"), make_run("b"), make_run("c", method="GCN")])
    comparisons = compare_results(results)
    assert [item.baseline for item in comparisons] == ["ProtoNet", None, "ProtoNet"]
    assert [item.alone for item in comparisons] == [False, False, False]
    others = load_results([make_run(f"{method}-5", method=method, shot=5) for method in ("FEAT", "ProtoNet")])
    baselines = [item.baseline for item in compare_results([*results[:2], *others])]
    assert baselines == ["ProtoNet, 5-way 1-shot", None, "ProtoNet, 5-way 5-shot", None]


def test_a_chosen_baseline_must_share_the_tasks(make_run: MakeRun) -> None:
    results = load_results([make_run("a", method="FEAT"), make_run("b")])
    assert [item.baseline for item in compare_results(results, baseline=0)] == [None, "FEAT"]
    with pytest.raises(UserError, match="shot is 5, not 1"):
        compare_results([*results, load_result(make_run("c", shot=5))], baseline=0)


def test_labels_are_as_short_as_tells_the_results_apart(make_run: MakeRun) -> None:
    runs = [
        make_run("a", method="FEAT"),
        make_run("b", method="FEAT"),
        make_run("c"),
        make_run("d", method="GCN"),
        make_run("e", method="GCN", shot=5),
        make_run("f", method="DeepSets", run="same"),
        make_run("g", method="DeepSets", run="same"),
    ]
    labels = [item.label for item in compare_results(load_results(runs))]
    assert labels[:5] == ["FEAT (a)", "FEAT (b)", "ProtoNet", "GCN, 5-way 1-shot", "GCN, 5-way 5-shot"]
    assert labels[5:] == [f"DeepSets ({run}/result.json)" for run in runs[5:]]


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("name", ["per_task.npy", "examples.npz"])
def test_code_in_a_file_does_not_run(make_run: MakeRun, tmp_path: Path, name: str) -> None:
    run = make_run("feat", before=per_task(2))
    bomb = np.array([Bomb(tmp_path / "ran")], dtype=object)
    if name.endswith("npz"):
        np.savez(run / name, **(example_arrays() | {"task": bomb}))
    else:
        np.save(run / name, bomb)
    with pytest.raises(UserError, match=name):
        load_result(run)
    assert not (tmp_path / "ran").exists()


# A missing or damaged file is one error with its name and the command that writes it again.


def test_a_missing_file(make_run: MakeRun, tmp_path: Path) -> None:
    for runs in ([], [tmp_path / "nowhere"]):
        with pytest.raises(UserError, match="fewset train"):
            load_results(runs)
    run = make_run("feat", before=per_task(2))
    with pytest.raises(UserError, match="2 times"):
        load_results([run, run / ".." / run.name])
    for name in ("examples.npz", "per_task_before.npy", "per_task.npy", "result.json"):
        (run / name).unlink()
        with pytest.raises(UserError, match=rf"{name} is missing.*`fewset eval {run}`"):
            load_result(run)


@pytest.mark.parametrize("name", ["result.json", "per_task.npy", "examples.npz"])
@pytest.mark.parametrize("keep", [0, 0.5])
def test_a_truncated_file(make_run: MakeRun, name: str, keep: float) -> None:
    run = make_run("feat", before=per_task(2))
    content = (run / name).read_bytes()
    (run / name).write_bytes(content[: int(keep * len(content))])
    with pytest.raises(UserError, match=rf"{name}.*`fewset eval {run}`"):
        load_result(run)


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 1},
        {"before": None},
        {"method": "FEAT\x1b[31m"},
        {"colour": "red"},
        {"per_task": "../elsewhere.npy"},
        {"mean": 0.01},
        {"tasks": 43},
        {"examples": "per_task.npy"},
        {"per_task": "examples.npz"},
    ],
)
def test_a_damaged_result_file(make_run: MakeRun, changes: dict[str, object]) -> None:
    run = make_run("feat", before=per_task(2))
    write_result(run / "result.json", **changes)
    with pytest.raises(UserError, match="`fewset eval"):
        load_result(run)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("after", np.zeros((EXAMPLES, 2, 2), dtype=np.float32)),
        ("task", np.zeros(EXAMPLES)),
        ("query_labels", np.full((EXAMPLES, 37), 5)),
        ("query", np.full((EXAMPLES, 37, 11), np.nan, dtype=np.float32)),
        ("query", np.zeros(EXAMPLES, dtype=np.float32)),
    ],
)
def test_damaged_values_and_examples(make_run: MakeRun, name: str, value: np.ndarray) -> None:
    run = make_run("feat", before=per_task(2))
    with pytest.raises(UserError, match=r"per_task\.npy"):
        load_result(make_run("above 1", 1 + per_task(0)))
    np.savez(run / "examples.npz", **(example_arrays() | {name: value}))
    with pytest.raises(UserError, match=r"examples\.npz .*`fewset eval"):
        load_result(run)


@pytest.mark.parametrize("line", ["{", '{"loss": 1}', '{"epoch": 1, "loss": "low"}'])
def test_damaged_metrics_and_a_damaged_recipe(make_run: MakeRun, line: str) -> None:
    run = make_run()
    lines = (run / "metrics.jsonl").read_text().splitlines()
    lines[2] = line
    (run / "metrics.jsonl").write_text("\n".join(lines))
    with pytest.raises(UserError, match=r"metrics\.jsonl.*fewset train"):
        load_result(run)
    (run / "metrics.jsonl").unlink()
    (run / "recipe.toml").write_text("name = ")
    with pytest.raises(UserError, match=r"recipe\.toml"):
        load_result(run)
