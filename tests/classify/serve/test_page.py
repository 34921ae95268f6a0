"""The page in a real browser: from an empty page to a classifier, and its corners."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from fewset import FewShotClassifier
from tests.helpers.browser import WAIT, add_class, counted, drop, teach
from tests.helpers.drawn import FRUIT, drawn

# A browser, a server and an encoder at once: on a busy machine everything takes its time.
pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]
SCRIPT = "<img src=x onerror=\"document.title='owned'\">"


def test_from_an_empty_page_to_a_classifier(page: Any, fruit: Path, tmp_path: Path) -> None:
    """Classes by hand and by folder, how well it does, new photos, a file that says the same of them."""
    add_class(page, "apple")
    card = page.get_by_role("region", name="Class apple")
    apples = sorted(str(file) for file in (fruit / "photos" / "apple").iterdir())
    card.locator("input[type=file]").set_input_files(apples)
    counted(page, ".photos li", 5)
    assert "One more class" in page.locator("#trust-body").inner_text()
    for name in ("banana", "pear"):
        page.locator("#folders").set_input_files(str(fruit / "photos" / name))
    counted(page, ".photos li", 15)
    assert "on 15 photos" in page.locator("#trust-body").inner_text()

    new = sorted((fruit / "new").iterdir())
    page.locator("#try-files").set_input_files([str(file) for file in new])
    counted(page, "#answers > li", 4)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download classifier").click()
    assert download.value.suggested_filename == "my.fewset"
    download.value.save_as(tmp_path / "my.fewset")
    classifier = FewShotClassifier.load(tmp_path / "my.fewset")
    assert classifier.classes_.tolist() == ["apple", "banana", "pear"]
    for file, answer in zip(new, classifier.answers([str(file) for file in new]), strict=True):
        shown = page.locator("#answers > li", has=page.get_by_alt_text(file.name))
        assert shown.locator(".verdict").inner_text() == answer.label
        lines = shown.locator(".bar-text").all_inner_texts()
        bars = [] if answer.label == "none of these" else answer.top
        assert [line.split("\n") for line in lines] == [
            [label, f"{round(100 * probability)} %"] for label, probability in bars
        ]
        assert answer.nearest_name in shown.locator(".reason").inner_text()
    assert [answer.label for answer in classifier.answers([str(file) for file in new])] == [
        "apple",
        "banana",
        "none of these",
        "pear",
    ]

    with page.expect_download() as download:
        page.get_by_role("button", name="Download predictions").click()
    download.value.save_as(tmp_path / "predictions.csv")
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 5


def test_a_mistake_is_suspected_moved_and_undone(page: Any, fruit: Path, tmp_path: Path) -> None:
    teach(page, fruit)
    drawn(FRUIT["apple"], 41).save(tmp_path / "wrong.png")
    drop(page, "section[aria-label='Class pear']", [tmp_path / "wrong.png"])
    counted(page, ".photos li", 16)
    page.get_by_text("wrong.png, in pear, looks like apple").wait_for()
    page.get_by_role("button", name="Move to apple").click()
    page.get_by_role("region", name="Class apple").get_by_text("6 photos").wait_for()
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("Undone: moving 1 photo to apple.").wait_for()
    page.get_by_role("region", name="Class pear").get_by_text("6 photos").wait_for()
    page.get_by_role("button", name="Undo").click()
    counted(page, ".photos li", 15)


def test_everything_goes_by_keyboard(page: Any, fruit: Path) -> None:
    """Classes are made and renamed, a photo is moved and deleted, a step is undone; no pointer is used."""
    keys = page.keyboard
    page.get_by_label("New class").focus()
    keys.type("stone")
    keys.press("Enter")
    page.get_by_role("region", name="Class stone").wait_for()
    teach(page, fruit)
    page.get_by_label("Name of the class stone").focus()
    keys.press("Control+a")
    keys.type("plum")
    keys.press("Enter")
    page.get_by_text("stone is now called plum.").wait_for()

    page.get_by_role("button", name="banana-0.jpg: move or delete").focus()
    keys.press("Enter")
    page.get_by_label("Move to").focus()
    keys.type("plum")
    keys.press("Tab")
    keys.press("Enter")
    page.get_by_text("The photo is moved to plum.").wait_for()
    page.get_by_role("region", name="Class plum").get_by_text("1 photo", exact=True).wait_for()

    page.get_by_role("button", name="banana-0.jpg: move or delete").focus()
    keys.press("Enter")
    page.get_by_role("button", name="Delete photo").focus()
    keys.press("Enter")
    page.get_by_text("The photo is deleted.").wait_for()
    counted(page, ".photos li", 14)
    keys.press("Control+z")
    counted(page, ".photos li", 15)
    page.get_by_role("button", name="banana-1.jpg: move or delete").focus()
    keys.press("Enter")
    keys.press("Escape")
    counted(page, ".photos li", 15)

    page.get_by_role("button", name="Delete the class plum").focus()
    keys.press("Enter")
    counted(page, ".photos li", 14)
    expect(page.locator("#classes-title")).to_be_focused(timeout=WAIT)


def test_new_photos_are_dropped_pasted_and_taught(page: Any, fruit: Path) -> None:
    teach(page, fruit)
    drop(page, "#try-drop", [fruit / "new" / "new apple.png"])
    counted(page, "#answers > li", 1)
    page.get_by_text("new apple.png: apple,").wait_for()
    page.evaluate(
        """(bytes) => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([new Uint8Array(bytes)], "image.png", { type: "image/png" }));
            const paste = new ClipboardEvent("paste", { clipboardData: transfer, bubbles: true });
            document.body.dispatchEvent(paste);
        }""",
        list((fruit / "new" / "new carrot.png").read_bytes()),
    )
    counted(page, "#answers > li", 2)
    first = page.locator("#answers > li").first
    assert first.locator(".verdict").inner_text() == "none of these"
    page.get_by_label("Answer “none of these”").click()
    first.locator(".verdict:not(.none)").wait_for()
    page.get_by_label("Answer “none of these”").click()
    first.locator(".verdict.none").wait_for()

    add_class(page, "carrot")
    first.get_by_role("combobox").select_option("carrot")
    first.get_by_role("button", name="Teach it").click()
    page.get_by_text("It is learned as carrot.").wait_for()
    first.get_by_text("You put it into carrot.").wait_for()
    assert first.locator(".verdict").inner_text() == "carrot"
    page.get_by_role("button", name="Clear the list").click()
    counted(page, "#answers > li", 0)


def test_the_camera_teaches_and_films(page: Any, fruit: Path) -> None:
    """Chromium's own test picture stands for a camera."""
    teach(page, fruit)
    page.get_by_role("button", name="Photograph pear with the camera").click()
    page.wait_for_timeout(500)
    page.get_by_role("button", name="Take photo").click()
    counted(page, ".photos li", 16)
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Camera…", exact=True).click()
    page.locator("#camera-answer", has_text="pear").wait_for()
    page.get_by_role("button", name="Keep this photo").click()
    counted(page, "#answers > li", 1)
    page.keyboard.press("Escape")
    # The dialog's close event, which stops the camera, comes in a task of its own after the key.
    page.wait_for_function("document.querySelector('video').srcObject === null")


def test_script_in_names_is_only_text(page: Any, fruit: Path, tmp_path: Path) -> None:
    drawn(FRUIT["apple"], 5).save(tmp_path / "apple.png")
    add_class(page, SCRIPT)
    page.locator("section.card input[type=file]").set_input_files(
        [{"name": f"{SCRIPT}.png", "mimeType": "image/png", "buffer": (tmp_path / "apple.png").read_bytes()}]
    )
    counted(page, ".photos li", 1)
    page.locator("#folders").set_input_files(str(fruit / "photos"))
    counted(page, ".photos li", 16)
    page.locator(".photos li button").first.click()
    assert SCRIPT in page.locator("#photo-class").inner_text()
    page.get_by_role("button", name="Close", exact=True).click()
    page.locator("#try-files").set_input_files(
        [{"name": f"{SCRIPT}.png", "mimeType": "image/png", "buffer": (tmp_path / "apple.png").read_bytes()}]
    )
    counted(page, "#answers > li", 1)
    assert page.title().startswith("fewset")
    assert page.locator("img[src=x]").count() == 0
    assert SCRIPT in page.locator("body").inner_text()
