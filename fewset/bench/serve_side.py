"""The side of `fewset bench serve`: a server in a process of its own, and clients that ask it all at once."""

import atexit
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import numpy as np

from fewset.bench.photo_sides import write_photographs
from fewset.bench.workers import Repetition
from fewset.classify.classifier import FewShotClassifier
from fewset.runtime.machine import peak_memory

_BOUNDARY = "fewset-bench"
_NEW = (640, 480)
_KINDS = 40  # different new photos, which are asked about again and again
_TOLERANCE = 1e-4  # of a probability: photos are embedded with whatever others are waiting
_SECONDS = 600.0  # that an answer may take
_IDLE = 1.0  # seconds after which the server may have closed a connection

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Photograph(NamedTuple):
    name: str
    label: str
    content: bytes


class Serve:
    """Large photos are uploaded all at once, then new ones are classified by many clients at a time.

    Each repetition begins with an empty page. None may be lost, and every answer is compared with what the
    downloaded classifier says of the same photo.
    """

    def __init__(
        self, device: str, uploads: int, width: int, height: int, requests: int, clients: int
    ) -> None:
        self.requests, self.clients = requests, clients
        with tempfile.TemporaryDirectory() as scratch:
            self.given = _photographs(Path(scratch) / "given", uploads, width, height)
            self.new = _photographs(Path(scratch) / "new", _KINDS, *_NEW)
        self.server = _Server(device)
        self.memory = self.server.peak_memory()

    def __call__(self) -> Repetition:
        for each in self.server.ask("GET", "/api/state")["classes"]:
            self.server.ask("POST", "/api/classes/remove", json.dumps({"name": each["name"]}).encode())
        began = time.perf_counter()
        _at_once(self._upload, self.given, len(self.given))
        uploaded = time.perf_counter() - began
        self._check_photos()
        asked = [self.new[number % len(self.new)] for number in range(self.requests)]
        began = time.perf_counter()
        answers = _at_once(self._classify, asked, self.clients)
        seconds = time.perf_counter() - began
        taken = [latency for _, latency in answers]
        return {
            "seconds": seconds,
            "images": self.requests,
            "upload_seconds": uploaded,
            "median_seconds": float(np.median(taken)),
            "p99_seconds": float(np.quantile(taken, 0.99)),
            "largest_difference": self._check_answers([answer for answer, _ in answers]),
            "page_seconds": self.server.page_seconds,
            "server_memory": self.server.peak_memory(),
            "server_memory_before": self.memory,
            "upload_bytes": float(np.mean([len(each.content) for each in self.given])),
        }

    def _upload(self, photo: Photograph) -> None:
        added = self.server.ask("POST", "/api/photos", _form(photo, label=photo.label))
        if [each["name"] for each in added["photos"]] != [photo.name]:
            raise RuntimeError(f"the upload of {photo.name} gave {added}: a defect, report it")

    def _classify(self, photo: Photograph) -> tuple[dict[str, Any], float]:
        began = time.perf_counter()
        (answer,) = self.server.ask("POST", "/api/classify", _form(photo))["answers"]
        if answer["name"] != photo.name:
            raise RuntimeError(f"asked of {photo.name}, answered of {answer['name']}: a defect, report it")
        return answer, time.perf_counter() - began

    def _check_photos(self) -> None:
        """Whether every photo that was uploaded is in its class, once."""
        there = sorted(
            (own["name"], photo["name"])
            for own in self.server.ask("GET", "/api/state")["classes"]
            for photo in own["photos"]
        )
        if there != sorted((photo.label, photo.name) for photo in self.given):
            raise RuntimeError(f"{len(self.given)} photos were uploaded, {len(there)} are there: a defect")

    def _check_answers(self, answers: Sequence[dict[str, Any]]) -> float:
        """The largest difference between a probability and that of the downloaded classifier."""
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch) / "my.fewset"
            file.write_bytes(self.server.download("/api/downloads/classifier"))
            photos = Path(scratch) / "new"
            photos.mkdir()
            for photo in self.new:
                (photos / photo.name).write_bytes(photo.content)
            classifier = FewShotClassifier.load(file)
            expected = {
                photo.name: said
                for photo, said in zip(
                    self.new,
                    classifier.answers([str(photos / photo.name) for photo in self.new]),
                    strict=True,
                )
            }
        differences = [0.0]
        for answer in answers:
            said = expected[answer["name"]]
            difference = abs(answer["probability"] - said.probability)
            likeliest = [
                label for label, probability in said.top if said.probability - probability < _TOLERANCE
            ]
            if answer["top"][0]["label"] not in likeliest or not difference < _TOLERANCE:
                raise RuntimeError(f"the server says {answer}, `predict` {said}: a defect, report it")
            differences.append(difference)
        return max(differences)


class _Server:
    """`fewset serve` as a user starts it; it ends with this process."""

    def __init__(self, device: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fewset", "serve", "--port", "0", "--device", device],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"FEWSET_TUNE": "1"},
        )
        atexit.register(self._stop)
        if self.process.stdout is None:
            raise AssertionError("there is a pipe")
        found = re.search(r"http://\S+", self.process.stdout.readline())
        if found is None:
            raise RuntimeError("`fewset serve` ended; its own message is above")
        ready = time.perf_counter()  # the encoder is loaded, the server begins
        self.host = urlsplit(found[0]).netloc
        self._connections = threading.local()
        self._open_page()
        self.page_seconds = time.perf_counter() - ready

    def _stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait()

    def _open_page(self) -> None:
        """Get what a browser gets: the page, its files and what they import, and how things stand."""
        files = re.findall(r'(?:href|src)="(/static/[^"]+)"', self.download("/").decode())
        for file in files:  # which grows
            imported = re.findall(r'from "\./([^"]+)"', self.download(file).decode())
            files += [f"/static/{name}" for name in imported if f"/static/{name}" not in files]
        self.ask("GET", "/api/state")

    def ask(self, method: str, address: str, body: bytes | None = None) -> Any:
        answer = self._request(method, address, body)
        return json.loads(answer) if answer else None

    def download(self, address: str) -> bytes:
        return self._request("GET", address, None)

    def peak_memory(self) -> int:
        return peak_memory(self.process.pid)

    def _request(self, method: str, address: str, body: bytes | None) -> bytes:
        """One after another on a connection that each thread keeps, as long as it is not idle."""
        kept = self._connections
        if time.monotonic() > getattr(kept, "until", 0.0):
            kept.connection = HTTPConnection(self.host, timeout=_SECONDS)
        is_form = (body or b"").startswith(b"--")
        kind = f"multipart/form-data; boundary={_BOUNDARY}" if is_form else "application/json"
        kept.connection.request(method, address, body, {"content-type": kind} if body else {})
        response = kept.connection.getresponse()
        answer: bytes = response.read()
        kept.until = time.monotonic() + _IDLE
        if response.status >= 300:
            raise RuntimeError(f"{method} {address}: {response.status} {answer.decode(errors='replace')}")
        return answer


def _photographs(folder: Path, count: int, width: int, height: int) -> list[Photograph]:
    write_photographs(folder, count, width, height)
    return [
        Photograph(file.name, file.parent.name, file.read_bytes()) for file in sorted(folder.rglob("*.jpg"))
    ]


def _at_once(ask: Callable[[Item], Answer], items: Sequence[Item], clients: int) -> list[Answer]:
    """What so many clients at a time are answered, in the order of the items."""
    with ThreadPoolExecutor(clients) as pool:
        return list(pool.map(ask, items))


def _form(photo: Photograph, **fields: str) -> bytes:
    lines = [
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    lines.append(
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="photos"; filename="{photo.name}"\r\n'
        "Content-Type: image/jpeg\r\n\r\n"
    )
    return "".join(lines).encode() + photo.content + f"\r\n--{_BOUNDARY}--\r\n".encode()
