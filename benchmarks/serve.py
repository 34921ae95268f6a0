"""The server of `fewset serve` under concurrent load, against the throughput of its encoder alone."""

import atexit
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from benchmarks.clients import Reply, ask_all, request
from fewset.bench.measuring import Measuring, Record, measure_sides, median_of, time_ratio
from fewset.bench.photo_sides import Rows, write_photographs
from fewset.bench.workers import Repetition, Side
from fewset.classify.classifier import FewShotClassifier
from fewset.classify.photos.rows import photo_rows
from fewset.classify.photos.sources import Photo
from fewset.compute.device_names import find_device
from fewset.compute.machine import peak_memory
from fewset.core.extras import import_extra
from fewset.encoders import DEFAULT
from fewset.encoders.efficientnet_lite import load_efficientnet_lite

NEW = (40, 640, 480)
"""How many new photos there are, and their width and height in pixels."""
_BOUNDARY = "fewset-bench"
_TOLERANCE = 1e-4  # of a probability: a photo is embedded in a batch with those that wait


class Photograph(NamedTuple):
    name: str
    label: str
    content: bytes


def made_photographs(count: int, width: int, height: int) -> list[Photograph]:
    """JPEG files of five classes, made up, in memory."""
    with tempfile.TemporaryDirectory() as scratch:
        write_photographs(Path(scratch), count, width, height)
        return [
            Photograph(file.name, file.parent.name, file.read_bytes())
            for file in sorted(Path(scratch).rglob("*.jpg"))
        ]


def measure_serve(
    setup: Measuring,
    *,
    uploads: int = 100,
    width: int = 4000,
    height: int = 3000,
    requests: int = 1000,
    clients: int = 64,
) -> Record:
    """A server under load against its own encoder: all uploads at once, then many clients that ask.

    The encoder by itself is given the same photos, once as files and once as pixels of its size. Each side
    computes with all cores; those of the server are shared with its clients.
    """
    for module in ("fastapi", "uvicorn", "python_multipart"):
        import_extra(module, "web")
    device = find_device(setup.device)
    load = {"uploads": uploads, "width": width, "height": height, "requests": requests, "clients": clients}
    alone = {"device": device, "images": requests}
    (served, *encoded), record = measure_sides(
        setup,
        {
            f"answers to {clients} clients": Side(Serve, {"device": device, **load}),
            "the encoder, the same files": Side(Photos, alone),
            "the encoder, pixels of its size": Side(Rows, {**alone, "engine": "default"}),
        },
    )
    memory = max(one["server_memory"] for one in served)
    record["sides"][0]["peak_memory"] = memory  # of the server, not of its clients
    record["part"], record["options"] = "serve", {"encoder": DEFAULT, "device": device, **load}
    record["ratios"] = [
        time_ratio(f"answers/s / images/s of the encoder, {given}", side, served)
        for given, side in zip(("the same files", "pixels of its size"), encoded, strict=True)
    ]
    record["facts"] = [
        f"{uploads} uploads at once of photos of {served[0]['upload_bytes'] / 1e6:.1f} MB take "
        f"{median_of(served, 'upload_seconds'):.1f} s; {requests:,} requests, {clients} concurrent: "
        f"{median_of(served):.1f} s; latency p50 {median_of(served, 'median_seconds'):.2f} s, "
        f"p99 {median_of(served, 'p99_seconds'):.2f} s",
        "no photo was lost, and every answer is that of `fewset predict`: probabilities differ by "
        f"{max(one['largest_difference'] for one in served):.0e} at most",
        f"the server took {memory / 2**20:,.0f} MiB at most, and "
        f"{served[0]['server_memory_before'] / 2**20:,.0f} MiB before the first photo",
        f"the page was there {served[0]['page_seconds']:.2f} s after the encoder was loaded",
    ]
    return record


class Photos:
    """JPEG files in memory to rows of features, by the encoder that users get: what `predict` does first."""

    def __init__(self, device: str, images: int) -> None:
        self.encoder = load_efficientnet_lite(DEFAULT, find_device(device))
        self.photos = [_in_memory(photo) for photo in islice(cycle(made_photographs(*NEW)), images)]

    def __call__(self) -> Repetition:
        began = time.perf_counter()
        rows = list(photo_rows(self.photos, self.encoder, thumbnails=False))
        return {"seconds": time.perf_counter() - began, "images": len(rows)}


def _in_memory(photo: Photograph) -> Photo:
    return Photo(photo.name, lambda: photo.content)


class Serve:
    """Large photos are uploaded all at once, then new ones are classified by many clients at a time.

    Each repetition begins with an empty page. None may be lost, and every answer is compared with what the
    downloaded classifier says of the same photo.
    """

    def __init__(
        self, device: str, uploads: int, width: int, height: int, requests: int, clients: int
    ) -> None:
        self.requests, self.clients = requests, clients
        self.given = made_photographs(uploads, width, height)
        self.new = made_photographs(*NEW)
        self.server = _Server(device)
        self.memory = self.server.peak_memory()

    def __call__(self) -> Repetition:
        for each in self.server.ask("GET", "/api/state")["classes"]:
            self.server.ask("POST", "/api/classes/remove", json.dumps({"name": each["name"]}).encode())
        uploads = [self.server.form("/api/photos", photo, label=photo.label) for photo in self.given]
        questions = [self.server.form("/api/classify", photo) for photo in self.new]
        began = time.perf_counter()
        added = ask_all(self.server.host, uploads, len(uploads))
        uploaded = time.perf_counter() - began
        self._check_uploads(added)
        began = time.perf_counter()
        replies = ask_all(self.server.host, list(islice(cycle(questions), self.requests)), self.clients)
        seconds = time.perf_counter() - began
        taken = [reply.seconds for reply in replies]
        return {
            "seconds": seconds,
            "images": len(replies),
            "upload_seconds": uploaded,
            "median_seconds": float(np.median(taken)),
            "p99_seconds": float(np.quantile(taken, 0.99)),
            "largest_difference": self._check_answers(replies),
            "page_seconds": self.server.page_seconds,
            "server_memory": self.server.peak_memory(),
            "server_memory_before": self.memory,
            "upload_bytes": float(np.mean([len(each.content) for each in self.given])),
        }

    def _check_uploads(self, added: Sequence[Reply]) -> None:
        """Whether every photo was taken, and is in its class, once."""
        for photo, reply in zip(self.given, added, strict=True):
            told = json.loads(reply.body)
            if [each["name"] for each in told["photos"]] != [photo.name]:
                raise RuntimeError(f"the upload of {photo.name} gave {told}: a defect, report it")
        there = sorted(
            (own["name"], photo["name"])
            for own in self.server.ask("GET", "/api/state")["classes"]
            for photo in own["photos"]
        )
        if there != sorted((photo.label, photo.name) for photo in self.given):
            raise RuntimeError(f"{len(self.given)} photos were uploaded, {len(there)} are there: a defect")

    def _check_answers(self, replies: Sequence[Reply]) -> float:
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
        for photo, reply in zip(cycle(self.new), replies, strict=False):
            (answer,) = json.loads(reply.body)["answers"]
            if answer["name"] != photo.name:
                raise RuntimeError(
                    f"asked of {photo.name}, answered of {answer['name']}: a defect, report it"
                )
            said = expected[photo.name]
            difference = abs(answer["top"][0][1] - said.top[0][1])
            likeliest = [
                label for label, probability in said.top if said.top[0][1] - probability < _TOLERANCE
            ]
            if answer["top"][0][0] not in likeliest or not difference < _TOLERANCE:
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

    def ask(self, method: str, address: str, body: bytes = b"") -> Any:
        answer = self._answer(request(self.host, method, address, body))
        return json.loads(answer) if answer else None

    def download(self, address: str) -> bytes:
        return self._answer(request(self.host, "GET", address))

    def form(self, address: str, photo: Photograph, **fields: str) -> bytes:
        """The request that sends a photo, as the form of a page does."""
        lines = [
            f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in fields.items()
        ]
        lines.append(
            f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="photos"; filename="{photo.name}"\r\n'
            "Content-Type: image/jpeg\r\n\r\n"
        )
        body = "".join(lines).encode() + photo.content + f"\r\n--{_BOUNDARY}--\r\n".encode()
        return request(self.host, "POST", address, body, f"multipart/form-data; boundary={_BOUNDARY}")

    def peak_memory(self) -> int:
        return peak_memory(self.process.pid)

    def _answer(self, asked: bytes) -> bytes:
        return ask_all(self.host, [asked], 1)[0].body
