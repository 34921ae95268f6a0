import csv
import io
from pathlib import Path

import numpy as np
import pytest

from fewset.report.comparison import compare_results
from fewset.report.loading import load_results
from fewset.report.tables import (
    Column,
    Estimate,
    Table,
    comparison_table,
    csv_text,
    latex_text,
    markdown_text,
    plain_text,
    score_tables,
    settings_table,
    text_of,
)
from fewset.tasks.scores import Difference
from tests.helpers.results import MakeRun, naive_score, per_task, write_result


def percent(values: np.ndarray, sign: str = "") -> str:
    score = naive_score(values)
    return f"{100 * score['mean']:{sign}.2f} ± {100 * score['ci95']:.2f}"


def rows_of(text: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "|" in line
    ]


def test_the_numbers_are_those_of_a_naive_version(make_run: MakeRun) -> None:
    proto, feat, before = per_task(0), per_task(1, 0.65), per_task(2, 0.5)
    runs = [make_run("proto", proto), make_run("feat", feat, before, method="FEAT")]
    header, _, first, second = rows_of(markdown_text(comparison_table(load_results(runs))))
    assert header == ["Method", "Accuracy", "Unadapted", "Gain", "Over ProtoNet", "Excludes 0"]
    assert first == ["ProtoNet", percent(proto), "–", "–", "baseline", "–"]
    gain, difference = (feat.astype(float) - other for other in (before, proto))
    excludes = "yes" if abs(difference.mean()) > naive_score(difference)["ci95"] else "no"
    changes = [percent(gain, "+"), percent(difference, "+")]
    assert second == ["FEAT", percent(feat), percent(before), *changes, excludes]


def test_every_form_holds_the_same_numbers(make_run: MakeRun) -> None:
    runs = [make_run("proto"), make_run("feat", per_task(1), per_task(2), method="FEAT_50%")]
    table = comparison_table(load_results(runs))
    records = list(csv.DictReader(io.StringIO(csv_text(table))))
    plain, markdown, latex = plain_text(table), markdown_text(table), latex_text(table)
    for record, row in zip(records, table.rows, strict=True):
        assert record["method"] == row[0]
        for key in ("accuracy", "unadapted", "gain", "difference"):
            if record[key]:
                sign = "+" if key in ("gain", "difference") else ""
                number, half = f"{float(record[key]):{sign}.2f}", record[f"{key}_ci95"]
                assert f"{number} ± {half}" in plain
                assert f"| {number} ± {half} |" in markdown
                assert f"${number} \\pm {half}$" in latex
    assert [bool(record["difference"]) for record in records] == [False, True]
    assert records[1]["excludes_zero"] in ("yes", "no")
    assert r"FEAT\_50\%" in latex
    assert r"FEAT\_50%" in markdown
    assert latex.count(r"\toprule") == latex.count(r"\midrule") == latex.count(r"\bottomrule") == 1


def test_columns_that_would_be_empty_are_left_out(make_run: MakeRun) -> None:
    results = load_results([make_run()])
    table = comparison_table(results)
    assert score_tables(compare_results(results)) == []
    assert [column.title for column in table.columns] == ["Method", "Accuracy"]
    assert table.notes == ()
    assert "strokes test, 5-way 1-shot, 13 queries a class, 41 tasks, seed 0" in table.title


def test_results_that_cannot_be_paired_say_why(make_run: MakeRun) -> None:
    runs = [
        make_run("proto"),
        make_run("feat", method="FEAT"),
        make_run("gcn", method="GCN", shot=7, domain="chalk", setting="transductive"),
    ]
    table = comparison_table(load_results(runs))
    assert table.notes == (
        "GCN has no baseline: its tasks are not those of ProtoNet "
        "(domain is chalk, not None, setting is transductive, not standard, shot is 7, not 1).",
    )
    titles = [column.title for column in table.columns]
    assert table.rows[2][titles.index("Over ProtoNet")] is None
    assert table.rows[2][titles.index("Tasks")] == (
        "strokes test (chalk), transductive, 5-way 7-shot, 13 queries a class, 41 tasks, seed 0"
    )
    for text in (plain_text(table), markdown_text(table), latex_text(table)):
        assert "GCN has no baseline" in text


def test_a_tiny_negative_difference_is_not_minus_zero() -> None:
    assert text_of(Difference(-1e-9, 0.001)) == "+0.00 ± 0.10"
    assert text_of(Difference(-0.0123, 0.001)) == "-1.23 ± 0.10"


def test_settings_that_differ_come_first(make_run: MakeRun) -> None:
    runs = [make_run("proto"), make_run("feat", method="FEAT")]
    (runs[1] / "recipe.toml").write_text(
        'name = "feat"\nseed = 3\naugment = ["flip", "crop"]\n[train.optimiser]\nlr = 0.01\n'
        '[card]\nsummary = "no setting"\n'
    )
    table = settings_table(compare_results(load_results(runs)))
    assert [column.title for column in table.columns] == ["Setting", "ProtoNet", "FEAT"]
    assert table.rows == (
        ("name", "proto", "feat"),
        ("augment", "–", "flip, crop"),
        ("seed", "3", "3"),
        ("train.optimiser.lr", "0.01", "0.01"),
    )


@pytest.mark.parametrize(
    ("estimate", "text", "latex", "fields"),
    [
        (Estimate(0.55149, 0.002), "55.15 ± 0.20", r"$55.15 \pm 0.20$", ["55.15", "0.20"]),
        (Estimate(0.5, None), "50.00", "$50.00$", ["50.00", ""]),
        (Estimate(0.496, None, 1, "*"), "49.6*", "$49.6$*", ["49.6", ""]),
        (Estimate(0.496, 0.03, 1, "*"), "49.6 ± 3.0*", r"$49.6 \pm 3.0$*", ["49.6", "3.0"]),
        (None, "–", "--", ["", ""]),
    ],
)
def test_an_estimate_in_every_form(
    estimate: Estimate | None, text: str, latex: str, fields: list[str]
) -> None:
    table = Table("title", (Column("Name", "name"), Column("Number", "number", True)), (("one", estimate),))
    assert text_of(estimate) == text
    assert f"one & {latex} \\\\" in latex_text(table)
    assert list(csv.reader(io.StringIO(csv_text(table)))) == [
        ["name", "number", "number_ci95"],
        ["one", *fields],
    ]


def test_a_name_in_csv_is_no_formula() -> None:
    table = Table("title", (Column("Name", "=name"),), (("=cmd|'/C calc'!A0",), ("FEAT",)))
    assert list(csv.reader(io.StringIO(csv_text(table)))) == [["'=name"], ["'=cmd|'/C calc'!A0"], ["FEAT"]]


def scored(make_run: MakeRun, name: str, seed: int, **fields: object) -> Path:
    """A run whose result has two further scores."""
    run = make_run(name, per_task(seed), setting="generalised", **fields)
    scores = {}
    for place, score in enumerate(("seen", "unseen_among_all")):
        values = per_task(seed + 10 + place)
        np.save(run / f"{score}.npy", values)
        scores[score] = {**naive_score(values), "per_task": f"{score}.npy"}
    write_result(run / "result.json", scores=scores)
    return run


def test_all_scores_stand_side_by_side(make_run: MakeRun) -> None:
    runs = [make_run("standard"), scored(make_run, "proto", 1), scored(make_run, "feat", 2, method="FEAT")]
    (table,) = score_tables(compare_results(load_results(runs)))
    assert "generalised" in table.title
    assert rows_of(markdown_text(table)) == [
        ["Method", "seen", "unseen among all"],
        [":---", "---:", "---:"],
        ["ProtoNet, generalised", percent(per_task(11)), percent(per_task(12))],
        ["FEAT", percent(per_task(12)), percent(per_task(13))],
    ]


def test_where_only_the_number_of_tasks_differs_only_that_is_told(make_run: MakeRun) -> None:
    runs = [make_run("proto"), make_run("maml", per_task(1, tasks=37), method="MAML")]
    table = comparison_table(load_results(runs))
    assert table.title.endswith("strokes test, 5-way 1-shot, 13 queries a class, seed 0")
    assert [row[1] for row in table.rows] == ["41", "37"]
