import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fewset.core.errors import UserError
from fewset.paper.render import render_study, study_tables
from fewset.paper.study import Study, read_study, write_study
from fewset.report.tables import markdown_text, plain_text, text_of
from tests.helpers.study_files import generalised_study, make_study


def rows_of(study: Study, panel: int = 0) -> list[list[str]]:
    table = study_tables(study)[panel]
    return [
        [column.title for column in table.columns],
        *([text_of(cell) for cell in row] for row in table.rows),
    ]


def test_a_study_reads_back_as_it_was_written(tmp_path: Path) -> None:
    for study in (make_study(), make_study(numbers=()), generalised_study()):
        write_study(study, tmp_path / "study.json")
        assert read_study(tmp_path / "study.json") == study


def test_the_papers_numbers_stand_beside_ours_and_are_labelled() -> None:
    assert rows_of(make_study()) == [
        ["heads", "1-shot 5-way", "1-shot 5-way, paper", "5-shot 5-way", "5-shot 5-way, paper"],
        ["1", "50.00 ± 0.10", "55.15 ± 0.20", "51.00 ± 0.11", "71.57 ± 0.16"],
        ["2", "52.00 ± 0.12", "54.91 ± 0.20", "53.00 ± 0.13", "71.44 ± 0.16"],
        ["8", "54.00 ± 0.14", "55.22 ± 0.20", "55.00 ± 0.15", "71.39 ± 0.16"],
    ]
    (table,) = study_tables(make_study())
    assert "(strokes, conv4; paper: miniImageNet, ConvNet)" in table.title
    ours, paper = table.notes
    assert ours == "Ours: strokes, conv4, 10,007 tasks each, made by fewset ablate heads, commit 0123456789."
    source = "Paper: supplement, ablation on heads, on miniImageNet, ConvNet."
    assert paper.startswith(f"{source} Ours are not on that")
    (own_set,) = study_tables(make_study(data="miniimagenet"))
    assert own_set.notes[-1] == source
    (none,) = study_tables(make_study(name="ways", columns=("5", "10"), columns_title="ways"))
    assert [column.title for column in none.columns] == ["heads ↓ ways →", "5", "10"]
    assert none.notes[-1] == "The paper prints no numbers for this."


def test_the_papers_column_has_the_papers_name() -> None:
    study = make_study(
        name="cross-domain",
        rows=("FEAT",),
        columns=("ink → ink", "ink → chalk"),
        column_keys=("A → A", "A → B"),
    )
    header, row = rows_of(study)
    assert header[1:] == ["ink → ink", "A → A, paper", "ink → chalk", "A → B, paper"]
    assert row[2::2] == ["36.83 ± 0.17", "30.89 ± 0.17"]


def with_set(study: Study, *rows: str) -> Study:
    """The study, with 0.01 ± 0.002 that the set adds to the numbers of some rows."""
    fields = {"set_adds": {"mean": 0.01, "ci95": 0.002}}
    numbers = (
        replace(each, result=replace(each.result, fields=fields)) if each.row in rows else each
        for each in study.numbers
    )
    return replace(study, numbers=tuple(numbers))


def test_what_the_set_adds_stands_beside_ours() -> None:
    study = with_set(make_study(), "2", "8")
    header, *rows = rows_of(study)
    assert header[1:4] == ["1-shot 5-way", "1-shot 5-way, the set adds", "1-shot 5-way, paper"]
    assert [row[2] for row in rows] == ["–", "+1.00 ± 0.20", "+1.00 ± 0.20"]
    assert any(note.startswith("The set adds:") for note in study_tables(study)[0].notes)
    assert not any(note.startswith("The set adds:") for note in study_tables(make_study())[0].notes)


def test_what_the_set_adds_to_many_columns_has_a_table_of_its_own() -> None:
    shots = tuple(map(str, (1, 2, 3, 5, 10)))
    numbers, adds = study_tables(with_set(make_study(name="shots", columns=shots), "8"))
    assert [len(table.columns) for table in (numbers, adds)] == [6, 6]
    assert "what the set adds, in points" in adds.title
    assert [[text_of(cell) for cell in row[:2]] for row in adds.rows] == [["8", "+1.00 ± 0.20"]]
    assert (numbers.notes, bool(adds.notes)) == ((), True)


def test_cited_numbers_are_marked_and_named() -> None:
    study = make_study(name="benchmark", rows=("MAML", "SimpleShot", "FEAT"))
    assert [row[2] for row in rows_of(study)[1:]] == ["49.24 ± 0.21", "49.69*", "55.15 ± 0.20"]
    assert study_tables(study)[0].notes[-1].startswith("* SimpleShot: cited in the paper")


def test_a_column_that_the_paper_does_not_have_has_none_beside_it() -> None:
    tables = study_tables(generalised_study())
    assert [[column.title for column in table.columns] for table in tables] == 2 * [
        ["heads", "SEEN", "SEEN, paper", "harmonic mean"]
    ]
    assert [rows_of(generalised_study(), panel)[2][2] for panel in (0, 1)] == ["43.94 ± 0.03", "44.94 ± 0.03"]
    assert [bool(table.notes) for table in tables] == [False, True]
    assert ", 5-shot learning (strokes" in tables[1].title


def test_missing_numbers_are_dashes_and_are_counted() -> None:
    study = make_study()
    study = replace(study, numbers=study.numbers[2:], notes=("A note of its own.",))
    assert [row[1] for row in rows_of(study)[1:]] == ["–", "52.00 ± 0.12", "54.00 ± 0.14"]
    notes = study_tables(study)[0].notes
    assert notes[0] == "A note of its own."
    assert notes[1].endswith(" Not measured: 2 of 6.")
    assert "Not measured" not in study_tables(replace(study, blank=2))[0].notes[1]


def test_a_study_that_has_not_begun_can_be_shown(tmp_path: Path) -> None:
    for study in (make_study(numbers=()), make_study(numbers=(), style="lines", name="ways")):
        assert len(render_study(study, tmp_path)) == 5
        assert "Not measured: 6 of 6." in plain_text(study_tables(study)[0])


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], list[Path]]:
    """A study with curves, rendered twice."""
    folder = tmp_path_factory.mktemp("rendered")
    study = generalised_study()
    return render_study(study, folder / "out", folder / "pages"), render_study(study, folder / "second")


def test_every_file_is_written_and_the_csv_holds_every_number(
    rendered: tuple[list[Path], list[Path]],
) -> None:
    study = generalised_study()
    paths, beside = rendered
    names = [".md", ".csv", ".tex", ".png", ".svg", "-curve.png", "-curve.svg"]
    assert [path.name.removeprefix("generalised") for path in paths] == names
    assert {path.parent.name for path in paths if path.suffix in (".md", ".png")} == {"pages"}
    assert {path.parent.name for path in beside} == {"second"}
    lines = list(csv.DictReader(io.StringIO(paths[1].read_text())))
    assert len(lines) == len(study.numbers)
    for line in lines:
        cell = study.number(line["panel"], line["row"], line["column"])
        assert cell is not None
        assert float(line["accuracy"]) == pytest.approx(100 * cell.stored.mean, abs=0.005)
        assert float(line["accuracy_ci95"]) == pytest.approx(100 * cell.stored.ci95, abs=0.005)
        paper = study.paper(line["panel"], line["row"], line["column"])
        assert (paper is not None) == (line["column"] == "SEEN")
        assert line["paper"] == (f"{100 * paper.mean:.2f}" if paper else "")
        assert line["paper_on"] == ("miniImageNet, ConvNet" if paper else "")
        assert (line["tasks"], line["seed"], line["commit"]) == ("10007", "3", "0123456789abcdef")
    text = paths[0].read_text()
    for picture in ("generalised.png", "generalised-curve.png"):
        assert f"]({picture})" in text
    for table in study_tables(study):
        assert markdown_text(table) in text


def test_latex_escapes_whatever_a_name_holds(tmp_path: Path) -> None:
    study = make_study(
        title="50% of_$a & {b} #1", rows=("FEAT†", "a→b", "x\\y"), notes=("~ ^ <|>",), corner="λ_1 %"
    )
    text = render_study(study, tmp_path)[2].read_text()
    for part in (r"50\% of\_\$a \& \{b\} \#1", r"FEAT\textdagger{} &", r"a$\rightarrow$b &"):
        assert part in text
    for part in (r"x\textbackslash{}y &", r"\textasciitilde{} \textasciicircum{}", r"λ\_1 \% &"):
        assert part in text


def test_two_renderings_are_the_same_to_the_byte(rendered: tuple[list[Path], list[Path]]) -> None:
    first, second = rendered
    for one, two in zip(first, second, strict=True):
        assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 1},
        {"name": "../evil"},
        {"rows": []},
        {"columns": [1, 2]},
        {"column_keys": ["1-shot 5-way"]},
        {"title": "two\nlines"},
        {"numbers": [5]},
        {"numbers": {}},
    ],
)
def test_a_damaged_file_is_an_error_with_its_name(tmp_path: Path, changes: dict[str, Any]) -> None:
    write_study(make_study(), tmp_path / "study.json")
    record = json.loads((tmp_path / "study.json").read_text())
    (tmp_path / "study.json").write_text(json.dumps(record | changes))
    with pytest.raises(UserError, match=r"study\.json "):
        read_study(tmp_path / "study.json")


@pytest.mark.parametrize(
    "changes",
    [
        {"row": "3"},
        {"column": "5-shot 5-way"},
        {"score": "top5"},
        {"result": []},
        {"mean": 55.15},
        {"ci95": -0.1},
    ],
)
def test_a_damaged_number_is_an_error(tmp_path: Path, changes: dict[str, Any]) -> None:
    write_study(make_study(), tmp_path / "study.json")
    record = json.loads((tmp_path / "study.json").read_text())
    number = record["numbers"][0]
    (number["result"] if changes.keys() & {"mean", "ci95"} else number).update(changes)
    (tmp_path / "study.json").write_text(json.dumps(record))
    with pytest.raises(UserError, match=r"study\.json "):
        read_study(tmp_path / "study.json")


@pytest.mark.parametrize("text", ["[]", "{", None])
def test_what_is_no_study_is_an_error(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "study.json").write_text(text)
    with pytest.raises(UserError, match=r"study\.json"):
        read_study(tmp_path / "study.json")
