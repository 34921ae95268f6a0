"""The studies in results/paper: complete, with their origin; what shows them is drawn from their files."""

import re
import shutil
from pathlib import Path

import pytest

from fewset.paper.catalogue import STUDIES
from fewset.paper.method_record import read_record_of
from fewset.paper.method_tables import render_methods
from fewset.paper.render import render_study
from fewset.paper.study import read_study

ROOT = Path(__file__).parents[2]
DOCS, STUDY_RECORDS = ROOT / "docs", ROOT / "results" / "paper"
METHODS = sorted(path.parent for path in (STUDY_RECORDS / "methods").glob("*/methods.json"))


def published(file: Path) -> str:
    """The text that the repository has of a rendered file."""
    place = DOCS / "paper" if file.suffix == ".md" else STUDY_RECORDS
    return (place / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", STUDIES)
def test_the_tables_are_what_the_study_file_gives(name: str, tmp_path: Path) -> None:
    record = tmp_path / "records" / f"{name}.json"
    record.parent.mkdir()
    shutil.copyfile(STUDY_RECORDS / name / record.name, record)
    for path in render_study(record, tmp_path / "pages"):
        assert path.parent.name == ("pages" if path.suffix in (".md", ".png") else "records")
        if path.suffix not in (".png", ".svg"):
            assert path.read_text(encoding="utf-8") == published(Path(name) / path.name)


@pytest.mark.parametrize("name", STUDIES)
def test_every_number_is_there_and_says_how_it_was_made(name: str) -> None:
    study = read_study(STUDY_RECORDS / name / f"{name}.json")
    assert len(study.numbers) == len(study.panels) * len(study.rows) * len(study.columns)
    tasks = 5 if name == "low-shot" else 10_000
    for number in study.numbers:
        assert number.result.tasks == tasks
        assert re.fullmatch(r"[0-9a-f]{40}", number.result.commit)
        assert number.result.command.startswith("fewset ")


@pytest.mark.parametrize("place", METHODS, ids=lambda path: path.name)
def test_the_tables_of_methods_are_what_their_files_give(place: Path, tmp_path: Path) -> None:
    drawn = shutil.copytree(place, tmp_path / place.name, ignore=shutil.ignore_patterns("trained"))
    for path in render_methods(drawn):
        assert path.read_text(encoding="utf-8") == published(Path("methods") / place.name / path.name)
    for number in read_record_of(place).numbers:
        assert re.fullmatch(r"[0-9a-f]{40}", number.commit)


def test_the_page_lists_every_study_and_its_links_lead_somewhere() -> None:
    page = (DOCS / "paper.md").read_text(encoding="utf-8")
    for name in STUDIES:
        assert f"(paper/{name}/{name}.md)" in page
    for link in re.findall(r"\]\((?!http)([^)#]+)", page):
        assert (DOCS / link).exists(), link
    for place in METHODS:
        assert f"(paper/methods/{place.name}/methods.md)" in page
