"""Photos of one occasion are found by their times, cameras, names and likeness, and left out together."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pillow_heif
import pytest
from PIL import Image

from fewset.classify.card import summary
from fewset.classify.classifier import FewShotClassifier
from fewset.classify.photos.rows import read_photo_for
from fewset.classify.photos.sources import Photo, read_photo
from fewset.classify.photos.support import Support, support_of_rows
from fewset.classify.photos.taken import parsed, time_and_camera
from fewset.classify.serve.album import photo_rows_of
from fewset.classify.trust.calibration import left_out_interval
from fewset.classify.trust.occasions import numbered_occasions
from tests.helpers.photos import CLASSES, TinyEncoder, photo

START = datetime(2024, 5, 13, 14, 22, 33)


def exif(time: str, camera: str = "EOS 80D") -> Image.Exif:
    found = Image.Exif()
    found[0x010F], found[0x0110] = "Canon", camera
    found.get_ifd(0x8769)[0x9003] = time
    return found


def write_taken(file: Path, image: Image.Image, time: datetime, camera: str = "EOS 80D") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    image.save(file, exif=exif(f"{time:%Y:%m:%d %H:%M:%S}", camera), quality=95)


def named(*names: str, taken: tuple[str, ...] | None = None) -> list[int]:
    """The occasions of photos that are unlike each other."""
    count = len(names)
    support = support_of_rows(np.eye(count, dtype=np.float32), np.arange(count) % 2)
    support = replace(support, names=names, taken=taken or ("",) * count)
    return numbered_occasions(support, np.eye(count), np.arange(count)).tolist()


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "heic"])
def test_the_time_and_the_camera_are_read_where_the_photo_is_decoded(tmp_path: Path, suffix: str) -> None:
    pillow_heif.register_heif_opener()
    file = tmp_path / f"photo.{suffix}"
    write_taken(file, photo("grass", 0).resize((400, 300)), START)
    row, _ = read_photo_for(TinyEncoder(), Photo(file.name, lambda: read_photo(file)), thumbnails=True)
    assert row.taken == "2024-05-13 14:22:33 Canon EOS 80D"
    assert parsed(row.taken) == (START, "Canon EOS 80D")


@pytest.mark.parametrize("time", ["0000:00:00 00:00:00", "yesterday", "", "2024:13:41 14:22:33"])
def test_photos_without_a_time_have_none(time: str) -> None:
    image = photo("grass", 0)
    image.info["exif"] = exif(time).tobytes()
    assert time_and_camera(image) == ""
    image.info["exif"] = b"Exif\x00\x00broken"
    assert time_and_camera(image) == ""
    assert parsed("") is None


def test_a_camera_goes_on_until_there_is_a_break() -> None:
    minutes = [0, 9, 18, 29, 500]
    taken = tuple(f"{START + timedelta(minutes=each)} Canon" for each in minutes)
    assert named(*"edcba", taken=taken) == [0, 0, 0, 1, 2]
    assert named(*"abcde", taken=(*taken[:2], f"{START} Nikon", "", "")) == [0, 0, 1, 2, 3]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["IMG_0001.JPG", "b/IMG_0002.JPG", "IMG_0004.JPG", "IMG_0007.JPG", "DSC_0008.JPG"], [0, 0, 0, 1, 2]),
        (
            ["P1010001.JPG", "P1010002.JPG", "IMG-20240513-WA0003.jpg", "IMG-20240513-WA0004.JPG"],
            [0, 0, 1, 1],
        ),
        (["PXL_20240513_142233123.jpg", "IMG_20240513_143000.jpg", "IMG_20240514_143000.jpg"], [0, 0, 1]),
        (["WhatsApp Image 2024-05-13 at 14.22.33.jpeg", "2024-05-13 14.25.00.jpg"], [0, 0]),
        (["a/film_frame_001.png", "a/film_frame_900.png", "b/film_frame_002.png"], [0, 0, 1]),
        (["n02691156_10151-1.png", "n02691156_10151-2.png", "n02691156_10153-1.png"], [0, 0, 1]),
        ([f"IMG_1234_jpg.rf.{'0a' * 16}.jpg", f"IMG_1234_jpg.rf.{'1b' * 16}.jpg"], [0, 0]),
        (["IMG_1234 (1).jpg", "IMG_1234 (2).jpg", "IMG_1234-edited.jpg"], [0, 0, 0]),
        # Users and data sets count from 1 on, and years are no numbers of photos.
        (["1.jpg", "2.jpg", "owl-1.jpg", "owl-2.jpg", "owl (1).jpg", "owl (2).jpg"], [0, 1, 2, 3, 4, 5]),
        (["n0153282900000005.jpg", "n0153282900000006.jpg", "img_0001.jpg", "img_0002.jpg"], [0, 1, 2, 3]),
        (["Sparrow_0078_129041.jpg", "Sparrow_0079_129042.jpg"], [0, 1]),
        (["owl 2024-05.jpg", "owl 2024-06.jpg", "20249913_142233.jpg", "20249913_142234.jpg"], [0, 1, 2, 3]),
    ],
)
def test_names_that_cameras_and_programs_give(names: list[str], expected: list[int]) -> None:
    assert named(*names) == expected


def test_near_copies_are_of_one_occasion() -> None:
    rows = np.eye(5)
    rows[1] = rows[0] + 0.1 * rows[1]
    prints = np.array([1, 1 + 2**12 - 2, 2**20 - 1, 2**40 - 1, 2**60 - 1], dtype=np.uint64)  # 12 bits apart
    support = support_of_rows(rows.astype(np.float32), np.array([0, 0, 1, 1, 1]))
    found = numbered_occasions(replace(support, fingerprints=prints), rows, np.arange(5))
    assert found.tolist() == [0, 0, 1, 2, 3]


def taken_photos(folder: Path, occasions: int, each: int = 3) -> Path:
    """Photos of each class on so many days."""
    for number, label in enumerate(CLASSES):
        for shot in range(occasions * each):
            time = START + timedelta(days=10 * number + shot // each, minutes=shot)
            write_taken(folder / label / f"{shot}.jpg", photo(label, shot), time)
    return folder


def test_occasions_are_left_out_as_groups_are(tmp_path: Path) -> None:
    folder = taken_photos(tmp_path, occasions=2)
    learned = FewShotClassifier(TinyEncoder()).fit(folder).learned_
    trust, days = learned.trust, [f"{label} {shot // 3}" for label in sorted(CLASSES) for shot in range(6)]
    assert (trust.occasions, trust.groups, trust.tested, trust.left) == (6, 6, 18, 0.5)
    assert not trust.one_occasion
    assert trust.interval == left_out_interval(trust.right, 18, 6, 0.5)
    assert "Expected accuracy on a new occasion: " in trust.in_words
    assert "leave-one-occasion-out on 18 photos of 6 occasions" in trust.in_words
    assert "your 18 photos come from 6 occasions" in summary(learned)[1]
    given = FewShotClassifier(TinyEncoder()).fit(folder, groups=days).trust_  # what the user says counts
    assert (given.occasions, given.tested) == (None, 0)  # of groups, a class needs 3
    alone = FewShotClassifier(TinyEncoder()).fit(folder, groups=np.arange(18)).trust_
    assert (alone.occasions, alone.groups, alone.tested) == (None, 18, 18)


def test_one_occasion_a_class_is_a_warning_and_a_wider_interval(tmp_path: Path) -> None:
    learned = FewShotClassifier(TinyEncoder()).fit(taken_photos(tmp_path, occasions=1, each=5)).learned_
    trust = learned.trust
    assert (trust.occasions, trust.one_occasion, trust.tested) == (3, True, 15)
    same = left_out_interval(trust.right, 15, left=0.8)
    assert trust.same_occasions == same
    assert trust.interval is not None
    assert trust.interval.low < same.low - 0.2
    assert "which is less certain than on the same occasions" in trust.in_words
    assert "warning: most classes have one occasion only" in summary(learned)[1]
    without = replace(learned.support, taken=("",) * 15)
    plain = FewShotClassifier(TinyEncoder())._learn(without, learned.encoder).trust_
    assert plain.interval == same
    assert plain.occasions is None
    assert trust.temperature == pytest.approx(2 * plain.temperature)


def test_times_stay_with_the_photos(tmp_path: Path) -> None:
    fitted = FewShotClassifier(TinyEncoder()).fit(taken_photos(tmp_path / "photos", occasions=2))
    fitted.save(tmp_path / "my.fewset")
    loaded = FewShotClassifier.load(tmp_path / "my.fewset", encoder=TinyEncoder())
    assert loaded.learned_.support.taken == fitted.learned_.support.taken
    assert loaded.trust_ == fitted.trust_
    fewer = loaded.remove_photo(0)
    assert fewer.learned_.support.taken == fitted.learned_.support.taken[1:]
    assert fewer.add([photo("grass", 30)], "grass").trust_.occasions == 7
    support: Support = fewer.learned_.support
    assert [row.taken for row in photo_rows_of(support)] == list(support.taken)
