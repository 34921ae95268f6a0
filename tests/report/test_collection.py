import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewset.errors import UserError
from fewset.report.collection import check_page, keep, results_page, write_page
from fewset.report.results import read_result
from fewset.report.tables import text_of
from tests.report.conftest import naive_score, per_task

KEPT = Path(__file__).parents[2] / "docs" / "results"


def test_the_published_page_is_what_the_published_files_give() -> None:
    check_page(KEPT)


def test_every_published_number_was_made_by_a_known_commit() -> None:
    for file in KEPT.glob("*/*/result.json"):
        result = read_result(file.parent)
        assert len(result.commit) == 40, f"{file}: made from a tree with changes, {result.commit}"
        assert result.tasks == (2_000 if result.method == "MAML" else 10_000)
        assert result.command.startswith("fewset ")


def test_a_page_that_is_out_of_date_is_refused(tmp_path: Path, make_run) -> None:
    runs = [make_run("strokes-protonet", method="ProtoNet"), make_run("strokes-feat", method="FEAT")]
    keep(runs, tmp_path / "kept")
    page = write_page(tmp_path / "kept")
    check_page(tmp_path / "kept")
    text = page.read_text()
    for run in runs:
        assert text_of(read_result(run).score) in text
    page.write_text(text.replace("FEAT", "FAST"))
    with pytest.raises(UserError, match="make it anew"):
        check_page(tmp_path / "kept")


def test_an_empty_collection_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no results"):
        results_page(tmp_path)


def other_result(run: Path, name: str, seed: int, **fields: Any) -> Path:
    """A result of the run on other tasks than its recipe's, in `RUN/results/`."""
    values = per_task(seed)
    folder = run / "results"
    folder.mkdir(exist_ok=True)
    for part in ("per_task", "per_task_seen"):
        np.save(folder / f"{name}.{part}.npy", values)
    score = {**naive_score(values), "per_task": f"{name}.per_task.npy"}
    seen = {**naive_score(values), "per_task": f"{name}.per_task_seen.npy"}
    record = json.loads((run / "result.json").read_text()) | {"before": None, "examples": None}
    (folder / f"{name}.json").write_text(json.dumps(record | score | {"scores": {"seen": seen}} | fields))
    return folder / f"{name}.json"


def test_the_other_results_of_a_run_are_kept_and_shown(tmp_path: Path, make_run) -> None:
    runs = [make_run("strokes-protonet"), make_run("strokes-feat", per_task(1), method="FEAT")]
    files = [
        other_result(run, name, seed + place, **fields)
        for place, run in enumerate(runs)
        for seed, name, fields in (
            (20, "wide", {"way": 20, "scores": {}}),
            (30, "gen", {"setting": "generalised", "command": "fewset eval --setting generalised"}),
        )
    ]
    keep(runs, tmp_path / "kept")
    lines = write_page(tmp_path / "kept").read_text().splitlines()
    headings = [line.removeprefix("### ") for line in lines if line.startswith("### ")]
    assert headings == [
        "strokes test, 5-way 1-shot, 13 queries a class, seed 0",
        "strokes test, 20-way 1-shot, 13 queries a class, seed 0",
        "strokes test, generalised, 5-way 1-shot, 13 queries a class, seed 0",
    ]
    # Every number stands below its own heading, and every table has both methods.
    sections = "\n".join(lines).split("\n### ")[1:]
    for place, run in enumerate(runs):
        shown = [run / "result.json", *files[2 * place : 2 * place + 2]]
        for section, file in zip(sections, shown, strict=True):
            assert f"| {read_result(run).method} | {text_of(read_result(file).score)} |" in section
    assert "| Score | " in sections[2]
    assert lines.count("How each number was made") == 1
    assert sum("fewset eval --setting generalised" in line for line in lines) == 2


def test_kept_results_can_be_read_without_the_run(tmp_path: Path, make_run) -> None:
    run = make_run("strokes-feat", per_task(1), per_task(2), method="FEAT")
    file = other_result(run, "gen", 30, setting="generalised")
    keep([run], tmp_path / "kept")
    kept = tmp_path / "kept" / "strokes" / "strokes-feat"
    assert read_result(kept / "results" / "gen.json").scores["seen"].mean == read_result(file).score.mean
    assert read_result(kept).examples is not None
    keep([run], tmp_path / "kept")  # again: takes the place of the first
    assert len(list(kept.glob("results/*"))) == 3
