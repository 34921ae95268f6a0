"""`fewset bench serve`: a real server, and a side that finds out what is lost or wrong."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fewset.bench.clients import Reply
from fewset.bench.photo_sides import Photograph
from fewset.bench.records import performance_page
from fewset.bench.serve_side import Serve
from fewset.classify.classifier import FewShotClassifier
from tests.helpers.command_line import succeed
from tests.helpers.photos import CLASSES
from tests.helpers.web import png


@pytest.mark.slow
def test_a_server_under_a_little_load(tmp_path: Path) -> None:
    record_file = tmp_path / "performance" / "serve.json"
    sizes = ("--uploads", 10, "--width", 67, "--height", 53, "--requests", 12, "--clients", 4)
    succeed("bench", "serve", *sizes, "--device", "cpu", "--repetitions", 1, "--out", record_file)
    record = json.loads(record_file.read_text())
    assert [side["images"] for side in record["sides"]] == [12, 12, 12]
    assert record["sides"][0]["peak_memory"] > 100 * 2**20
    assert [ratio["median"] > 0 for ratio in record["ratios"]] == [True, True]
    page = performance_page(tmp_path / "performance")
    for words in (
        "10 uploads at once",
        "12 questions, 4 at a time",
        "no photo was lost",
        "the page was there",
    ):
        assert words in page


@pytest.fixture
def side() -> Serve:
    """A side without a server: what it would be told stands in a list of classes."""
    made: Serve = Serve.__new__(Serve)
    made.given = [Photograph(f"{label}.png", label, png(label, 1)) for label in CLASSES]
    made.new = made.given
    classes = [{"name": each.label, "photos": [{"name": each.name}]} for each in made.given]
    made.server = SimpleNamespace(ask=lambda *_: {"classes": classes}, download=lambda _: b"")
    return made


def replied(**answer: Any) -> Reply:
    return Reply(json.dumps(answer).encode(), 0.1)


def test_a_lost_photo_is_found_out(side: Serve) -> None:
    added = [replied(photos=[{"name": each.name}]) for each in side.given]
    side._check_uploads(added)
    with pytest.raises(RuntimeError, match=r"the upload of blue sky\.png gave"):
        side._check_uploads([replied(photos=[]), *added[1:]])
    side.server.ask("GET", "/api/state")["classes"][1]["photos"].clear()
    with pytest.raises(RuntimeError, match="3 photos were uploaded, 2 are there"):
        side._check_uploads(added)


@pytest.mark.parametrize(
    "change", [{"probability": 0.7}, {"top": [{"label": "brick"}]}, {"name": "brick.png"}]
)
def test_a_wrong_answer_is_found_out(
    side: Serve, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = SimpleNamespace(probability=0.75, top=(("blue sky", 0.75), ("brick", 0.25)))
    other = SimpleNamespace(probability=0.5, top=(("brick", 0.5),))
    by_name = {"blue sky.png": said, "brick.png": other, "grass.png": other}
    loaded = SimpleNamespace(answers=lambda paths: [by_name[Path(path).name] for path in paths])
    monkeypatch.setattr(FewShotClassifier, "load", lambda _: loaded)
    right = {"name": "blue sky.png", "probability": 0.75, "top": [{"label": "blue sky"}]}
    assert side._check_answers([replied(answers=[right])]) == 0
    with pytest.raises(RuntimeError, match=r"a defect"):
        side._check_answers([replied(answers=[right | change])])
