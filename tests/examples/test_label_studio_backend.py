"""The example for Label Studio: one odd address costs its own task alone, and nothing else is asked for."""

import base64
import importlib.util
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fastapi.testclient import TestClient

from fewset import FewShotClassifier
from fewset.encoders import register_encoder
from tests.helpers.photos import CLASSES, TinyEncoder, photo
from tests.helpers.web import png

FILE = Path(__file__).parents[2] / "examples" / "label_studio_backend.py"
CONFIG = """<View><Image name="picture" value="$photo"/>
  <Choices name="material" toName="picture"><Choice value="grass"/></Choices></View>"""
GRASS = "data:image/png;base64," + base64.b64encode(png("grass", 50)).decode()


@pytest.fixture
def backend() -> ModuleType:
    spec = importlib.util.spec_from_file_location("label_studio_backend", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def opened(backend: ModuleType, tmp_path: Path) -> Iterator[TestClient]:
    register_encoder("tiny")(lambda *_: TinyEncoder())
    photos = [(label, seed) for label in CLASSES for seed in range(4)]
    classifier = FewShotClassifier("tiny").fit(
        [photo(*each) for each in photos], [each for each, _ in photos]
    )
    classifier.save(tmp_path / "my.fewset")
    with TestClient(backend.application(tmp_path / "my.fewset")) as client:
        yield client


@contextmanager
def served(handler: Any) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def asked(backend: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str | None]]]:
    """What a Label Studio with photos at every address is asked for."""
    found: list[tuple[str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.append((self.path, self.headers["Authorization"]))
            self.send_response(302 if self.path == "/data/away" else 200)
            self.send_header("Location", "/data/photo.png")
            self.end_headers()
            self.wfile.write(png("grass", 50))

        def do_POST(self) -> None:
            found.append((self.path, None))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"access": "short"}')

        def log_message(self, *_: Any) -> None: ...

    monkeypatch.setattr(backend, "KEY", "k3y")
    with served(Handler) as address:
        monkeypatch.setattr(backend, "STUDIO", address)
        yield found


def predicted(client: TestClient, *places: Any) -> list[dict[str, Any]]:
    tasks = [{"id": number, "data": {"photo": place}} for number, place in enumerate(places)]
    answer = client.post("/predict", json={"tasks": tasks, "label_config": CONFIG, "project": "3.17"})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["results"])


def test_predictions_have_the_shape_that_label_studio_imports(opened: TestClient) -> None:
    assert opened.get("/health").json()["status"] == "UP"
    version = opened.post("/setup", json={"project": "3.17", "schema": CONFIG}).json()["model_version"]
    (result,) = predicted(opened, GRASS)
    chosen = {"from_name": "material", "to_name": "picture", "type": "choices", "score": result["score"]}
    chosen["value"] = {"choices": ["grass"]}
    assert result == {"result": [chosen], "score": result["score"], "model_version": version}


def test_odd_addresses_are_quoted(opened: TestClient, asked: list[Any]) -> None:
    places = {
        "/data/my photo.jpg": "/data/my%20photo.jpg",
        "/data/my%20photo.jpg": "/data/my%20photo.jpg",
        "/data/grün.jpg": "/data/gr%C3%BCn.jpg",
        "/data/a\r\nb.jpg": "/data/ab.jpg",
        "/data/local-files/?d=my folder/ü.jpg": "/data/local-files/?d=my%20folder/%C3%BC.jpg",
    }
    results = predicted(opened, *places, GRASS)
    assert all(each["result"][0]["value"] == {"choices": ["grass"]} for each in results)
    assert asked == [(path, "Token k3y") for path in places.values()]


def test_nothing_but_photos_of_label_studio_is_asked_for(
    backend: ModuleType, opened: TestClient, asked: list[Any]
) -> None:
    address = backend.STUDIO.rstrip("/")
    places = [
        "/data/%2e%2e/api/token",
        "/data/../api/token",
        "/api/users",
        f"{address}@evil.example/data/x",
        "//evil.example/data/x",
        "file:///etc/passwd",
        "data:image/png;base64,!!!",
        "http://[",
        None,
    ]
    *bad, good = predicted(opened, *places, GRASS)
    assert all(each["result"] == [] and each["problem"] for each in bad)
    assert good["result"]
    assert asked == []
    assert predicted(opened, "/data/away")[0]["problem"]  # a redirect
    assert [path for path, _ in asked] == ["/data/away"]


def test_a_personal_access_token_is_exchanged(
    backend: ModuleType, opened: TestClient, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "KEY", "a.b.c")
    assert predicted(opened, "/data/photo.png")[0]["result"]
    assert asked == [("/api/token/refresh/", None), ("/data/photo.png", "Bearer short")]


@pytest.mark.parametrize("sent", [b"GARBAGE\r\n\r\n", b""])
def test_a_broken_answer_is_the_problem_of_one_task(
    backend: ModuleType, opened: TestClient, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(sent)

    with served(Handler) as address:
        monkeypatch.setattr(backend, "STUDIO", address)
        bad, good = predicted(opened, "/data/photo.png", GRASS)
    assert bad["problem"]
    assert good["result"]


def test_odd_configurations_are_rejected(opened: TestClient) -> None:
    for config in ("no xml", "<View/>", '<View><Image name="i"/><Choices toName="i"/></View>'):
        assert opened.post("/setup", json={"schema": config}).status_code == 400
