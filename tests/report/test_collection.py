from pathlib import Path

import pytest

from fewset.errors import UserError
from fewset.report.collection import check_page, keep, results_page, write_page
from fewset.report.results import read_result
from fewset.report.tables import text_of

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
