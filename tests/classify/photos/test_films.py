"""Frames of films: which are taken, and that they are those that are shown."""

from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from fewset.classify.photos import films
from fewset.classify.photos.films import frame_times, frames
from fewset.io.reading import Damaged
from tests.helpers.film import write_film

BRIGHTNESS = [20 * number for number in range(12)]


@pytest.fixture
def film(tmp_path: Path) -> Path:
    """12 frames of growing brightness, a frame each quarter of a second."""
    return write_film(tmp_path / "film.mp4", [Image.new("RGB", (64, 48), (grey,) * 3) for grey in BRIGHTNESS])


def brightness(found: list[Image.Image]) -> list[int]:
    """Of each image, as one of `BRIGHTNESS`."""
    return [20 * round(float(np.asarray(image).mean()) / 20) for image in found]


@pytest.mark.parametrize(
    ("every", "expected"),
    [(1, [0, 1, 2]), (0.5, [0, 0.5, 1, 1.5, 2, 2.5]), (0.7, [0, 0.7, 1.4, 2.1, 2.8]), (9, [0])],
)
def test_a_frame_every_so_many_seconds(film: Path, every: float, expected: list[float]) -> None:
    times = frame_times(film, every)
    assert times == expected
    shown = [20 * int(4 * time + 1e-6) for time in times]
    assert brightness(list(frames(film, times, 16))) == shown
    # From any of them on, as a run that continues asks for them.
    assert brightness(list(frames(film, times[-2:], 16))) == shown[-2:]


def test_frames_far_apart_are_sought(film: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(films, "_FAR", 0.6)
    assert brightness(list(frames(film, [0, 0.25, 1.5, 2.75], 16))) == [0, 20, 120, 220]


def test_a_film_ends_where_its_frames_end(film: Path) -> None:
    assert len(list(frames(film, [0, 2.75, 3.5, 9], 16))) == 3  # the last one is held for a second


def test_a_large_frame_is_reduced_and_a_turned_one_is_upright(tmp_path: Path) -> None:
    halves = np.zeros((240, 320, 3), dtype=np.uint8)
    halves[:, :160] = 255
    path = write_film(tmp_path / "film.mp4", [Image.fromarray(halves)] * 4)
    (image,) = frames(path, [0], 30)
    assert image.size == (80, 60)
    turned = path.read_bytes()
    identity = b"".join(number.to_bytes(4, signed=True) for number in (65536, 0, 0, 0, 65536, 0))
    quarter = b"".join(number.to_bytes(4, signed=True) for number in (0, 65536, 0, -65536, 0, 0))
    start = turned.index(identity, turned.index(b"tkhd"))
    path.write_bytes(turned[:start] + quarter + turned[start + len(quarter) :])  # a quarter turn to the right
    (image,) = frames(path, [0], 30)
    assert image.size == (60, 80)
    grey = np.asarray(image.convert("L"))
    assert grey[:35].min() > 200  # what was left is above
    assert grey[45:].max() < 50


def test_a_film_without_a_length(film: Path, tmp_path: Path) -> None:
    """As browsers record it: a stream, which nobody knew the end of."""
    live = tmp_path / "live.mkv"
    with av.open(str(film)) as source, av.open(str(live), "w", options={"live": "1"}) as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(source.streams.video[0]):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    with av.open(str(live)) as opened:
        assert opened.duration is None
    assert frame_times(live, 0.5)[:5] == [0, 0.5, 1, 1.5, 2]


def test_what_is_no_film_has_a_reason(tmp_path: Path) -> None:
    (tmp_path / "film.mp4").write_bytes(b"nonsense" * 100)
    for read in (lambda path: frame_times(path, 1), lambda path: list(frames(path, [0], 16))):
        with pytest.raises(Damaged, match=r"film\.mp4 cannot be read \(.*Invalid data"):
            read(tmp_path / "film.mp4")
    with pytest.raises(FileNotFoundError):
        frame_times(tmp_path / "absent.mp4", 1)
