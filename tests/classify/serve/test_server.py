"""The server on a real socket: many clients at once, slow ones, and the command that starts it."""

import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from math import isnan
from typing import Any

import httpx2
import pytest

from fewset import FewShotClassifier
from fewset.classify.serve import guard, server
from fewset.classify.serve.embedding_queue import EmbeddingQueue
from fewset.classify.serve.workbench import Workbench
from tests.helpers.browser import served
from tests.helpers.command_line import fail
from tests.helpers.photos import CLASSES, photo
from tests.helpers.web import STAMP, TINY, files


@contextmanager
def running(**options: Any) -> Iterator[int]:
    """A server in a thread; its port."""
    queue = EmbeddingQueue(TINY)
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    running = server.http_server(server.application(Workbench(STAMP), queue, **options))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        running.should_exit = True
        thread.join(30)
        queue.close()
        listening.close()


def test_many_at_once_lose_nothing_and_mix_nothing_up() -> None:
    """A hundred uploads at a time, then as many questions: each answer is that of its own photo."""
    given = [(label, seed) for label in CLASSES for seed in range(33)]
    new = [(label, seed) for label in CLASSES for seed in range(100, 134)]
    with running() as port, httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:

        def add(each: tuple[str, int]) -> int:
            return client.post("/api/photos", data={"label": each[0]}, files=files(*each)).status_code

        def classify(each: tuple[str, int]) -> Any:
            return client.post("/api/classify", files=files(*each)).json()["answers"][0]

        with ThreadPoolExecutor(100) as pool:
            assert set(pool.map(add, given)) == {200}
            shown = client.get("/api/state").json()["classes"]
            answers = list(pool.map(classify, new))
    # Leave-one-out goes by the order of the photos, which is that of their coming.
    came = sorted((each["number"], each["name"]) for own in shown for each in own["photos"])
    order = [name.removesuffix(".png").rpartition(" ") for _, name in came]
    assert sorted((label, int(seed)) for label, _, seed in order) == sorted(given)
    classifier = FewShotClassifier(TINY, reject="auto").fit(
        [photo(label, int(seed)) for label, _, seed in order], [label for label, *_ in order]
    )
    expected = classifier.answers([photo(*each) for each in new])
    for each, answer, other in zip(new, answers, expected, strict=True):
        assert answer["name"] == f"{each[0]} {each[1]}.png"
        assert answer["label"] == other.top[0][0]
        sure = None if isnan(other.probability) else pytest.approx(other.probability, abs=1e-12)
        assert answer["probability"] == sure


def received(sent: bytes, port: int) -> bytes:
    """What comes back until the server closes the connection."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection, suppress(ConnectionError):
        connection.sendall(sent)
        while part := connection.recv(65536):
            found += part
    return found


@pytest.mark.parametrize(
    "sent",
    [
        b"GARBAGE\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n",
        b"POST /api/undo HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused(sent: bytes) -> None:
    with running() as port:
        assert received(sent, port).startswith(b"HTTP/1.1 4")
        assert httpx2.get(f"http://127.0.0.1:{port}/api/state").status_code == 200


@pytest.mark.parametrize(
    ("kind", "length"), [("multipart/form-data; boundary=x", 2**28 + 1), ("application/json", 2**20 + 1)]
)
def test_an_announced_flood_is_refused_before_it_comes(kind: str, length: int) -> None:
    head = f"POST /api/photos HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
    with running() as port:
        answer = received(f"{head}Content-Length: {length}\r\n\r\n".encode(), port)
        assert answer.startswith(b"HTTP/1.1 413")


def test_connections_without_a_request_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_IDLE_SECONDS", 0.1)
    with running() as port, socket.create_connection(("127.0.0.1", port), timeout=30) as idle:
        assert idle.recv(1) == b""


def test_a_flood_that_was_not_announced_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MOST_BYTES", 1000)
    parts = iter([b'--x\r\nContent-Disposition: form-data; name="label"\r\n\r\n', *[b"a" * 100] * 100])
    kind = {"content-type": "multipart/form-data; boundary=x"}
    with running() as port:
        answer = httpx2.post(f"http://127.0.0.1:{port}/api/photos", content=parts, headers=kind)
        assert answer.status_code == 413


@pytest.mark.slow  # starts a server
def test_the_command_prints_a_token_where_others_may_come() -> None:
    with served("--host", "0.0.0.0") as address:
        base, _, token = address.partition("?token=")
        port = int(base.rstrip("/").rpartition(":")[2])
        assert len(token) >= 32
        local = f"http://127.0.0.1:{port}"
        assert httpx2.get(f"{local}/").status_code == 401
        assert (
            httpx2.get(f"{local}/api/state", headers={"authorization": f"Bearer {token}"}).status_code == 200
        )
        named = {"authorization": f"Bearer {token}", "host": base.removeprefix("http://").rstrip("/")}
        assert httpx2.get(f"{local}/api/state", headers=named).status_code == 200
        with httpx2.Client(follow_redirects=True) as client:
            answer = client.get(f"{local}/?token={token}")
            assert (answer.status_code, str(answer.url)) == (200, f"{local}/")
            assert client.get(f"{local}/api/state").json()["encoder"] == "efficientnet-lite0"


def test_what_cannot_be_started_is_said_on_one_line(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "there is no file" in fail("serve", tmp_path / "none.fewset")
    (tmp_path / "bad.fewset").write_bytes(b"x" * 100)
    assert "not a usable classifier" in fail("serve", tmp_path / "bad.fewset")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"--port {port + 1}" in fail("serve", "--port", port)
    assert "cannot listen" in fail("serve", "--host", "no.such.host.invalid")
    assert "cannot listen" in fail("serve", "--host", 300 * "x")
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert "pip install 'fewset[web]'" in fail("serve")
