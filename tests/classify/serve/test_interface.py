"""Every route of the HTTP interface, and that it says what Python says."""

import json
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from fewset import FewShotClassifier
from fewset.classify.serve import workbench
from fewset.classify.serve.embedding_queue import EmbeddingQueue
from fewset.classify.serve.workbench import open_workbench
from fewset.data.images.decoding import encode
from fewset.encoders import register_encoder
from tests.helpers.command_line import succeed
from tests.helpers.photos import CLASSES, TinyEncoder, photo
from tests.helpers.web import TINY, client, files, png, teach


def fitted(shots: int = 4) -> FewShotClassifier:
    photos = [(label, seed) for label in CLASSES for seed in range(shots)]
    classifier = FewShotClassifier(TINY, reject="auto")
    return classifier.fit([photo(*each) for each in photos], [label for label, _ in photos])


def test_an_empty_server_says_so() -> None:
    with client() as opened:
        state = opened.get("/api/state").json()
        assert (state["classes"], state["trust"], state["undo"]) == ([], None, None)
        assert state["encoder"] == "tiny"
        for address in ("/api/picture", "/api/downloads/classifier", "/api/downloads/predictions"):
            answer = opened.get(address)
            assert answer.status_code == 400
            assert "two classes" in answer.json()["detail"]
        answer = opened.post("/api/classify", files=files("grass", 0))
        assert answer.status_code == 400
        assert opened.get("/api/tried").json()["answers"] == []
        assert opened.post("/api/undo").json() == {"detail": "there is nothing to undo"}


def test_a_photo_in_the_wrong_class_is_suspected() -> None:
    with client() as opened:
        teach(opened)
        opened.post("/api/photos", data={"label": "brick"}, files=files("grass", 60))
        state = opened.get("/api/state").json()
        trust = state["trust"]
        (suspect,) = trust["suspects"]
        assert (suspect["label"], suspect["looks_like"]) == ("brick", "grass")
        assert trust["confusions"] == [{"label": "brick", "taken_for": "grass", "photos": 1}]
        number = suspect["photo"]
        shown = {photo["number"]: photo["name"] for each in state["classes"] for photo in each["photos"]}
        assert shown[number] == "grass 60.png"
        assert opened.post("/api/photos/move", json={"photos": [number], "label": "grass"}).status_code == 204
        assert opened.get("/api/state").json()["trust"]["suspects"] == []


def test_photos_of_one_occasion_are_a_warning() -> None:
    with client() as opened:
        for number, label in enumerate(CLASSES):
            sent = [("photos", (f"IMG_{number}00{seed}.jpg", png(label, seed))) for seed in range(4)]
            opened.post("/api/photos", data={"label": label}, files=sent)
        trust = opened.get("/api/state").json()["trust"]
        assert "3 occasions" in trust["occasions"]
        assert "one occasion only" in trust["occasions"]
        assert trust["least"] == "3 different photos"


def test_it_answers_as_python_does() -> None:
    classifier = fitted()
    new = [photo(label, seed) for label in CLASSES for seed in (70, 71)]
    given = [each for label in CLASSES for each in files(label, 70, 71)]
    with client() as opened:
        teach(opened)
        answers = opened.post("/api/classify", data={"top": 3}, files=given).json()["answers"]
        for answer, expected in zip(answers, classifier.answers(new), strict=True):
            assert answer["label"] == expected.top[0][0]
            assert answer["none_of_these"] == (expected.label != expected.top[0][0])
            assert answer["probability"] == pytest.approx(expected.probability, abs=1e-12)
            assert answer["top"] == [[label, pytest.approx(share)] for label, share in expected.top]
            assert answer["reason"]["label"] == str(
                classifier.classes_[classifier.learned_.support.labels[expected.nearest]]
            )
            assert answer["closeness"] == pytest.approx(expected.closeness)
        assert opened.get("/api/tried").json()["answers"] == []


def test_a_photo_unlike_all_is_none_of_these_unless_that_is_switched_off() -> None:
    stripes = np.zeros((64, 64, 3), dtype=np.uint8)
    stripes[:, ::16] = 255
    given = [("photos", ("stripes.png", encode(stripes, "PNG")))]
    with client() as opened:
        teach(opened)
        assert opened.get("/api/state").json()["can_reject"]
        assert opened.post("/api/classify", files=given).json()["answers"][0]["none_of_these"]
        assert opened.post("/api/reject", json={"share": None}).status_code == 204
        assert not opened.post("/api/classify", files=given).json()["answers"][0]["none_of_these"]
        assert opened.post("/api/undo").json() == {"undone": "the setting of none of these"}
        assert opened.post("/api/classify", files=given).json()["answers"][0]["none_of_these"]


def test_photos_that_are_kept_are_classified_again_and_can_be_taught() -> None:
    with client() as opened:
        teach(opened, 1)
        kept = opened.post("/api/classify", data={"keep": True}, files=files("grass", 70)).json()["answers"][
            0
        ]
        (tried,) = opened.get("/api/tried").json()["answers"]
        assert tried == kept
        number = kept["number"]
        assert opened.get(f"/api/photos/{number}/thumbnail").headers["content-type"] == "image/jpeg"
        opened.post("/api/tried/teach", json={"photos": [number], "label": "lawn"})
        (tried,) = opened.get("/api/tried").json()["answers"]
        assert (tried["label"], tried["taught"], tried["reason"]["number"]) == ("lawn", "lawn", number)
        opened.post("/api/undo")
        assert opened.get("/api/tried").json()["answers"] == [kept]
        opened.post("/api/tried/forget", json={"photos": [number]})
        assert opened.get("/api/tried").json()["answers"] == []
        assert opened.get(f"/api/photos/{number}/thumbnail").status_code == 404
        assert opened.post("/api/tried/teach", json={"photos": [number], "label": "lawn"}).status_code == 400


def test_classes_are_made_renamed_and_removed_and_it_is_undone() -> None:
    with client() as opened:

        def names() -> list[str]:
            return [each["name"] for each in opened.get("/api/state").json()["classes"]]

        teach(opened, 1)
        assert opened.post("/api/classes", json={"name": " sea "}).status_code == 204
        assert opened.post("/api/classes/rename", json={"name": "sea", "new_name": "lake"}).status_code == 204
        assert opened.post("/api/classes/remove", json={"name": "brick"}).status_code == 204
        assert names() == ["blue sky", "grass", "lake"]
        assert opened.get("/api/state").json()["undo"] == "removing the class brick"
        opened.post("/api/undo")
        assert names() == ["blue sky", "grass", "brick", "lake"]
        assert opened.post("/api/classes", json={"name": "grass"}).status_code == 400
        assert opened.post("/api/classes", json={"name": "none of these"}).status_code == 400
        assert opened.post("/api/classes", json={"name": ""}).status_code == 422
        numbers = [photo["number"] for photo in opened.get("/api/state").json()["classes"][0]["photos"]]
        assert opened.post("/api/photos/remove", json={"photos": numbers}).status_code == 204
        assert opened.get("/api/state").json()["classes"][0] == {"name": "blue sky", "photos": []}


def test_what_can_be_read_is_added_and_the_rest_is_named() -> None:
    bad = ("photos", ("letter.txt", b"dear reader"))
    with client() as opened:
        answer = opened.post("/api/photos", data={"label": "grass"}, files=[*files("grass", 0), bad]).json()
        assert [each["name"] for each in answer["photos"]] == ["grass 0.png"]
        assert answer["skipped"][0]["name"] == "letter.txt"
        assert "known format" in answer["skipped"][0]["problem"]
        answer = opened.post("/api/photos", data={"label": "grass"}, files=[bad])
        assert answer.status_code == 400
        assert "letter.txt: not an image" in answer.json()["detail"]
        teach(opened)
        answers = opened.post("/api/classify", files=[bad, *files("grass", 9)]).json()["answers"]
        assert [each["label"] for each in answers] == [None, "grass"]
        assert "known format" in answers[0]["problem"]


def test_the_file_gives_the_same_answers(tmp_path: Path) -> None:
    register_encoder("tiny")(lambda device: TinyEncoder())  # noqa: ARG005
    with client() as opened:
        teach(opened)
        answer = opened.get("/api/downloads/classifier")
        assert 'filename="my.fewset"' in answer.headers["content-disposition"]
        (tmp_path / "my.fewset").write_bytes(answer.content)
        shown = opened.post("/api/classify", files=files("grass", 70)).json()["answers"]
    classifier = FewShotClassifier.load(tmp_path / "my.fewset")
    assert classifier.reject == 0.05
    assert classifier.predict_proba([photo("grass", 70)]).max() == shown[0]["probability"]
    photo("grass", 70).save(tmp_path / "new.png")
    succeed("predict", tmp_path / "my.fewset", tmp_path / "new.png", "--json", tmp_path / "said.json")
    (said,) = json.loads((tmp_path / "said.json").read_text())
    assert said["top"] == [[label, round(probability, 4)] for label, probability in shown[0]["top"]]
    assert (said["class"], said["nearest"]) == ("grass", shown[0]["reason"]["name"])

    bench, queue = open_workbench(tmp_path / "my.fewset")
    with client(queue, bench) as opened:
        assert opened.post("/api/classify", files=files("grass", 70)).json()["answers"] == shown


def test_a_full_queue_asks_to_come_again() -> None:
    with client(EmbeddingQueue(TINY, most=2)) as opened:
        answer = opened.post("/api/photos", data={"label": "grass"}, files=files("grass", 0, 1, 2))
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
        assert (
            opened.post("/api/photos", data={"label": "grass"}, files=files("grass", 0, 1)).status_code == 200
        )


def test_the_page_and_its_files_are_there_and_nothing_else() -> None:
    with client() as opened:
        for address, kind in {"/": "text/html", "/static/page.js": "text/javascript"}.items():
            answer = opened.get(address)
            assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, kind)
        for address in ("/static/../server.py", "/static/..%2fserver.py", "/static/%2e%2e/guard.py"):
            assert opened.get(address).status_code == 404
        paths = opened.get("/openapi.json").json()["paths"]
    assert {"/api/classify", "/api/photos"} <= set(paths)


@pytest.mark.parametrize(
    "body", [b"NaN", b'{"photos": [Infinity]}', b"\xff\xfe", b'{"photos": ["\\ud800"]}', b"[" * 100_000]
)
def test_a_body_that_is_not_as_described_is_told_so(body: bytes) -> None:
    with client() as opened:
        for kind in ("application/json", "text/plain"):
            answer = opened.post("/api/photos/remove", content=body, headers={"content-type": kind})
            assert answer.status_code in (400, 422)
            assert answer.json()["detail"]


def test_the_state_comes_before_what_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a patience the photos come at once, and the tried ones are answered later."""
    go_on, real = Event(), workbench.learn
    with client() as opened:
        teach(opened)
        opened.post("/api/classify", data={"keep": "true"}, files=files("grass", 9))
        monkeypatch.setattr(workbench, "learn", lambda *given: (go_on.wait(60), real(*given))[1])
        opened.post("/api/photos", data={"label": "grass"}, files=files("grass", 10))
        state = opened.get("/api/state?patience=0.01").json()
        assert (state["learning"], state["trust"]) == (True, None)
        assert sum(len(each["photos"]) for each in state["classes"]) == 4 * len(CLASSES) + 1
        (answer,) = opened.get("/api/tried?patience=0").json()["answers"]
        assert answer["label"] is None
        go_on.set()
        state = opened.get("/api/state").json()
        assert not state["learning"]
        assert state["trust"]["tested"] == 4 * len(CLASSES) + 1
        (answer,) = opened.get("/api/tried?patience=0").json()["answers"]
        assert answer["label"] == "grass"
        assert opened.get("/api/state?patience=-1").status_code == 422


def test_the_next_photos_to_name_are_those_that_python_suggests() -> None:
    new = [(label, seed) for label in CLASSES for seed in range(30, 35)]
    with client() as opened:
        assert opened.get("/api/next").json() == []
        teach(opened)
        for each in new:
            opened.post("/api/classify", files=files(*each), data={"keep": "true"})
        found = opened.get("/api/next", params={"count": 4}).json()
        expected = fitted().suggest([photo(*each) for each in new], count=4)
        names = [f"{label} {seed}.png" for label, seed in new]
        assert [each["name"] for each in found] == [names[each.index] for each in expected]
        first = found[0]["number"]
        opened.post("/api/tried/teach", json={"photos": [first], "label": "grass"})
        rest = opened.get("/api/next", params={"count": 100}).json()
        assert first not in [each["number"] for each in rest]
        assert len(rest) == len(new) - 1
        assert opened.get("/api/next", params={"count": 101}).status_code == 422
