"""fit, predict and info as a user types them."""

import csv
import json
import pickle
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from PIL import Image

from fewset.classify import embedding as transformer
from fewset.classify.background import training as background_training
from fewset.classify.classifier import FewShotClassifier
from fewset.classify.labels import NONE_OF_THESE
from fewset.classify.photos.sources import State
from fewset.classify.predict import run as predicting
from fewset.classify.predict.answers import Row
from fewset.classify.predict.files import PartialAnswers
from fewset.cli import app as cli
from fewset.encoders import register_encoder
from tests.helpers.classifier_tasks import labelled_rows
from tests.helpers.command_line import fail, fewset, fewset_in_a_new_process, succeed
from tests.helpers.photos import CLASSES, PLUGIN, TinyEncoder, photo, write_photos
from tests.helpers.processes import succeed as torchrun


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty directory, and an encoder that is quick."""
    monkeypatch.chdir(tmp_path)
    register_encoder("tiny")(lambda device: TinyEncoder())  # noqa: ARG005
    monkeypatch.setattr(predicting, "CHUNK", 4)
    yield
    transformer._loaded.cache_clear()


@pytest.fixture
def photos() -> Path:
    return write_photos(Path("photos"), 5)


@pytest.fixture
def classifier(photos: Path) -> Path:
    succeed("fit", photos, "-o", "my.fewset", "--encoder", "tiny")
    return Path("my.fewset")


@pytest.fixture
def inbox() -> Path:
    """Photos of all classes, one of something else, and one that is none: 11 in all."""
    folder = write_photos(Path("inbox"), 3, first=20)
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 40, 3), dtype=np.uint8)).save(
        folder / "noise.png"
    )
    (folder / "broken.jpg").write_bytes(b"nonsense")
    return folder


def read(file: str | Path) -> list[dict[str, str]]:
    with Path(file).open(newline="") as lines:
        return list(csv.DictReader(lines))


def tree(folder: str | Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*") if not path.is_dir())


# fit and info


def test_fit_says_how_far_to_trust_it(photos: Path) -> None:
    photo("grass", 77).save(photos / "brick" / "wrong.png")
    photo("grass", 3).save(photos / "grass" / "again.png")
    (photos / "brick" / "broken.jpg").write_bytes(b"nonsense")
    output = succeed("fit", photos, "-o", "my.fewset", "--encoder", "tiny")
    assert "3 classes of 5 to 6 photos; encoder tiny" in output
    interval = r"\d+ to \d+ % \(95 % interval, leave-one-occasion-out on 16"  # two photos are nearly copies
    assert re.search(f"Expected accuracy on a new occasion: {interval}", output)
    assert re.search(r"1[45] of 16 photos right", output)
    assert "1 photo of brick taken for grass" in output
    assert "brick/wrong.png looks mislabelled: grass (" in output
    assert "copies of one photo: grass/3.png, grass/again.png" in output
    assert "another photo of" in output
    assert "photos left out: 1\n  brick/broken.jpg: not an image" in output
    trust = FewShotClassifier.load("my.fewset", encoder=TinyEncoder()).trust_
    assert trust.in_words in output
    assert trust.in_words in Path("my.fewset.md").read_text()
    assert "warning" not in output


@pytest.mark.parametrize("shots", [1, 2])
def test_with_one_or_two_photos_there_is_no_accuracy(shots: int, inbox: Path) -> None:
    output = succeed("fit", write_photos(Path("few"), shots), "-o", "my.fewset", "--encoder", "tiny")
    assert output.startswith("3 classes of 1 photo;" if shots == 1 else "3 classes of 2 photos;")
    assert "Expected accuracy on new photos: unknown" in output
    if shots == 1:
        assert "closeness" not in succeed("info", "my.fewset")
        answers = fewset("predict", "my.fewset", inbox, "--reject")
        assert "that takes two different photos of a class" in answers.stderr
        assert NONE_OF_THESE not in answers.stdout


def test_a_table_may_have_groups(photos: Path) -> None:
    """Two photos of a group, and the others for themselves."""
    files = sorted(photos.rglob("*.png"))
    rows = [f"{file},{file.parent.name},{'twins' if place < 2 else ''}" for place, file in enumerate(files)]
    Path("photos.csv").write_text("\n".join(["path,label,group", *rows]) + "\n")
    output = succeed("fit", "photos.csv", "-o", "other.fewset", "--encoder", "tiny")
    for shown in (output, succeed("info", "other.fewset")):
        assert f"leave-one-group-out on {len(files)} photos of {len(files) - 1} groups" in shown
    assert FewShotClassifier.load("other.fewset", encoder=TinyEncoder()).learned_.support.groups == (
        "twins",
        "twins",
        *([""] * (len(files) - 2)),
    )


def test_what_is_left_out_is_counted_and_named(classifier: Path, photos: Path) -> None:
    with zipfile.ZipFile("odd.zip", "w") as archive:
        for path in photos.rglob("*.png"):
            archive.write(path, path.relative_to(photos))
        for odd in ("../1.png", "/1.png", "C:\\1.png", "grass/no suffix"):
            archive.writestr(odd, (photos / "grass" / "0.png").read_bytes())
    with pytest.warns(UserWarning, match=r"odd\.zip: left out 4 images: .*no suffix"):
        succeed("fit", "odd.zip", "-o", "other.fewset", "--encoder", "tiny")
    with pytest.warns(UserWarning, match=r"left out 4 images"):
        assert len(succeed("predict", classifier, "odd.zip").splitlines()) == 15


def test_the_head_is_not_ignored(photos: Path) -> None:
    succeed("fit", photos, "-o", "my.fewset", "--encoder", "tiny", "--head", "centroid")
    assert "head centroid" in succeed("info", "my.fewset")
    assert "unknown classifier head" in fail("fit", photos, "-o", "a", "--encoder", "tiny", "--head", "round")


def test_the_background_is_compared_and_kept_in_the_file(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_training, "_STEPS", 3)
    for number in range(20):
        colour = np.random.default_rng(number).uniform(30, 220, size=3)
        Path(f"others/{number}").mkdir(parents=True)
        for shot in range(10):
            cells = np.random.default_rng([number, shot]).normal(colour, 40, size=(4, 5, 3)).clip(0, 255)
            image = Image.fromarray(cells.astype(np.uint8)).resize((40, 32), Image.Resampling.NEAREST)
            image.save(f"others/{number}/{shot}.png")
    output = succeed("fit", photos, "-o", "my.fewset", "--encoder", "tiny", "--background", "others")
    told = "background of 20 classes, 4 of them held out, 3-way 5-shot: FEAT"
    assert told in output
    assert told in succeed("info", "my.fewset")
    assert told in Path("my.fewset.md").read_text().replace("\\", "")
    message = fail("fit", photos, "-o", "a", "--encoder", "tiny", "--background", photos)
    assert "the background has 0 classes" in message


def test_info_lists_the_classes(classifier: Path) -> None:
    output = succeed("info", classifier)
    for label in CLASSES:
        assert f"│ {label:8} │ 5      │" in output
    assert "encoder tiny" in output
    assert f"digest of the encoder: {TinyEncoder().digest}" in output
    learned = FewShotClassifier.load(classifier, encoder=TinyEncoder()).learned_
    assert learned.trust.in_words in output
    assert f"its closeness is below {learned.threshold(0.05):.3f}" in output


# predict


def test_predict_prints_a_line_a_photo(classifier: Path, inbox: Path) -> None:
    lines = succeed("predict", classifier, inbox, "--reject").splitlines()
    assert len(lines) == 11
    (line,) = (line for line in lines if line.startswith("inbox/grass/20.png: "))
    assert line.startswith("inbox/grass/20.png: grass ")
    assert ", nearest grass/" in line
    assert "inbox/broken.jpg: cannot be read: not an image of a known format" in "\n".join(lines)
    assert any(line.startswith(f"inbox/noise.png: {NONE_OF_THESE}, nearest ") for line in lines)
    assert not any(NONE_OF_THESE in line for line in succeed("predict", classifier, inbox).splitlines())


def test_answers_in_files_are_those_of_the_classifier(classifier: Path, inbox: Path) -> None:
    output = succeed("predict", classifier, inbox, "--top", 2, "--csv", "a.csv", "--json", "a.json")
    assert "│ grass " in output
    assert "photos that could not be read: 1\n  inbox/broken.jpg: not an image" in output
    fitted = FewShotClassifier.load(classifier, encoder=TinyEncoder())
    rows, objects = read("a.csv"), json.loads(Path("a.json").read_text())
    assert list(rows[0]) == [
        *("file", "class", "probability", "closeness", "nearest", "problem"),
        *("class_1", "probability_1", "class_2", "probability_2"),
    ]
    expected = list(fitted.answers(inbox, top=2))
    assert len(rows) == len(objects) == len(expected) == 11
    for row, entry, answer in zip(rows, objects, expected, strict=True):
        assert row["file"] == entry["file"] == f"inbox/{answer.name}"
        assert row["problem"] == answer.problem == (entry["problem"] or "")
        if answer.problem:
            assert row["class"] == row["class_2"] == ""
            assert entry["class"] is None
            continue
        assert (row["class"], row["nearest"]) == (answer.label, answer.nearest_name)
        assert (entry["class"], entry["nearest"]) == (answer.label, answer.nearest_name)
        assert float(row["probability"]) == entry["probability"] == round(answer.probability, 4)
        assert float(row["closeness"]) == entry["closeness"] == round(answer.closeness, 4)
        pairs = [[row["class_1"], float(row["probability_1"])], [row["class_2"], float(row["probability_2"])]]
        assert pairs == entry["top"] == [[label, round(share, 4)] for label, share in answer.top]
    assert not list(Path().glob("*.partial*"))


def test_a_folder_a_zip_file_a_table_and_files_give_the_same_answers(classifier: Path, inbox: Path) -> None:
    succeed("predict", classifier, inbox, "--csv", "a.csv")
    shutil.make_archive("zipped", "zip", inbox)
    files = sorted(str(path) for path in inbox.rglob("*.*"))
    Path("listed.csv").write_text("path,note\n" + "".join(f"{file},x\n" for file in files))
    for number, sources in enumerate((["zipped.zip"], ["listed.csv"], files, [inbox, *files])):
        succeed("predict", classifier, *sources, "--csv", f"{number}.csv")
        expected = [row | {"file": row["file"].replace("inbox", "zipped.zip")} for row in read("a.csv")]
        found = read(f"{number}.csv")
        assert found == (expected if number == 0 else read("a.csv")), sources


def test_a_listed_photo_that_is_not_there_is_a_row_with_its_reason(classifier: Path, inbox: Path) -> None:
    Path("listed.csv").write_text(f"path\nabsent.jpg\nim\0possible.jpg\ninbox\n{inbox}/noise.png\n")
    succeed("predict", classifier, "listed.csv", "--json", "a.json")
    absent, impossible, folder, there = json.loads(Path("a.json").read_text())
    assert "No such file" in absent["problem"]
    assert "null byte" in impossible["problem"]
    assert "not a regular file" in folder["problem"]
    assert there["class"]


def test_names_that_are_not_text(classifier: Path) -> None:
    name = b"caf\xe9,\n.png".decode(errors="surrogateescape")
    photo("grass", 9).save("plain.png")
    Path("plain.png").rename(name)
    assert succeed("predict", classifier, name).startswith("caf?,?.png: grass")
    succeed("predict", classifier, name, "--csv", "a.csv", "--json", "a.json")
    with Path("a.csv").open(encoding="utf-8-sig", errors="surrogateescape", newline="") as lines:
        assert next(csv.DictReader(lines))["file"] == name
    assert json.loads(Path("a.json").read_text())[0]["file"] == name


def test_together(classifier: Path, inbox: Path) -> None:
    """It changes the answers, and is not advised with 5 photos of each class."""
    with pytest.warns(UserWarning, match="not advised"):
        succeed("predict", classifier, inbox, "--together", "--csv", "a.csv")
    fitted = FewShotClassifier.load(classifier, encoder=TinyEncoder())
    good = [row for row in read("a.csv") if not row["problem"]]
    files = [row["file"] for row in good]
    with pytest.warns(UserWarning, match="not advised"):
        expected = fitted.predict_proba(files, together=True)
    np.testing.assert_allclose([float(row["probability"]) for row in good], expected.max(axis=1), atol=6e-5)
    assert np.abs(expected - fitted.predict_proba(files)).max() > 0.01


# Stopped runs


def stop_after(chunks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run is stopped as it writes the chunk after these, of which a part reaches the disk."""
    usual, count = PartialAnswers.append, 0

    def append(answers: PartialAnswers, rows: Iterable[tuple[State, Row]]) -> None:
        nonlocal count
        count += 1
        if count > chunks:
            usual(answers, islice(rows, 1))
            with answers.path.open("ab") as file:
                file.write(b'[12, 34, {"file": "inb')
            monkeypatch.setattr(PartialAnswers, "append", usual)
            raise KeyboardInterrupt
        usual(answers, rows)

    monkeypatch.setattr(PartialAnswers, "append", append)


@pytest.mark.parametrize("chunks", [0, 1, 2])
def test_a_stopped_run_goes_on_to_the_same_files(
    chunks: int,
    classifier: Path,
    inbox: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["predict", str(classifier), str(inbox), "--reject", "--csv", "b.csv", "--json", "b.json"]
    succeed(*words[:-3], "a.csv", "--json", "a.json")
    stop_after(chunks, monkeypatch)
    monkeypatch.setattr("sys.argv", ["fewset", *words])
    with pytest.raises(SystemExit, match="130"):
        cli.main()
    assert "the same command with --resume goes on from b.csv.partial" in capsys.readouterr().err
    assert not Path("b.csv").exists()

    assert "continue it with --resume" in fail(*words)
    looked = []
    monkeypatch.setattr(
        TinyEncoder, "__call__", lambda *_, usual=TinyEncoder.__call__: looked.extend(_[1]) or usual(*_)
    )
    succeed(*words, "--resume")
    assert len(looked) == 10 - 4 * chunks + (chunks > 1)  # the broken photo is in the second chunk
    for kind in ("csv", "json"):
        assert Path(f"b.{kind}").read_bytes() == Path(f"a.{kind}").read_bytes()
    assert not list(Path().glob("*.partial*"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: line.replace(b'"top"', b'"pot"'),
        lambda line: line[:40],
        lambda line: b"\xff\n",  # noqa: ARG005
    ],
)
def test_damaged_answers_are_an_error(
    damage: Callable[[bytes], bytes], classifier: Path, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_after(1, monkeypatch)
    assert fewset("predict", classifier, inbox, "--csv", "a.csv").exit_code == 130
    heading, first, *others = Path("a.csv.partial").read_bytes().splitlines(keepends=True)
    Path("a.csv.partial").write_bytes(b"".join([heading, damage(first), *others]))
    message = fail("predict", classifier, inbox, "--csv", "a.csv", "--resume")
    assert "a.csv.partial is damaged; remove it" in message


@pytest.mark.parametrize("others_change", [False, True])
def test_a_photo_that_was_replaced_is_asked_again(
    others_change: bool, classifier: Path, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_after(2, monkeypatch)
    assert fewset("predict", classifier, inbox, "--csv", "a.csv").exit_code == 130
    shutil.copy(inbox / "grass" / "21.png", inbox / "blue sky" / "20.png")
    if others_change:  # and so does which photos are answered together
        photo("brick", 77).save(inbox / "another.png")
        (inbox / "noise.png").unlink()
    succeed("predict", classifier, inbox, "--csv", "a.csv", "--resume")
    succeed("predict", classifier, inbox, "--csv", "whole.csv")
    assert Path("a.csv").read_bytes() == Path("whole.csv").read_bytes()
    assert {row["file"]: row["class"] for row in read("a.csv")}["inbox/blue sky/20.png"] == "grass"


def test_answers_of_another_run_are_not_used(
    classifier: Path, photos: Path, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photo("grass", 99).save(photos / "grass" / "99.png")
    succeed("fit", photos, "-o", "other.fewset", "--encoder", "tiny")
    stop_after(1, monkeypatch)
    assert fewset("predict", classifier, inbox, "--csv", "a.csv").exit_code == 130
    for words in (
        ("other.fewset", inbox),
        (classifier, inbox, "--top", 2),
        (classifier, inbox, "--reject"),
        (classifier, photos),
    ):
        assert "give the command that began it" in fail("predict", *words, "--csv", "a.csv", "--resume")
    succeed("predict", classifier, inbox, "--csv", "a.csv", "--resume")


@pytest.mark.filterwarnings("ignore:together is not advised")
def test_a_run_in_which_photos_help_each_other_starts_over(
    classifier: Path, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["predict", classifier, inbox, "--together", "--csv"]
    succeed(*words, "a.csv")
    stop_after(0, monkeypatch)
    assert fewset(*words, "b.csv").exit_code == 130
    succeed(*words, "b.csv", "--resume")
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()


@pytest.mark.parametrize("files", [(), ("--csv", "a.csv")])
def test_when_no_photo_can_be_read_the_command_fails(classifier: Path, files: Sequence[str]) -> None:
    for name in ("1.jpg", "2.jpg"):
        Path(name).write_text("no photo")
    refused = fail("predict", classifier, "1.jpg", "2.jpg", *files)
    assert "none of the 2 photos can be read (1.jpg: " in refused
    assert Path("a.csv").exists() == bool(files)


def test_two_runs_do_not_write_one_file(classifier: Path, inbox: Path) -> None:
    with FileLock(".a.csv.partial.lock"):
        assert "another run writes a.csv.partial now" in fail("predict", classifier, inbox, "--csv", "a.csv")
    succeed("predict", classifier, inbox, "--csv", "a.csv")
    assert not list(Path().glob(".*.lock"))


# Sorting


def test_photos_are_moved_into_folders_and_nothing_is_overwritten(classifier: Path, inbox: Path) -> None:
    Path("sorted/grass").mkdir(parents=True)
    Path("sorted/grass/20.png").write_text("mine")
    Path("inbox/more/20").mkdir(parents=True)
    photo("grass", 40).save("inbox/more/20/20.png")
    before = {path: path.read_bytes() for path in inbox.rglob("*.*")}
    succeed("predict", classifier, inbox, "--reject", "--move-to", "sorted", "--csv", "a.csv")
    assert tree("inbox") == ["broken.jpg"]
    assert Path("sorted/grass/20.png").read_text() == "mine"
    assert tree("sorted") == [
        *(f"blue sky/{number}.png" for number in (20, 21, 22)),
        *(f"brick/{number}.png" for number in (20, 21, 22)),
        *("grass/20 (2).png", "grass/20 (3).png", "grass/20.png", "grass/21.png", "grass/22.png"),
        "none of these/noise.png",
    ]
    for row in read("a.csv"):
        assert bool(row["moved_to"]) != bool(row["problem"])
        if row["moved_to"]:
            assert Path(row["moved_to"]).read_bytes() == before[Path(row["file"])]


def test_photos_are_linked(classifier: Path, inbox: Path) -> None:
    words = ["predict", classifier, inbox, "--link-to", "sorted", "--json", "a.json"]
    succeed(*words)
    once = tree("sorted")
    for row in json.loads(Path("a.json").read_text()):
        if not row["problem"]:
            assert Path(row["linked_to"]).is_symlink()
            assert Path(row["linked_to"]).resolve() == Path(row["file"]).resolve()
    assert len(once) == 10
    succeed(*words)
    assert tree("sorted") == once  # the same links again, not more of them
    assert len(tree(inbox)) == 11


def test_what_cannot_be_sorted_is_refused_before_the_work(
    classifier: Path, inbox: Path, photos: Path
) -> None:
    shutil.make_archive("zipped", "zip", inbox)
    assert "inside a zip file and cannot be moved" in fail(
        "predict", classifier, "zipped.zip", "--move-to", "sorted"
    )
    assert "is in inbox" in fail("predict", classifier, inbox, "--move-to", "inbox/sorted")
    assert "not both" in fail("predict", classifier, inbox, "--move-to", "a", "--link-to", "b")
    Path("file").write_text("")
    assert "file is a file" in fail("predict", classifier, inbox, "--move-to", "file")
    Path("sorted").mkdir()
    Path("sorted/grass").write_text("")
    assert "sorted/grass is a file" in fail("predict", classifier, inbox, "--move-to", "sorted")
    FewShotClassifier(TinyEncoder()).fit(
        sorted(photos.rglob("*.png")), [f"../{number % 2}" for number in range(15)]
    ).save("odd.fewset")
    assert "'../0' cannot be the name of a folder" in fail(
        "predict", "odd.fewset", inbox, "--link-to", "links"
    )
    assert len(tree(inbox)) == 11
    assert not Path("links").exists()


def test_photos_elsewhere_are_not_moved_away_through_a_link(classifier: Path, inbox: Path) -> None:
    album = write_photos(Path("album"), 2)
    (inbox / "linked").symlink_to(album.absolute())
    message = fail("predict", classifier, inbox, "--move-to", "sorted")
    assert re.search(
        r"inbox/linked/[a-z ]+ is a link to a place outside of inbox, whose photos would be", message
    )
    assert (len(tree(album)), Path("sorted").exists()) == (6, False)


def test_names_with_brackets_are_shown_as_they_are(photos: Path) -> None:
    names = dict(zip(CLASSES, ("bird [red]", "[/x]", "a :smile: [bold]b"), strict=True))
    rows = (f"{file},{names[file.parent.name]}\n" for file in sorted(photos.rglob("*.png")))
    Path("list.csv").write_text("path,label\n" + "".join(rows))
    succeed("fit", "list.csv", "-o", "my.fewset", "--encoder", "tiny")
    for shown in (succeed("info", "my.fewset"), succeed("predict", "my.fewset", photos, "--csv", "a.csv")):
        assert all(f" {name} " in shown for name in names.values())


# Wrong input


def test_files_that_are_no_classifier(classifier: Path, inbox: Path) -> None:
    data = classifier.read_bytes()
    Path("cut.fewset").write_bytes(data[: len(data) // 2])
    Path("pickle.fewset").write_bytes(pickle.dumps({"a": 1}))
    Path("photo.fewset").write_bytes((inbox / "noise.png").read_bytes())
    for command in (["info"], ["predict"]):
        more = [inbox] if command == ["predict"] else []
        for name in ("cut", "pickle", "photo"):
            assert "is not a usable classifier" in fail(*command, f"{name}.fewset", *more)
        assert "there is no file absent.fewset; make one" in fail(*command, "absent.fewset", *more)
    register_encoder("other")(lambda device: TinyEncoder(digest="e" * 64))  # noqa: ARG005
    assert "made with the encoder tiny" in fail("predict", classifier, inbox, "--encoder", "other")
    register_encoder("wider")(lambda device: TinyEncoder(dim=97))  # noqa: ARG005
    assert "its rows have" in fail("predict", classifier, inbox, "--encoder", "wider")
    X, y = labelled_rows(1)  # noqa: N806
    FewShotClassifier().fit(X, y).save("rows.fewset")
    assert "fitted on rows of features" in fail("predict", "rows.fewset", inbox)


@pytest.mark.usefixtures("inbox")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", "empty", "-o", "a"], "there are no photos in empty"),
        (["fit", "one", "-o", "a"], "got photos of 1 class (grass), expected 2 or more"),
        (["fit", "bad.csv", "-o", "a"], "bad.csv has no column 'path'"),
        (["fit", "photos", "-o", "absent/a"], "there is no directory absent to write a into"),
        (["fit", "photos", "-o", "a", "--card", "a"], "-o and --card are both a"),
        (["predict", "my.fewset", "absent"], "absent does not exist"),
        (["predict", "my.fewset", "my.fewset"], "neither a directory nor a complete zip file"),
        (["predict", "my.fewset", "photos", "--csv", "empty"], "empty is a directory, expected a file"),
        (["predict", "my.fewset", "photos", "--csv", "a", "--json", "empty/../a"], "choose two places"),
        (["predict", "my.fewset", "photos", "--csv", "a", "--json", "a.partial"], "--json and the answers"),
        (["predict", "my.fewset", "photos", "--csv", "s", "--move-to", "s"], "the folder of photos are both"),
        (["predict", "my.fewset", "photos", "--json", "my.fewset"], "my.fewset is read and cannot be"),
        (["predict", "my.fewset", "photos", "--csv", "plugin.py", "--plugin", "plugin.py"], "plugin.py is"),
        (["predict", "my.fewset", "list.csv", "--csv", "bare"], "bare is read and cannot be written"),
        (["fit", "list.csv", "-o", "bare"], "bare is read and cannot be written"),
        (["fit", "photos", "-o", "photos/grass/0.png"], "0.png has the name of a photo"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_input_is_told(words: list[str], message: str, classifier: Path) -> None:  # noqa: ARG001
    Path("empty").mkdir()
    Path("bad.csv").write_text("name,label\na,b\n")
    Path("list.csv").write_text("path,label\nbare,grass\n")
    shutil.copy("photos/grass/0.png", "bare")
    Path("plugin.py").touch()
    Path("one/grass").mkdir(parents=True)
    photo("grass", 1).save("one/grass/1.png")
    told = fail(*words, *(["--encoder", "tiny"] if words[0] == "fit" else []))
    assert message in told
    assert "\n" not in told
    assert not Path("a").exists()


# Several processes, and the whole with the real encoder


@pytest.mark.slow
@pytest.mark.parametrize("processes", [3])
def test_several_processes_write_the_same_files(processes: int, classifier: Path, inbox: Path) -> None:
    """200 photos are 4 chunks, the last of them short."""
    write_photos(inbox, 63, first=100)
    Path("tiny.py").write_text(PLUGIN)
    words = ["predict", classifier, inbox, "--plugin", "tiny.py", "--reject"]
    alone = fewset_in_a_new_process(*words, "--csv", "a.csv", "--link-to", "one")
    assert alone.returncode == 0, alone.stderr
    output = torchrun(processes, "-m", "fewset", *words, "--csv", "b.csv", "--json", "b.json")
    assert output.count("answers: b.csv") == 1
    without = [{key: value for key, value in row.items() if key != "linked_to"} for row in read("a.csv")]
    assert read("b.csv") == without
    assert len(without) == 200


@pytest.mark.slow
def test_from_photos_to_answers_with_the_encoder_that_comes_along(photos: Path, inbox: Path) -> None:
    done = fewset_in_a_new_process("fit", photos, "-o", "my.fewset")
    assert done.returncode == 0, done.stderr
    assert "encoder efficientnet-lite0" in done.stdout
    done = fewset_in_a_new_process("predict", "my.fewset", inbox, "--csv", "a.csv")
    assert (done.returncode, done.stderr) == (0, "")  # no bar where there is no terminal
    right = [row["class"] == Path(row["file"]).parent.name for row in read("a.csv") if row["class"]]
    assert sum(right) >= 8
    done = fewset_in_a_new_process("predict", "my.fewset", "absent")
    assert isinstance(done, subprocess.CompletedProcess)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
