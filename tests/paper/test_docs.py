"""The studies in docs/paper: complete, with their origin, and drawn from their files."""

import re
from pathlib import Path

import pytest

from fewset.paper.catalogue import STUDIES
from fewset.paper.render import render_study
from fewset.paper.study import read_study

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", STUDIES)
def test_the_tables_are_what_the_study_file_gives(name: str, tmp_path: Path) -> None:
    render_study(DOCS / "paper" / name / f"{name}.json", tmp_path)
    for ending in ("md", "csv", "tex"):
        shown = (DOCS / "paper" / name / f"{name}.{ending}").read_text(encoding="utf-8")
        assert shown == (tmp_path / f"{name}.{ending}").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", STUDIES)
def test_every_number_is_there_and_says_how_it_was_made(name: str) -> None:
    study = read_study(DOCS / "paper" / name / f"{name}.json")
    assert len(study.numbers) == len(study.panels) * len(study.rows) * len(study.columns)
    tasks = 5 if name == "low-shot" else 10_000
    for number in study.numbers:
        assert number.result.tasks == tasks
        assert re.fullmatch(r"[0-9a-f]{40}", number.result.commit)
        assert number.result.command.startswith("fewset ")


def test_the_page_lists_every_study_and_its_links_lead_somewhere() -> None:
    page = (DOCS / "paper.md").read_text(encoding="utf-8")
    for name in STUDIES:
        assert f"(paper/{name}/{name}.md)" in page
    for link in re.findall(r"\]\((?!http)([^)#]+)", page):
        assert (DOCS / link).exists(), link
