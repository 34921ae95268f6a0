"""The page and the records that it is made from agree."""

from pathlib import Path

import pytest

from fewset.core.errors import UserError
from tests.fuzz.case import load_readers
from tests.fuzz.kills import JOBS
from tests.fuzz.page import make_page
from tests.fuzz.records import FuzzRecord, KillRecord, Outcomes, read, write

ROOT = Path(__file__).parents[2]
KEPT, PAGE = ROOT / "results" / "reliability", ROOT / "docs" / "reliability.md"
VERSIONS = {"python": "3.11", "torch": "2.13", "platform": "Linux"}


def test_the_kept_page_is_up_to_date() -> None:
    make_page(KEPT, PAGE, check=True)


def test_the_kept_records_are_of_all_readers_and_jobs_and_nothing_was_wrong() -> None:
    fuzz, kills = read(FuzzRecord, KEPT / "fuzz.json"), read(KillRecord, KEPT / "kills.json")
    assert set(fuzz.readers) == set(load_readers())
    assert fuzz.wrong == 0
    assert set(kills.kills) == set(JOBS)
    assert kills.wrong == ()


def test_the_page_shows_what_is_wrong(tmp_path: Path) -> None:
    readers = {"images": Outcomes(1234, 5, {"hang": 2}, 1.5), "zips": Outcomes(7, 11, {}, 0.25)}
    fuzz = FuzzRecord("c0ffee", VERSIONS, 3, 1, 2, 30.0, 30, 2**31, readers)
    kills = KillRecord("c0ffee", VERSIONS, 5, {"import": 13}, ("train: model.safetensors differs",))
    directory, page = tmp_path / "reliability", tmp_path / "page.md"
    write(fuzz, directory / "fuzz.json")
    write(kills, directory / "kills.json")
    text = make_page(directory, page).read_text()
    for words in ("1,259 inputs, 2 of them wrong", "| hang: 2 |", "13 kills", "model.safetensors differs"):
        assert words in text
    make_page(directory, page, check=True)
    page.write_text(text.replace("1,259", "1,260"))
    with pytest.raises(UserError, match=r"python -m tests\.fuzz page"):
        make_page(directory, page, check=True)
