import csv
import io

import numpy as np
import pytest

from fewset.evaluation import Difference
from fewset.report.results import compare_results, read_results
from fewset.report.tables import (
    comparison_table,
    csv_text,
    latex_text,
    markdown_text,
    plain_text,
    settings_table,
    text_of,
)
from tests.report.conftest import MakeRun, naive_score, per_task


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
    header, _, first, second = rows_of(markdown_text(comparison_table(read_results(runs))))
    assert header == ["Method", "Accuracy", "Unadapted", "Gain", "Over ProtoNet", "Excludes 0"]
    assert first == ["ProtoNet", percent(proto), "–", "–", "baseline", "–"]
    gain, difference = (feat.astype(float) - other for other in (before, proto))
    excludes = "yes" if abs(difference.mean()) > naive_score(difference)["ci95"] else "no"
    assert second == [
        "FEAT",
        percent(feat),
        percent(before),
        percent(gain, "+"),
        percent(difference, "+"),
        excludes,
    ]


@pytest.mark.parametrize(("shift", "excludes"), [(0.1, "yes"), (-0.1, "yes"), (0.0, "no")])
def test_whether_zero_is_excluded(make_run: MakeRun, shift: float, excludes: str) -> None:
    noise = np.random.default_rng(0).normal(0, 0.05, 41).astype(np.float32)
    values = per_task(0, 0.5)
    runs = [
        make_run("proto", values),
        make_run("feat", values + noise - noise.mean() + np.float32(shift), method="FEAT"),
    ]
    assert comparison_table(read_results(runs)).rows[1][-1] == excludes


def test_every_form_holds_the_same_numbers(make_run: MakeRun) -> None:
    runs = [make_run("proto"), make_run("feat", per_task(1), per_task(2), method="FEAT_50%")]
    table = comparison_table(read_results(runs))
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


def test_plain_text_is_aligned(make_run: MakeRun) -> None:
    runs = [make_run("proto"), make_run("feat", per_task(1), method="A much longer name")]
    header, rule, *rows = plain_text(comparison_table(read_results(runs))).splitlines()[2:]
    assert rule.replace("─", "").strip() == ""
    place = header.index("Accuracy") + len("Accuracy")
    assert all(row[:place].endswith(f"± {row[place - 4 : place]}") for row in rows)
    assert len(header) <= 80


def test_columns_that_would_be_empty_are_left_out(make_run: MakeRun) -> None:
    table = comparison_table(read_results([make_run()]))
    assert [column.title for column in table.columns] == ["Method", "Accuracy"]
    assert table.notes == ()
    assert "strokes test, 5-way 1-shot, 13 queries a class, 41 tasks, seed 0" in table.title


def test_results_that_cannot_be_paired_say_why(make_run: MakeRun) -> None:
    runs = [
        make_run("proto"),
        make_run("feat", method="FEAT"),
        make_run("gcn", method="GCN", shot=7, domain="chalk", setting="transductive"),
    ]
    table = comparison_table(read_results(runs))
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


def test_several_baselines_are_named(make_run: MakeRun) -> None:
    runs = [
        make_run(f"{method}{shot}", method=method, shot=shot) for method in ("GCN", "FEAT") for shot in (1, 3)
    ]
    table = comparison_table(read_results(runs))
    titles = [column.title for column in table.columns]
    assert "Over baseline" in titles
    assert [row[titles.index("Baseline")] for row in table.rows] == [
        None,
        None,
        "GCN, 5-way 1-shot",
        "GCN, 5-way 3-shot",
    ]


def test_a_tiny_negative_difference_is_not_minus_zero() -> None:
    assert text_of(Difference(-1e-9, 0.001)) == "+0.00 ± 0.10"
    assert text_of(Difference(-0.0123, 0.001)) == "-1.23 ± 0.10"


def test_settings_that_differ_come_first(make_run: MakeRun) -> None:
    runs = [make_run("proto"), make_run("feat", method="FEAT")]
    (runs[1] / "recipe.toml").write_text(
        'name = "feat"\nseed = 3\naugment = ["flip", "crop"]\n[train.optimiser]\nlr = 0.01\n'
    )
    table = settings_table(compare_results(read_results(runs)))
    assert [column.title for column in table.columns] == ["Setting", "ProtoNet", "FEAT"]
    assert table.rows == (
        ("name", "proto", "feat"),
        ("augment", "–", "flip, crop"),
        ("seed", "3", "3"),
        ("train.optimiser.lr", "0.01", "0.01"),
    )
