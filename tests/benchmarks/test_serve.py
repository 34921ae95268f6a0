"""A real server under load, and the checks that find a lost photo or a wrong answer."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.clients import Reply
from benchmarks.serve import Photograph, Serve, measure_serve
from fewset.bench.measuring import Measuring
from fewset.classify.classifier import FewShotClassifier
from tests.helpers.photos import CLASSES
from tests.helpers.web import png


@pytest.mark.slow
def test_a_server_under_a_little_load() -> None:
    record = measure_serve(Measuring(1, "cpu"), uploads=10, width=67, height=53, requests=12, clients=4)
    assert [side["images"] for side in record["sides"]] == [12, 12, 12]
    assert record["sides"][0]["peak_memory"] > 100 * 2**20
    assert [ratio["median"] > 0 for ratio in record["ratios"]] == [True, True]


@pytest.fixture
def side() -> Serve:
    """A side with a stand-in for the server."""
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
