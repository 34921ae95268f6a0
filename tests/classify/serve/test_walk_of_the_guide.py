"""The walk of docs/walk.md in a real browser: each step works as it says.

With FEWSET_SCREENSHOTS=docs/static in the environment it makes the pictures of the guide.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest

from fewset.classify.saving import load_classifier
from tests.helpers.browser import counted, drop, served, shoot, teach
from tests.helpers.drawn import FRUIT, drawn

# A browser, a server and an encoder at once: on a busy machine everything takes its time.
pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]


def test_the_walk(browser: Any, fruit: Path, tmp_path: Path) -> None:
    new = [str(path) for path in sorted((fruit / "new").iterdir())]
    shutil.copyfile(fruit / "photos" / "apple" / "apple-0.jpg", tmp_path / "fruit bowl.jpg")
    drawn(FRUIT["apple"], 41).save(tmp_path / "IMG_2041.png")
    with served(home=tmp_path / "home") as address:
        page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        page.goto(address)
        teach(page, fruit)
        shoot(page, "walk-classes", "#classes")
        drop(page, "section[aria-label='Class pear']", sorted(tmp_path.glob("*.*g")))
        counted(page, ".photos li", 17)
        shoot(page, "walk-trust", "#trust")
        page.get_by_role("button", name="It is apple").click()
        page.get_by_role("button", name="Move to apple").first.click()
        page.get_by_role("region", name="Class pear").get_by_text("5 photos").wait_for()
        page.get_by_role("region", name="Class apple").get_by_text("6 photos").wait_for()

        page.locator("#try-files").set_input_files(new)
        counted(page, "#answers > li", 4)
        shoot(page, "walk-try", "#tries")
        page.get_by_text("Saved at").wait_for()
        shoot(page, "serve")
        page.get_by_role("button", name="new banana.png: larger").click()
        shoot(page, "walk-larger", "#photo-dialog")
        page.keyboard.press("Escape")
        banana = page.locator("#answers > li", has=page.get_by_alt_text("new banana.png"))
        banana.get_by_role("button", name="Teach it").click()
        banana.get_by_text("You put it into banana.").wait_for()

        phone = browser.new_context(
            viewport={"width": 390, "height": 844}, color_scheme="dark", has_touch=True, is_mobile=True
        ).new_page()
        phone.goto(address)
        counted(phone, ".photos li", 17)
        shoot(phone, "walk-phone", full_page=False)
        assert phone.evaluate("document.documentElement.scrollWidth") <= 390
        with page.expect_download() as download:
            page.get_by_role("button", name="Download classifier").click()
        download.value.save_as(tmp_path / "my.fewset")
        assert load_classifier(tmp_path / "my.fewset")[0].support.shots.tolist() == [6, 6, 5]

    with served(home=tmp_path / "home") as address:
        page.goto(address)
        page.get_by_role("button", name="Open…").click()
        page.get_by_role("button", name="Open the work of").wait_for()
        shoot(page, "walk-open", "#open-dialog")
        page.get_by_role("button", name="Open the work of").click()
        counted(page, ".photos li", 17)
