"""The queue: every photo gets its own row, photos that wait are embedded together, and it has an end."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pytest
from PIL import Image

from fewset.classify.photos.rows import BATCH, photo_rows
from fewset.classify.photos.sources import Photo
from fewset.classify.serve.embedding_queue import EmbeddingQueue, QueueFull
from fewset.encoders import FEW
from tests.helpers.photos import TinyEncoder, photo


@dataclass(frozen=True)
class WaitingEncoder(TinyEncoder):
    """Begins when it is let, and notes how many images it was given."""

    gate: threading.Event = field(default_factory=threading.Event)
    batches: list[int] = field(default_factory=list)

    def __call__(self, images: Sequence[Image.Image]) -> np.ndarray:
        self.gate.wait(30)
        self.batches.append(len(images))
        return super().__call__(images)


def given(seed: int) -> Photo:
    return Photo(f"{seed}.png", partial(photo, "grass", seed))


def test_every_photo_gets_its_own_row() -> None:
    photos = [given(seed) for seed in range(71)]
    expected = list(photo_rows(photos, TinyEncoder(), thumbnails=True))
    queue = EmbeddingQueue(TinyEncoder())
    found = [row.result(30) for row in queue.submit(photos)]
    queue.close()
    for row, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(row.features, other.features)
        assert (row.name, row.thumbnail, row.fingerprint) == (other.name, other.thumbnail, other.fingerprint)
    assert queue.waiting == 0


def test_what_waits_is_embedded_together() -> None:
    encoder = WaitingEncoder()
    queue = EmbeddingQueue(encoder)
    rows = [queue.submit([given(seed)])[0] for seed in range(3 * BATCH)]
    threading.Timer(0.5, encoder.gate.set).start()
    for row in rows:
        row.result(30)
    queue.close()
    assert sum(encoder.batches) == 3 * BATCH
    assert max(encoder.batches) == BATCH
    assert len(encoder.batches) < 12


def test_an_encoder_for_several_threads_is_called_by_as_many() -> None:
    """With a few photos each; every photo still gets its own row, and all threads end."""

    @dataclass(frozen=True)
    class Threaded(TinyEncoder):
        threads: int = 3
        together: threading.Barrier = field(default_factory=lambda: threading.Barrier(3, timeout=30))
        batches: list[int] = field(default_factory=list)

        def __call__(self, images: Sequence[Image.Image]) -> np.ndarray:
            if len(self.batches) < 3:
                self.batches.append(len(images))
                self.together.wait()
            self.batches.append(len(images))
            return super().__call__(images)

    encoder, photos = Threaded(), [given(seed) for seed in range(41)]
    queue = EmbeddingQueue(encoder)
    found = [row.result(30) for row in queue.submit(photos)]
    queue.close()
    assert max(encoder.batches) <= FEW
    for row, expected in zip(found, photo_rows(photos, TinyEncoder()), strict=True):
        np.testing.assert_array_equal(row.features, expected.features)


def test_more_than_it_takes_is_refused_and_taken_later() -> None:
    encoder = WaitingEncoder()
    queue = EmbeddingQueue(encoder, most=5)
    rows = queue.submit([given(seed) for seed in range(4)])
    with pytest.raises(QueueFull, match="4 photos are waiting"):
        queue.submit([given(8), given(9)])
    encoder.gate.set()
    assert [row.result(30).name for row in rows] == ["0.png", "1.png", "2.png", "3.png"]
    assert len([row.result(30) for row in queue.submit([given(seed) for seed in range(5)])]) == 5
    queue.close()


def test_an_encoder_that_fails_does_not_end_the_queue() -> None:
    class Failing(TinyEncoder):
        fails = True

        def __call__(self, images: Sequence[Image.Image]) -> np.ndarray:
            if Failing.fails:
                raise RuntimeError("no memory")
            return super().__call__(images)

    queue = EmbeddingQueue(Failing())
    with pytest.raises(RuntimeError, match="no memory"):
        queue.submit([given(0)])[0].result(30)
    Failing.fails = False
    assert queue.submit([given(0)])[0].result(30).name == "0.png"
    assert queue.waiting == 0
    queue.close()
