"""What users have and type: parts of photos, films, standard output, arguments in another order."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from fewset.classify import embedding as transformer
from fewset.classify.classifier import FewShotClassifier
from fewset.classify.predict import run as predicting
from fewset.classify.predict.files import PartialAnswers
from fewset.encoders import register_encoder
from tests.helpers.command_line import fail, fewset, succeed
from tests.helpers.film import write_film
from tests.helpers.photos import CLASSES, TinyEncoder, photo, write_photos


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    register_encoder("tiny")(lambda device: TinyEncoder())  # noqa: ARG005
    monkeypatch.setattr(predicting, "CHUNK", 4)
    yield
    transformer._loaded.cache_clear()


@pytest.fixture
def classifier() -> Path:
    succeed("fit", write_photos(Path("photos"), 5), "-o", "my.fewset", "--encoder", "tiny")
    return Path("my.fewset")


@pytest.fixture
def collage() -> Path:
    """A photo with a part of each class, and a table that lists the parts."""
    whole = Image.new("RGB", (120, 32))
    lines = []
    for number, label in enumerate(CLASSES):
        whole.paste(photo(label, 70), (40 * number, 0))
        lines.append(f"collage.png;{40 * number};0;40;32;{label}")
    whole.save("collage.png")
    Path("parts.csv").write_text(
        "\n".join(["filename;x;y;width;height;class", *lines, "collage.png;;;;;brick"])
    )
    return Path("parts.csv")


@pytest.fixture
def film() -> Path:
    """Two seconds of each class, four frames a second."""
    shown = [photo(label, 70).resize((160, 128)) for label in CLASSES]
    return write_film(Path("films/film.mp4"), shown, rate=4, each=8)


def read(file: str | Path) -> list[dict[str, str]]:
    with Path(file).open(encoding="utf-8-sig", newline="") as lines:
        return list(csv.DictReader(lines))


def stop_after_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = PartialAnswers.append

    def append(answers: PartialAnswers, rows: object) -> None:
        usual(answers, rows)  # type: ignore[arg-type]
        monkeypatch.setattr(PartialAnswers, "append", usual)
        raise KeyboardInterrupt

    monkeypatch.setattr(PartialAnswers, "append", append)


# Parts of photos


def test_parts_of_a_photo_are_classified_apart(classifier: Path, collage: Path) -> None:
    succeed("predict", classifier, collage, "collage.png", "--csv", "a.csv")
    rows = read("a.csv")
    assert [row["file"] for row in rows] == [
        *(f"collage.png#xywh={40 * number},0,40,32" for number in range(3)),
        "collage.png",
    ]
    assert [row["class"] for row in rows][:3] == list(CLASSES)
    assert "cannot be moved; write --csv" in fail("predict", classifier, collage, "--move-to", "sorted")
    assert "cannot be linked; write --csv" in fail("predict", classifier, collage, "--link-to", "sorted")
    fitted = FewShotClassifier.load(classifier, encoder=TinyEncoder())
    assert fitted.predict("parts.csv")[:3].tolist() == list(CLASSES)


def test_parts_of_photos_teach_and_test(classifier: Path, collage: Path) -> None:
    assert "accuracy: " in succeed("score", classifier, collage)
    succeed("add", classifier, collage)
    support = FewShotClassifier.load(classifier, encoder=TinyEncoder()).learned_.support
    assert "collage.png#xywh=40,0,40,32" in support.names
    assert len(set(support.groups) - {""}) == 1  # parts of one photo are not independent


# Films


def test_frames_of_films(classifier: Path, film: Path) -> None:
    photo("grass", 9).save("films/1.png")
    (film.parent / "broken.mov").write_text("nonsense")
    succeed("predict", classifier, film, "--every", "0.5", "--csv", "a.csv")
    rows = read("a.csv")
    times = ("0", "0.5", "1", "1.5", "2", "2.5", "3", "3.5", "4", "4.5", "5", "5.5")
    assert [row["file"] for row in rows] == [f"films/film.mp4#t={time}" for time in times]
    assert [row["class"] for row in rows] == [label for label in CLASSES for _ in range(4)]
    succeed("predict", classifier, film.parent, "--every", "0.5", "--csv", "b.csv")
    photo_row, broken, *frames = read("b.csv")
    assert (photo_row["file"], photo_row["class"]) == ("films/1.png", "grass")
    assert broken["file"] == "films/broken.mov#t=0"
    assert "cannot be read" in broken["problem"]
    assert frames == rows


def test_films_need_every_and_are_never_moved(classifier: Path, film: Path) -> None:
    assert "is a film; give --every 1" in fail("predict", classifier, film)
    photo("grass", 9).save("films/1.png")
    with pytest.warns(UserWarning, match=r"films are ignored: 1 \(film\.mp4\)"):
        assert len(succeed("predict", classifier, film.parent).splitlines()) == 1
    message = fail("predict", classifier, film, "--every", "1", "--move-to", "sorted")
    assert "films/film.mp4#t=0 is a part of a file and cannot be moved" in message
    assert film.exists()


@pytest.mark.parametrize("what", ["parts.csv", "films/film.mp4"])
@pytest.mark.usefixtures("film", "collage")
def test_a_stopped_run_goes_on_within_a_film_or_a_table(
    what: str, classifier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["predict", classifier, what, "photos/brick"]
    words += ["--every", "0.5", "--csv"]
    succeed(*words, "a.csv")
    stop_after_a_chunk(monkeypatch)
    assert fewset(*words, "b.csv").exit_code == 130
    assert "give the command that began it" in fail(*words[:-3], "--every", "1", "--csv", "b.csv", "--resume")
    succeed(*words, "b.csv", "--resume")
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()


# Standard output, and tables for Excel


def test_answers_to_standard_output_are_those_of_the_files(classifier: Path) -> None:
    inbox = write_photos(Path("inbox"), 2, first=20)
    (inbox / "brick").rename(inbox / "brique rosée")
    succeed("predict", classifier, inbox, "--top", 2, "--csv", "a.csv", "--json", "a.json")
    printed = succeed("predict", classifier, inbox, "--top", 2, "--csv", "-")
    assert list(csv.DictReader(io.StringIO(printed))) == read("a.csv")
    assert json.loads(succeed("predict", classifier, inbox, "--top", 2, "--json", "-")) == json.loads(
        Path("a.json").read_text()
    )
    for more in (["--json", "b"], ["--move-to", "b"], ["--resume"]):
        assert "standard output takes one table" in fail("predict", classifier, inbox, "--csv", "-", *more)
    assert not Path("-").exists()


def test_only_a_table_that_is_not_ascii_has_the_mark_of_excel(classifier: Path) -> None:
    for name, marked in (("brick.png", False), ("brique rosée.png", True), ("می\u200cخواهم.png", True)):
        photo("brick", 9).save(name)
        succeed("predict", classifier, name, "--csv", "a.csv")
        assert Path("a.csv").read_bytes().startswith(b"\xef\xbb\xbf") == marked
        assert read("a.csv")[0]["file"] == name
        assert succeed("predict", classifier, name).startswith(f"{name}: brick")


# Names, folders and arguments


def test_classes_with_joiners_in_their_names() -> None:
    names = ["می\u200cخواهم", "👩\u200d🌾", "owl"]
    for name, label in zip(names, CLASSES, strict=True):
        write_photos(Path("drawn"), 3)
        Path(f"photos/{name}").parent.mkdir(exist_ok=True)
        Path(f"drawn/{label}").rename(f"photos/{name}")
    output = succeed("fit", "photos", "-o", "my.fewset", "--encoder", "tiny")
    assert "3 classes of 3 photos" in output
    assert all(name in succeed("info", "my.fewset") for name in names)
    succeed("predict", "my.fewset", f"photos/{names[0]}", "--move-to", "sorted")
    assert len(list(Path(f"sorted/{names[0]}").iterdir())) == 3


def test_nested_folders_are_fitted_as_the_option_says() -> None:
    for number in range(2):
        write_photos(Path(f"nested/{number}"), 3, first=3 * number)
    assert "whose names are equal; name the class" in fail("fit", "nested", "-o", "a", "--encoder", "tiny")
    words = ("fit", "nested", "-o", "my.fewset", "--encoder", "tiny", "--classes-from")
    assert "3 classes of 6 photos" in succeed(*words, "folder")
    assert "6 classes of 3 photos" in succeed(*words, "path")
    assert "2 classes of 9 photos" in succeed(*words, "top")


def test_arguments_in_the_wrong_order_are_understood(classifier: Path) -> None:
    expected = succeed("predict", classifier, "photos/brick", "photos/grass")
    assert succeed("predict", "photos/brick", classifier, "photos/grass") == expected
    assert succeed("predict", "photos/brick", "photos/grass", classifier) == expected


def test_the_command_that_is_meant_is_named(classifier: Path) -> None:
    assert "you want `fewset fit photos -o my.fewset`" in fail("train", "photos")
    assert "you want `fewset fit photos -o my.fewset`" in fail("pretrain", "photos")
    assert "you want `fewset add my.fewset PHOTOS`" in fail("fit", classifier, "-o", "other.fewset")
    message = fail("predict", "photos", "photos/brick")
    assert "photos is a folder, expected a classifier first; make one: fewset fit PHOTOS" in message
