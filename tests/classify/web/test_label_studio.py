"""Label Studio's protocol: its own requests are answered in its own shapes, and nothing is fetched that was
not allowed."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from fewset.classify.web import label_studio_photos
from fewset.classify.web.label_studio import question
from fewset.classify.web.label_studio_photos import API_KEY, TaskPhotos
from fewset.runtime.errors import UserError
from tests.helpers.web import client, png, teach

CONFIG = """<View>
  <!-- made by hand -->
  <Image name="picture" value="$photo"/>
  <Choices name="material" toName="picture">
    <Choice value="grass"/><Choice value="brick"/><Choice value="blue sky"/>
  </Choices>
</View>"""


def data_url(label: str, seed: int) -> str:
    return "data:image/png;base64," + base64.b64encode(png(label, seed)).decode()


def request(*places: Any, config: str = CONFIG) -> dict[str, Any]:
    """As Label Studio sends it."""
    return {
        "tasks": [{"id": number, "data": {"photo": place}} for number, place in enumerate(places, 7)],
        "model_version": None,
        "project": "3.1712345678",
        "label_config": config,
        "params": {"login": None, "password": None, "context": None},
    }


def test_health_and_setup() -> None:
    asked = {"project": "3.1712345678", "schema": CONFIG, "hostname": "http://x", "access_token": "t"}
    with client() as opened:
        assert opened.get("/health").json()["status"] == "UP"
        assert opened.post("/setup", json=asked).json() == {"model_version": "fewset-empty"}
        teach(opened)
        first = opened.post("/setup", json=asked).json()["model_version"]
        assert opened.get("/versions").json() == {"versions": [first]}
        assert opened.post("/setup", json=asked).json()["model_version"] == first
        opened.post("/api/classes/rename", json={"name": "grass", "new_name": "lawn"})
        assert opened.post("/setup", json=asked).json()["model_version"] != first
        assert opened.post("/setup", json={**asked, "schema": "<View/>"}).status_code == 400


def test_predictions_have_the_shape_that_is_imported() -> None:
    with client() as opened:
        teach(opened)
        answer = opened.post("/predict", json=request(data_url("grass", 50), data_url("brick", 50))).json()
        shown = opened.post("/api/classify", files=[("photos", ("a.png", png("grass", 50)))]).json()
    first, second = answer["results"]
    probability = shown["answers"][0]["probability"]
    assert first["result"] == [
        {
            "from_name": "material",
            "to_name": "picture",
            "type": "choices",
            "value": {"choices": ["grass"]},
            "score": probability,
        }
    ]
    assert (first["score"], first["model_version"]) == (probability, answer["model_version"])
    assert second["result"][0]["value"] == {"choices": ["brick"]}


def test_what_the_project_does_not_offer_is_no_prediction() -> None:
    offered = CONFIG.replace("grass", "meadow")
    with client() as opened:
        teach(opened)
        asked = request(data_url("grass", 50), config=offered)
        (result,) = opened.post("/predict", json=asked).json()["results"]
        assert (result["result"], result["score"]) == ([], 0)
        assert "not among the choices" in result["problem"]


@pytest.mark.parametrize(
    "place",
    [
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "/etc/passwd",
        "/data/upload/1/cat.jpg",
        "s3://bucket/cat.jpg",
        "data:image/png;base64,!!!",
        "data:,hello",
        "",
        None,
        7,
        ["x"],
    ],
)
def test_nothing_is_fetched_without_leave(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_studio_photos, "build_opener", lambda *_: pytest.fail("it was fetched"))
    with client() as opened:
        teach(opened)
        bad, good = opened.post("/predict", json=request(place, data_url("grass", 50))).json()["results"]
        assert bad["result"] == []
        assert bad["problem"]
        assert good["result"][0]["value"] == {"choices": ["grass"]}


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def studio(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """A Label Studio that has one photo, wants a token, and has a page that leads elsewhere."""
    asked: list[tuple[str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers["Authorization"]))
            if self.path == "/data/away":
                self.send_response(302)
                self.send_header("Location", "/data/upload/cat.png")
                self.end_headers()
                return
            self.send_response(200 if self.headers["Authorization"] == "Token k3y" else 401)
            self.end_headers()
            self.wfile.write(png("grass", 50))

        def log_message(self, *_: Any) -> None: ...

    monkeypatch.setenv(API_KEY, "k3y")
    with served(Handler) as address:
        yield address, asked


def test_photos_come_from_the_label_studio_that_was_named(studio: tuple[str, list[Any]]) -> None:
    address, asked = studio
    with client(label_studio=address) as opened:
        teach(opened)
        places = ("/data/upload/cat.png", f"{address}/data/upload/cat.png")
        results = opened.post("/predict", json=request(*places)).json()["results"]
        assert [each["result"][0]["value"] for each in results] == [{"choices": ["grass"]}] * 2
        assert asked == [("/data/upload/cat.png", "Token k3y")] * 2
        asked.clear()
        others = (
            "/api/users",
            f"{address}@evil.example/data/x",
            f"{address}.evil.example/data/x",
            "//evil.example/data/x",
            "/data/../api/users",
            "http://127.0.0.1:1/data/x",
        )
        results = opened.post("/predict", json=request(*others)).json()["results"]
        assert all("only" in each["problem"] for each in results)
        assert asked == []
        (result,) = opened.post("/predict", json=request("/data/away")).json()["results"]
        assert "cannot be fetched" in result["problem"]
        assert asked == [("/data/away", "Token k3y")]


def test_a_personal_access_token_is_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Label Studio 1.23 does it: what it gives for the token is valid for some minutes."""
    asked: list[str] = []
    valid = ["first", "second"]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.answer(
                200 if sent == {"refresh": "a.b.c"} else 401, json.dumps({"access": valid[0]}).encode()
            )

        def do_GET(self) -> None:
            asked.append(self.path)
            self.answer(200 if self.headers["Authorization"] == f"Bearer {valid[0]}" else 401, b"photo")

        def answer(self, code: int, content: bytes) -> None:
            self.send_response(code)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None: ...

    monkeypatch.setenv(API_KEY, "a.b.c")
    with served(Handler) as address:
        read = TaskPhotos(address)
        assert [read("/data/1"), read("/data/2")] == [b"photo"] * 2
        assert asked == ["/api/token/refresh/", "/data/1", "/data/2"]
        del valid[0]
        assert read("/data/3") == b"photo"
        assert asked[3:] == ["/data/3", "/api/token/refresh/", "/data/3"]
        monkeypatch.setenv(API_KEY, "x.y.z")
        with pytest.raises(OSError, match=f"401.*is {API_KEY} set"):
            TaskPhotos(address)("/data/1")


def test_an_address_that_is_none_is_refused() -> None:
    for address in ("localhost:8080", "ftp://x", "http://", "http://x?y"):
        with pytest.raises(UserError, match="no address of a Label Studio"), client(label_studio=address):
            pass


@pytest.mark.parametrize(
    "config",
    [
        "",
        "no xml",
        "<View>",
        '<View><Image name="i" value="$i"/></View>',
        '<View><Text name="i" value="$i"/><Choices name="c" toName="i"/></View>',
        '<View><Image name="i" value="fixed.jpg"/><Choices name="c" toName="i"/></View>',
        '<!DOCTYPE a [<!ENTITY b "cccc"><!ENTITY d "&b;&b;">]><View>&d;</View>',
        "<a>" * 50_000,
    ],
)
def test_a_configuration_without_a_choice_about_an_image_is_refused(config: str) -> None:
    with pytest.raises(UserError, match="configuration"):
        question(config)


def test_the_first_choice_about_an_image_is_the_question() -> None:
    posed = question(
        '<View><Text name="t" value="$t"/><Choices name="a" toName="t"/><Image name="i" value="$pic"/>'
        '<Choices name="b" toName="i"><Choice value="x" alias="y"/></Choices></View>'
    )
    assert posed == ("b", "i", "pic", frozenset({"y"}))


def test_data_addresses_are_read() -> None:
    assert TaskPhotos()("data:image/png;base64,AAEC") == b"\x00\x01\x02"
    assert TaskPhotos()("data:,a%20b") == b"a b"
