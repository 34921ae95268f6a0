"""The page in a browser: what a user sees, touches and reads at each step of the walk."""

import re
import shutil
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from fewset.classify.photos.rows import THUMBNAIL
from tests.helpers.browser import add_class, counted, drop, served, teach
from tests.helpers.drawn import FRUIT, drawn

# A browser, a server and an encoder at once: on a busy machine everything takes its time.
pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]
REJECTED = "error: Failed to load resource: the server responded with a status of 400 (Bad Request)"
# The contrast of borders and placeholders with what is behind them, as WCAG 2 defines it.
CONTRASTS = """() => {
    const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const light = (colour) => {
        const [r, g, b] = numbers(colour).slice(0, 3).map((part) => part / 255)
            .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrast = (one, other) => {
        const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
    };
    const behind = (element) => {
        for (let each = element; each; each = each.parentElement) {
            const colour = getComputedStyle(each).backgroundColor;
            if (numbers(colour)[3] !== 0) return colour;
        }
    };
    return [...document.querySelectorAll("input:not([type=checkbox]), select")]
        .filter((each) => each.checkVisibility()).map((each) => ({
            name: each.id || each.className,
            border: contrast(getComputedStyle(each).borderBottomColor, behind(each.parentElement)),
            placeholder: contrast(getComputedStyle(each, "::placeholder").color, behind(each)),
            opacity: getComputedStyle(each, "::placeholder").opacity,
        }));
}"""


def boxes(page: Any, selector: str) -> list[dict[str, float]]:
    return [each.bounding_box() for each in page.locator(selector).all()]


def overlap(one: dict[str, float], other: dict[str, float]) -> bool:
    return all(
        one[side] < other[side] + other[size] and other[side] < one[side] + one[size]
        for side, size in (("x", "width"), ("y", "height"))
    )


def test_the_class_to_teach_follows_the_answer(page: Any, fruit: Path) -> None:
    """One click never teaches what the classifier has just unlearned; the user's own choice stays."""
    for name in ("banana", "pear"):
        page.locator("#folders").set_input_files(str(fruit / "photos" / name))
    counted(page, ".photos li", 10)
    page.get_by_label("Answer “none of these”").click()
    page.locator("#try-files").set_input_files(
        [str(fruit / "new" / f"new {name}.png") for name in ("apple", "pear")]
    )
    counted(page, "#answers > li", 2)
    apple, pear = (
        page.locator("#answers > li", has=page.get_by_alt_text(f"new {name}.png"))
        for name in ("apple", "pear")
    )
    assert apple.get_by_role("combobox").input_value() == apple.locator(".verdict").inner_text() != "apple"
    pear.get_by_role("combobox").select_option("banana")
    page.locator("#folders").set_input_files(str(fruit / "photos" / "apple"))
    counted(page, ".photos li", 15)
    apple.locator(".verdict", has_text="apple").wait_for()
    expect(apple.get_by_role("combobox")).to_have_value("apple")
    expect(pear.get_by_role("combobox")).to_have_value("banana")
    apple.get_by_role("button", name="Teach it").click()
    page.get_by_text("It is learned as apple.").wait_for()


def test_none_of_these_has_no_class_to_teach_until_one_is_chosen(page: Any, fruit: Path) -> None:
    teach(page, fruit)
    page.locator("#try-files").set_input_files(str(fruit / "new" / "new carrot.png"))
    counted(page, "#answers > li", 1)
    expect(page.locator("#answers .verdict")).to_have_text("none of these")
    assert page.locator("#answers select").input_value() == ""
    page.get_by_role("button", name="Teach it").click()
    assert not page.locator("#answers select").evaluate("(select) => select.validity.valid")
    counted(page, ".photos li", 15)


def test_only_what_was_classified_is_counted(page: Any, fruit: Path, tmp_path: Path) -> None:
    """Six photos, three of which are none: the count, and a message whose button stays in one piece."""
    teach(page, fruit)
    page.expected.append(REJECTED)
    for number in range(3):
        (tmp_path / f"{'a long name ' * 12}{number}.jpg").write_text("dear reader")
    good = sorted((fruit / "new").iterdir())[:3]
    page.locator("#try-files").set_input_files([str(file) for file in (*good, *tmp_path.iterdir())])
    counted(page, "#answers > li", 3)
    expect(page.locator("#status")).to_have_text("3 of 6 photos are classified.")
    assert "3 photos could not be taken" in page.get_by_role("alert").inner_text()
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        lines = page.get_by_role("button", name="Dismiss").evaluate(
            "(button) => { const range = document.createRange(); range.selectNodeContents(button);"
            " return range.getClientRects().length; }"
        )
        assert lines == 1, width
    add_class(page, "stone")
    drop(page, "section[aria-label='Class stone']", [good[0], next(tmp_path.iterdir())])
    counted(page, ".photos li", 16)
    expect(page.locator("#status")).to_have_text("1 photo done")


def test_copies_in_two_classes_are_a_contradiction(page: Any, fruit: Path) -> None:
    teach(page, fruit)
    drop(page, "section[aria-label='Class pear']", [fruit / "photos" / "apple" / "apple-0.jpg"])
    counted(page, ".photos li", 16)
    page.get_by_role("heading", name="Contradictions: one photo in several classes").wait_for()
    assert page.get_by_role("heading", name="Copies of one photo").count() == 0
    assert page.get_by_role("heading", name="Suspicious photos").count() == 0
    said = page.get_by_text(re.compile("The same photo is in (apple and pear|pear and apple)."))
    assert said.is_visible()
    page.get_by_role("button", name="It is apple").click()
    page.get_by_text("The photo is in apple only.").wait_for()
    counted(page, "[aria-label='Photos of pear'] li", 5)
    counted(page, "[aria-label='Photos of apple'] li", 5)
    assert said.count() == 0


def test_photos_are_shown_large_enough_to_judge(page: Any, fruit: Path) -> None:
    teach(page, fruit)
    page.locator("#try-files").set_input_files(str(fruit / "new" / "new pear.png"))
    counted(page, "#answers > li", 1)
    for opening in (
        page.get_by_role("button", name="new pear.png: larger"),
        page.get_by_role("button", name="apple-0.jpg: move or delete"),
        page.locator("#answers .reason button"),
    ):
        opening.click()
        image = page.locator("#photo-image")
        expect(image).to_have_js_property("naturalWidth", THUMBNAIL)
        assert image.bounding_box()["width"] >= THUMBNAIL >= 256
        tried = page.locator("#photo-name").inner_text() == "new pear.png"
        assert page.get_by_role("button", name="Delete photo").is_visible() != tried
        page.keyboard.press("Escape")


@pytest.mark.parametrize("width", [1280, 390])
def test_steps_are_read_in_order_and_downloads_come_last(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    steps = sorted(page.locator(".step").all(), key=lambda step: step.bounding_box()["y"])
    assert [step.inner_text() for step in steps] == ["1", "2", "3"]
    assert len({step.bounding_box()["x"] for step in steps}) == 1
    lowest = max(box["y"] for box in boxes(page, "#classes, #trust, #tries"))
    assert min(box["y"] for box in boxes(page, "#downloads button")) > lowest
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_camera_records_while_the_button_is_held(page: Any, fruit: Path) -> None:
    """By pointer and by key; a recording is one step."""
    teach(page, fruit)
    page.get_by_role("button", name="Photograph pear with the camera").click()
    expect(page.locator("video")).not_to_have_js_property("videoWidth", 0)
    several = re.compile(r"^([2-9]|\d\d) photos$")
    sizes = [5]
    presses = (
        (page.mouse.down, page.mouse.up),
        (lambda: page.keyboard.down("Space"), lambda: page.keyboard.up("Space")),
    )
    page.get_by_role("button", name="Take photo").hover()
    for press, release in presses:
        press()
        expect(page.locator("#camera-count")).to_have_text(several)
        release()
        page.wait_for_timeout(500)  # the photo that is being taken
        sizes.append(sizes[-1] + int(page.locator("#camera-count").inner_text().split()[0]))
        page.get_by_role("region", name="Class pear").get_by_text(f"{sizes[-1]} photos").wait_for()
    page.keyboard.press("Escape")
    for left in sizes[-2::-1]:
        page.get_by_role("button", name="Undo").click()
        page.get_by_role("region", name="Class pear").get_by_text(f"{left} photos").wait_for()


def test_names_on_the_map_do_not_cover_each_other(page: Any, tmp_path: Path) -> None:
    """Twelve classes of similar things, with long names."""
    for number in range(12):
        folder = tmp_path / f"apples of the tree number {number}"
        folder.mkdir()
        drawn(FRUIT["apple"], 500 + number).save(folder / "a.png")
    page.locator("#folders").set_input_files(str(tmp_path))
    counted(page, ".photos li", 12)
    labels = boxes(page, "#picture text")
    assert len(labels) == 12
    assert [pair for pair in combinations(labels, 2) if overlap(*pair)] == []
    (frame,) = boxes(page, "#picture svg")
    for label in labels:
        assert frame["x"] <= label["x"] <= label["x"] + label["width"] <= frame["x"] + frame["width"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fields_have_the_contrast_that_wcag_wants(page: Any, fruit: Path, scheme: str) -> None:
    teach(page, fruit)
    page.locator("#try-files").set_input_files(str(fruit / "new" / "new pear.png"))
    counted(page, "#answers > li", 1)
    page.emulate_media(color_scheme=scheme)
    fields = page.evaluate(CONTRASTS)
    assert {field["name"] for field in fields} >= {"new-class-name", "name"}
    for field in fields:
        assert field["border"] >= 3, field
        assert field["placeholder"] >= 4.5, field
        assert field["opacity"] == "1"


def test_a_large_class_is_folded(page: Any, fruit: Path, tmp_path: Path) -> None:
    folder = tmp_path / "plum"
    folder.mkdir()
    for number in range(30):
        drawn(FRUIT["pear"], 300 + number, 64).save(folder / f"{number}.png")
    page.locator("#folders").set_input_files(str(folder))
    card = page.get_by_role("region", name="Class plum")
    card.get_by_text("30 photos").wait_for()
    counted(page, ".photos li", 24)
    button = card.get_by_role("button", name="Show all 30")
    assert button.get_attribute("aria-expanded") == "false"
    button.press("Enter")
    counted(page, ".photos li", 30)
    card.get_by_role("button", name="Show fewer").press("Enter")
    counted(page, ".photos li", 24)
    page.locator("#folders").set_input_files(str(fruit / "photos" / "apple"))
    counted(page, "[aria-label='Photos of apple'] li", 5)
    assert page.get_by_role("region", name="Class apple").locator(".fold").is_hidden()


def test_work_survives_a_crash_and_is_opened_on_the_page(browser: Any, fruit: Path, tmp_path: Path) -> None:
    """A copy of the data directory of a running server is what a crash leaves."""
    with served(home=tmp_path / "home") as address:
        page = browser.new_page()
        page.goto(address)
        page.locator("#folders").set_input_files(str(fruit / "photos" / "apple"))
        page.get_by_text("Not saved yet: that takes two classes").wait_for()
        page.locator("#folders").set_input_files(str(fruit / "photos" / "pear"))
        counted(page, ".photos li", 10)
        page.get_by_text("Saved at").wait_for()
        shutil.copytree(tmp_path / "home", tmp_path / "left")
    with served(home=tmp_path / "left") as address:
        page = browser.new_page()
        page.goto(address)
        page.get_by_role("button", name="open it").click()
        page.get_by_role("button", name="Open the work of").click()
        counted(page, ".photos li", 10)
        page.get_by_text("This is the work of").wait_for()
        assert page.locator(".headline").is_visible()
        page.locator("#folders").set_input_files(str(fruit / "photos" / "banana"))
        counted(page, ".photos li", 15)
        page.get_by_text("Saved at").wait_for()
        with page.expect_download() as download:
            page.get_by_role("button", name="Download classifier").click()
        download.value.save_as(tmp_path / "my.fewset")
        page.get_by_role("button", name="Delete the class apple").click()
        counted(page, ".photos li", 10)
        page.locator("#open-file").set_input_files(str(tmp_path / "my.fewset"))
        counted(page, ".photos li", 15)
        page.get_by_text("This is my.fewset.").wait_for()
        page.get_by_text("Saved at").wait_for()
    assert len(list((tmp_path / "left" / "serve").glob("work-*.fewset"))) == 2
