"""The exported page in a real browser says what Python says, and learns a new class.

`FEWSET_SCREENSHOTS=docs/static python -m pytest tests/classify/export/test_static_page.py` makes the guide's
picture.
"""

import base64
import csv
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect
from scipy.special import softmax

from fewset import FewShotClassifier, embed
from fewset.classify.export.writing import find_runtime
from fewset.classify.predict.answers import answer_row
from fewset.classify.predict.files import write_csv
from fewset.data.images.decoding import decode_photo
from fewset.encoders import DEFAULT
from fewset.encoders.efficientnet_lite import load_efficientnet_lite
from fewset.encoders.preprocessing import FILTERS
from tests.helpers.browser import WAIT, axe_script, installed_runtime, launched, own, served_folder, shoot
from tests.helpers.classifiers import exported
from tests.helpers.drawn import FRUIT, NONE, drawn, write_fruit

# A browser and an encoder at once: on a busy machine everything takes its time.
pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]
PACKED = """({ width, height, data }) => {
    let text = "";
    for (const byte of data) text += String.fromCharCode(byte);
    return [width, height, btoa(text)];
}"""
SCRIPT = "<img src=x onerror=\"document.title='owned'\">"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as opened:
        yield opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module")
def classifier(folder: Path) -> FewShotClassifier:
    return FewShotClassifier(reject="auto", device="cpu").fit(write_fruit(folder / "photos", 5))


@pytest.fixture(scope="module")
def new(folder: Path) -> list[Path]:
    """Small photos, large ones, wide ones, one that lies on its side, and a transparent one."""
    (folder / "new").mkdir()
    for name, what in {**FRUIT, "carrot": NONE}.items():
        drawn(what, 77).save(folder / "new" / f"{name}.png")
        drawn(what, 78).resize((1500, 1500)).save(folder / "new" / f"large {name}.jpg", quality=90)
    drawn(FRUIT["pear"], 79, 900).crop((0, 100, 900, 700)).save(folder / "new" / "wide.webp", quality=90)
    turned = Image.Exif()
    turned[0x0112] = 6
    drawn(FRUIT["banana"], 80).save(folder / "new" / "turned.jpg", exif=turned)
    clear = drawn(FRUIT["apple"], 81)
    clear.putalpha(Image.linear_gradient("L").resize(clear.size))
    clear.save(folder / "new" / "clear.png")
    drawn(FRUIT["pear"], 82, 3600).save(folder / "new" / "in strips.jpg", quality=90, exif=turned)
    return sorted((folder / "new").iterdir())


@pytest.fixture(scope="module")
def site(browser: Any, classifier: FewShotClassifier, folder: Path) -> Iterator[str]:  # noqa: ARG001
    runtime = find_runtime(installed_runtime(folder))
    exported(classifier).write_page(folder / "site", runtime)
    with served_folder(folder / "site") as address:
        yield address


@pytest.fixture
def page(browser: Any, site: str) -> Iterator[Any]:
    """The page, ready; whatever it complains of, or asks of another host, fails the test."""
    context = browser.new_context(viewport={"width": 1180, "height": 900})
    opened = context.new_page()
    opened.set_default_timeout(WAIT)
    trouble: list[str] = []
    opened.on("console", lambda message: trouble.append(f"{message.type}: {message.text}"))
    opened.on("pageerror", lambda error: trouble.append(str(error)))
    opened.on("request", lambda request: trouble.extend([] if own(request.url, site) else [request.url]))
    opened.goto(site)
    opened.get_by_text("Ready.").wait_for()
    yield opened
    context.close()
    assert trouble == []


def said_of(page: Any, name: str) -> tuple[str, dict[str, float]]:
    """The verdict on a photo, and the probabilities behind its bars."""
    shown = page.locator("#answers > li", has=page.get_by_alt_text(name, exact=True))
    bars = shown.locator(".bars li").all()
    labels = (bar.locator(".bar-text span").first.inner_text() for bar in bars)
    probabilities = (float(bar.get_attribute("data-probability")) for bar in bars)
    return shown.locator(".verdict").inner_text(), dict(zip(labels, probabilities, strict=True))


def try_out(page: Any, photos: list[Path]) -> None:
    page.locator("#try-files").set_input_files([str(photo) for photo in photos])
    page.get_by_text(f"{len(photos)} photos classified.").wait_for()


def add(page: Any, name: str, photos: list[Path]) -> None:
    page.get_by_label("New class, or one of these").fill(name)
    page.locator("#add-files").set_input_files([str(photo) for photo in photos])
    page.get_by_text(f"{len(photos)} photos added to {name}.").wait_for()


def test_it_answers_as_python_does(page: Any, classifier: FewShotClassifier, new: list[Path]) -> None:
    try_out(page, new)
    paths = [str(photo) for photo in new]
    answers = list(classifier.answers(paths))
    for path, expected, answer in zip(new, classifier.predict_proba(paths), answers, strict=True):
        verdict, probabilities = said_of(page, path.name)
        assert verdict == answer.label, path.name
        shown = (
            {} if answer.label == "none of these" else dict(zip(classifier.classes_, expected, strict=True))
        )
        assert probabilities.keys() == shown.keys(), path.name
        for label, probability in shown.items():
            assert probabilities[label] == pytest.approx(probability, abs=0.02), path.name
    assert {answer.label for answer in answers} == {*FRUIT, "none of these"}


def test_large_jpeg_files_reach_the_network_as_in_python(page: Any, new: list[Path]) -> None:
    """Decoded at a half, a quarter or an eighth there, and averaged here."""
    preprocessing = load_efficientnet_lite(DEFAULT, "cpu").preprocessing
    for path in (photo for photo in new if photo.name.startswith(("in strips", "large"))):
        expected = preprocessing.pixels(decode_photo(path.read_bytes(), preprocessing.least))
        differences = np.abs(prepared_in_the_page(page, path) - expected.astype(float))
        assert differences.mean() < 1, path.name


def test_a_class_is_added_kept_and_removed(
    page: Any, classifier: FewShotClassifier, new: list[Path], tmp_path: Path
) -> None:
    """By fewset's ridge head on all photos; the page remembers it, and can go back."""
    carrots = [tmp_path / f"carrot-{number}.png" for number in range(3)]
    for number, path in enumerate(carrots):
        drawn(NONE, number).save(path)
    add(page, "carrot", carrots)
    small = [photo for photo in new if photo.suffix == ".png"]
    try_out(page, small)
    shoot(page, "export")

    support = classifier.learned_.support
    rows = np.concatenate([support.features, rows_of(carrots)])
    labels = [*support.classes[support.labels], *["carrot"] * 3]
    linear = FewShotClassifier(head="ridge").fit(rows, labels).learned_.linear
    expected = softmax(linear.logits(rows_of(small)) * linear.temperature, axis=1)
    for path, probabilities in zip(small, expected, strict=True):
        verdict, shown = said_of(page, path.name)
        for label, probability in shown.items():
            index = sorted([*FRUIT, "carrot"]).index(label)
            assert probability == pytest.approx(probabilities[index], abs=0.02)
        if path.stem == "carrot":
            assert verdict == "carrot"

    page.reload()
    page.get_by_text("Ready.").wait_for()
    card = page.get_by_role("region", name="Class carrot")
    assert card.get_by_text("3 photos").count() == 1
    page.get_by_role("button", name="Remove carrot-0.png from carrot").press("Enter")
    card.get_by_text("2 photos").wait_for()
    page.get_by_role("button", name="Remove what was added").press("Enter")
    page.get_by_text("It is the classifier that was exported again.").wait_for()
    assert page.get_by_role("region", name="Class carrot").count() == 0
    try_out(page, small)
    for path, probabilities in zip(
        small, classifier.predict_proba([str(path) for path in small]), strict=True
    ):
        for label, probability in said_of(page, path.name)[1].items():
            index = classifier.classes_.tolist().index(label)
            assert probability == pytest.approx(probabilities[index], abs=0.02)


def rows_of(photos: list[Path]) -> np.ndarray:
    return embed([str(photo) for photo in photos], device="cpu")


def test_bad_photos_and_script_in_names_are_only_text(page: Any, new: list[Path], tmp_path: Path) -> None:
    (tmp_path / "letter.jpg").write_text("dear reader")
    page.locator("#try-files").set_input_files([str(tmp_path / "letter.jpg")])
    page.get_by_text("letter.jpg: this browser cannot read it as an image").wait_for()
    page.get_by_role("button", name="Dismiss").press("Enter")
    add(page, SCRIPT, [new[0], new[1]])
    page.get_by_role("region", name=f"Class {SCRIPT}").wait_for()
    assert page.title() == "What is in this photo?"
    page.get_by_role("button", name="Remove what was added").click()


def test_no_class_is_called_none_of_these(page: Any, new: list[Path]) -> None:
    """Its answers could not be told from those about photos of no class."""
    page.get_by_label("New class, or one of these").fill(" none of these ")
    page.get_by_role("button", name="Add photos…").click()
    page.get_by_text("choose another name").wait_for()
    page.get_by_role("button", name="Dismiss").click()
    page.locator("#add-files").set_input_files([str(new[0])])
    page.get_by_text("choose another name").wait_for()
    assert page.locator("#class-cards > section").count() == len(FRUIT)


def test_the_camera_is_answered_and_its_photo_kept(page: Any) -> None:
    """Chromium's own test picture stands for a camera."""
    page.get_by_role("button", name="Camera…").click()
    expect(page.locator("#camera-answer")).to_have_text(re.compile("apple|banana|pear"), timeout=WAIT)
    page.get_by_role("button", name="Keep this photo").click()
    expect(page.locator("#answers > li")).to_have_count(1, timeout=WAIT)
    page.get_by_role("button", name="Close").click()


def test_the_table_is_that_of_predict(
    page: Any, classifier: FewShotClassifier, new: list[Path], tmp_path: Path
) -> None:
    """The same columns, the same answers; names that a spreadsheet would compute are harmless."""
    formula = tmp_path / '=1+1, "x".png'
    shutil.copyfile(new[0], formula)
    photos = [formula, *new]
    try_out(page, photos)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download table").click()
    assert download.value.suggested_filename == "answers.csv"
    download.value.save_as(tmp_path / "page.csv")
    answers = classifier.answers([str(photo) for photo in photos])
    write_csv(tmp_path / "python.csv", map(answer_row, answers), 3)
    got, expected = (
        list(csv.DictReader((tmp_path / f"{name}.csv").read_text("utf-8-sig").splitlines()))
        for name in ("page", "python")
    )
    assert list(got[0]) == list(expected[0])
    for one, other in zip(reversed(got), expected, strict=True):  # the newest is the first on the page
        for name, value in other.items():
            if name.startswith(("probability", "closeness")) and value:
                assert float(one[name]) == pytest.approx(float(value), abs=0.02)
            elif name in ("file", "nearest"):  # the page knows no folders
                assert one[name].removeprefix("'") == Path(value).name
            elif not name.startswith("class_"):  # of two small probabilities, either may be the larger
                assert one[name] == value
    assert any(row["file"].startswith("'=1+1") for row in got)
    assert {row["probability"] == "" for row in got if row["class"] == "none of these"} == {True}


def test_whether_none_of_these_is_answered_is_remembered(page: Any, new: list[Path]) -> None:
    carrot = next(photo for photo in new if photo.name == "carrot.png")
    box = page.get_by_label("Answer “none of these”")
    assert box.is_checked()
    try_out(page, [carrot, carrot])
    assert page.locator(".verdict").first.inner_text() == "none of these"
    box.click()
    page.reload()
    page.get_by_text("Ready.").wait_for()
    assert not box.is_checked()
    try_out(page, [carrot, carrot])
    assert page.locator(".verdict").first.inner_text() in FRUIT


def test_what_a_browser_cannot_read_comes_with_what_to_do(page: Any, tmp_path: Path) -> None:
    """HEIC, and a photo of 108 megapixels where memory is short; with enough memory that is answered."""
    (tmp_path / "phone.heic").write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(1000))
    page.locator("#try-files").set_input_files(str(tmp_path / "phone.heic"))
    page.get_by_text("phone.heic: this browser cannot read HEIC. Save the photo as JPEG").wait_for()
    Image.new("RGB", (12_000, 9_000), "green").save(tmp_path / "108.jpg", quality=30)
    page.evaluate("() => { createImageBitmap = () => Promise.reject(new RangeError('no memory')); }")
    page.locator("#try-files").set_input_files(str(tmp_path / "108.jpg"))
    page.get_by_text("108.jpg: 12000 × 9000 pixels are too many for this browser. Save a copy").wait_for()
    Image.new("RGB", (9_000, 9_000)).save(tmp_path / "81.png")
    page.locator("#try-files").set_input_files(str(tmp_path / "81.png"))
    page.get_by_text("81.png: 9000 × 9000 pixels are too many").wait_for()


def test_a_large_class_is_folded(page: Any, new: list[Path]) -> None:
    add(page, "plum", [new[0]] * 26)
    card = page.get_by_role("region", name="Class plum")
    assert card.locator("li").count() == 24
    card.get_by_role("button", name="Show all 26").click()
    assert card.locator("li").count() == 26
    page.get_by_role("button", name="Remove what was added").click()


def test_axe_finds_nothing(page: Any, new: list[Path], tmp_path: Path) -> None:
    """Nothing that axe-core knows to shut somebody out, light and dark."""
    script = axe_script(tmp_path)
    add(page, "stone", new[:2])
    try_out(page, new[:2])
    (tmp_path / "letter.jpg").write_text("dear reader")
    page.locator("#try-files").set_input_files([str(tmp_path / "letter.jpg")])
    page.get_by_role("alert").wait_for()
    page.evaluate(script)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        violations = page.evaluate("axe.run(document)")["violations"]
        assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in violations] == []


def test_it_resizes_as_pillow_does(page: Any) -> None:
    """To the last bit, with every filter, larger and smaller."""
    generator = np.random.default_rng(0)
    for width, height in ((331, 257), (97, 613), (40, 30)):
        image = Image.fromarray(generator.integers(0, 256, (height, width, 3), dtype=np.uint8))
        for name, number in FILTERS.items():
            got = in_the_page(page, image, "resize", 224, 117, name)
            np.testing.assert_array_equal(got, np.asarray(image.resize((224, 117), number)), name)
        for factor in (2, 3, 7):
            got = in_the_page(page, image, "reduce", factor)
            np.testing.assert_array_equal(got, np.asarray(image.reduce(factor)))


def in_the_page(page: Any, image: Image.Image, function: str, *rest: int | str) -> np.ndarray:
    """What a function of resampling.js makes of an image."""
    made = page.evaluate(
        f"""async ([bytes, width, height, name, rest]) => {{
            const functions = await import("./resampling.js");
            const data = Uint8ClampedArray.from(atob(bytes), (letter) => letter.charCodeAt(0));
            return ({PACKED})(functions[name]({{ width, height, data }}, ...rest));
        }}""",
        [base64.b64encode(image.convert("RGBA").tobytes()).decode(), *image.size, function, rest],
    )
    return unpacked(*made)


def prepared_in_the_page(page: Any, photo: Path) -> np.ndarray:
    """The pixels that the network of the page is given."""
    made = page.evaluate(
        f"""async (bytes) => {{
            const {{ prepared }} = await import("./photos.js");
            const {{ preprocessing }} = await (await fetch("./head.json")).json();
            const data = Uint8Array.from(atob(bytes), (letter) => letter.charCodeAt(0));
            return ({PACKED})((await prepared(new File([data], "photo"), preprocessing)).pixels);
        }}""",
        base64.b64encode(photo.read_bytes()).decode(),
    )
    return unpacked(*made)


def unpacked(width: int, height: int, data: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(data), np.uint8).reshape(height, width, 4)[:, :, :3]
