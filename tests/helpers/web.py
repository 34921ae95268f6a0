"""The application of `fewset serve` without a network, on an encoder that takes no time."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastapi.testclient import TestClient

from fewset.classify.model import EncoderStamp
from fewset.classify.serve.embedding_queue import EmbeddingQueue
from fewset.classify.serve.server import application
from fewset.classify.serve.workbench import Workbench
from tests.helpers.photos import CLASSES, TinyEncoder, photo

TINY = TinyEncoder()
STAMP = EncoderStamp(TINY.id, TINY.digest)


def png(label: str, seed: int) -> bytes:
    buffer = io.BytesIO()
    photo(label, seed).save(buffer, "PNG")
    return buffer.getvalue()


def files(label: str, *seeds: int) -> list[tuple[str, tuple[str, bytes]]]:
    """Photos of a class, as a form has them."""
    return [("photos", (f"{label} {seed}.png", png(label, seed))) for seed in seeds]


@contextmanager
def client(
    queue: EmbeddingQueue | None = None, bench: Workbench | None = None, **options: Any
) -> Iterator[TestClient]:
    """A client of a server that is empty, unless a workbench is given."""
    queue = queue or EmbeddingQueue(TINY)
    try:
        app = application(bench or Workbench(STAMP), queue, **options)
        with TestClient(app, base_url="http://localhost:8300") as opened:
            yield opened
    finally:
        queue.close()


def teach(opened: TestClient, shots: int = 4) -> None:
    """Give the server the photos of all classes."""
    for label in CLASSES:
        answer = opened.post("/api/photos", data={"label": label}, files=files(label, *range(shots)))
        assert answer.status_code == 200, answer.text
