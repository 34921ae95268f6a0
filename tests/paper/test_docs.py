"""The studies in results/paper: complete, with their origin; what shows them is drawn from their files."""

import re
from pathlib import Path

import pytest

from fewset.paper.catalogue import STUDIES
from fewset.paper.render import render_study
from fewset.paper.study import read_study

ROOT = Path(__file__).parents[2]
DOCS, STUDY_RECORDS = ROOT / "docs", ROOT / "results" / "paper"


def published(file: Path) -> str:
    """The text that the repository has of a rendered file."""
    place = DOCS / "paper" if file.suffix == ".md" else STUDY_RECORDS
    return (place / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", STUDIES)
def test_the_tables_are_what_the_study_file_gives(name: str, tmp_path: Path) -> None:
    study = read_study(STUDY_RECORDS / name / f"{name}.json")
    for path in render_study(study, tmp_path / "records", tmp_path / "pages"):
        assert path.parent.name == ("pages" if path.suffix in (".md", ".png") else "records")
        if path.suffix not in (".png", ".svg"):
            assert path.read_text(encoding="utf-8") == published(Path(name) / path.name)


@pytest.mark.parametrize("name", STUDIES)
def test_every_number_is_there_and_says_how_it_was_made(name: str) -> None:
    study = read_study(STUDY_RECORDS / name / f"{name}.json")
    assert study.missing == 0
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
