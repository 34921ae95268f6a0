"""Photos from many requests become rows of features, several at once where several are waiting."""

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, Queue
from threading import Lock, Thread
from typing import NamedTuple

from PIL import Image

from fewset.classify.photos.rows import BATCH, PhotoRow, read_photo_for
from fewset.classify.photos.sources import Photo
from fewset.encoders import FEW, Encoder, ThreadedEncoder

MOST_WAITING = 2000
"""Photos that may wait. They wait as they came, mostly on the disk."""
MOST_DECODED = 2 * BATCH
"""Photos that are decoded and not yet embedded: these are in memory."""


class QueueFull(Exception):  # noqa: N818 - not an error: come again later
    """Too many photos are waiting."""


class _Decoded(NamedTuple):
    row: PhotoRow
    image: Image.Image
    result: "Future[PhotoRow]"


class EmbeddingQueue:
    """Photos are read and decoded in a few threads, while others embed the decoded ones.

    One thread embeds many photos at once; for an encoder with several threads, several embed a few each.
    """

    def __init__(self, encoder: Encoder, most: int = MOST_WAITING) -> None:
        self.encoder, self.most = encoder, most
        self.waiting = 0
        """Photos that were submitted and have no row yet."""
        self._counting = Lock()
        self._pool = ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="decode")
        self._decoded: Queue[_Decoded | None] = Queue(MOST_DECODED)
        # One thread more than the encoder has: it computes while another hands its rows out.
        threads = encoder.threads + 1 if isinstance(encoder, ThreadedEncoder) and encoder.threads > 1 else 1
        self._batch = BATCH if threads == 1 else FEW
        self._workers = [Thread(target=self._work, name="embed", daemon=True) for _ in range(threads)]
        for worker in self._workers:
            worker.start()

    def submit(self, photos: Sequence[Photo], thumbnails: bool = True) -> "list[Future[PhotoRow]]":
        """The rows to come, one a photo; what cannot be read is a row with its reason.

        Thumbnails and fingerprints are for photos that are kept.
        """
        with self._counting:
            if self.waiting + len(photos) > self.most:
                raise QueueFull(f"{self.waiting} photos are waiting, and no more than {self.most} may")
            self.waiting += len(photos)
        rows: list[Future[PhotoRow]] = [Future() for _ in photos]
        for photo, row in zip(photos, rows, strict=True):
            self._pool.submit(self._read, photo, row, thumbnails)
        return rows

    def close(self) -> None:
        """End the threads; what is still waiting is dropped."""
        self._pool.shutdown(cancel_futures=True)
        self._decoded.put(None)
        for worker in self._workers:
            worker.join()

    def _leave(self) -> None:
        """A photo waits no longer; called before its row is handed out, so that its owner may go on."""
        with self._counting:
            self.waiting -= 1

    def _read(self, photo: Photo, result: "Future[PhotoRow]", thumbnails: bool) -> None:
        if not result.set_running_or_notify_cancel():
            self._leave()  # the client is gone
            return
        try:
            row, image = read_photo_for(self.encoder, photo, thumbnails)
        except Exception as error:
            self._leave()
            result.set_exception(error)
            return
        if image is None:
            self._leave()
            result.set_result(row)
        else:
            self._decoded.put(_Decoded(row, image, result))

    def _work(self) -> None:
        """Embed until the end, which stays in the queue for the other threads."""
        while (first := self._decoded.get()) is not None:
            batch = [first, *self._more(self._batch - 1)]
            try:
                embedded = list(self.encoder([each.image for each in batch]))
            except Exception as error:
                for decoded in batch:
                    self._leave()
                    decoded.result.set_exception(error)
                continue
            for decoded, features in zip(batch, embedded, strict=True):
                self._leave()
                decoded.result.set_result(decoded.row._replace(features=features))
        self._decoded.put(None)

    def _more(self, count: int) -> list[_Decoded]:
        """The decoded photos that are waiting right now, at most `count`."""
        found: list[_Decoded] = []
        with suppress(Empty):
            while len(found) < count and (decoded := self._decoded.get_nowait()):
                found.append(decoded)
            if len(found) < count:
                self._decoded.put(None)  # the end, for the loop to see
        return found
