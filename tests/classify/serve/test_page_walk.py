"""The page, as somebody walks through it: every way to give photos, all that it shows, for everybody."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.helpers.browser import WAIT, add_class, axe_script, counted, drop, teach
from tests.helpers.drawn import FRUIT, NONE, drawn

# A browser, a server and an encoder at once: on a busy machine everything takes its time.
pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]


def drop_folders(page: Any, selector: str, folders: list[Path]) -> None:
    """Drop folders of the disk as the system does, with what is in them."""
    box = page.locator(selector).bounding_box()
    place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + 20}
    data = {"items": [], "files": [str(folder) for folder in folders], "dragOperationsMask": 1}
    session = page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, "data": data, **place})
    session.detach()


def test_folders_are_dropped(page: Any, fruit: Path) -> None:
    drop_folders(page, "#classes", sorted((fruit / "photos").iterdir()))
    counted(page, ".photos li", 15)
    names = page.locator(".card input.name").evaluate_all("(all) => all.map((each) => each.value)")
    assert sorted(names) == sorted(FRUIT)


def test_photos_are_dragged(page: Any, fruit: Path) -> None:
    """On a page of its own: after a drop by the test itself, playwright's drags were not seen."""
    teach(page, fruit)
    page.get_by_role("button", name="apple-0.jpg: move or delete").drag_to(
        page.get_by_role("region", name="Class pear")
    )
    page.get_by_role("region", name="Class pear").get_by_text("6 photos").wait_for()
    expect(page.locator("[aria-busy=true]")).to_have_count(0, timeout=WAIT)
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("region", name="Class apple").get_by_text("5 photos").wait_for()


def test_what_it_knows_is_shown(page: Any, fruit: Path, tmp_path: Path) -> None:
    """The interval, the weakest class, confusions, the picture with both kinds of prototypes."""
    teach(page, fruit)
    add_class(page, "red fruit")
    for seed in range(3):  # a class that is another one
        drawn(FRUIT["apple"], 900 + seed).save(tmp_path / f"red-{seed}.png")
    drop(page, "section[aria-label='Class red fruit']", sorted(tmp_path.glob("red-*.png")))
    counted(page, ".photos li", 18)
    trust = page.locator("#trust-body")
    assert re.fullmatch(r"Right on \d+ to \d+ of 100 new photos", trust.locator(".headline").inner_text())
    assert "leave-one-out on 18 photos" in trust.inner_text()
    assert trust.get_by_role("heading", name="Taken for another class").count() == 1
    assert " taken for " in trust.inner_text()  # of which class depends on the order of the uploads
    weakest = trust.locator(".advice strong").inner_text()
    card = page.get_by_role("region", name=f"Class {weakest}", exact=True)
    assert card.get_by_text("Another photo of this class would help most.").is_visible()
    picture = page.locator("#picture svg")
    for mark in ("circle.before", "path.after", "line.adaptation"):
        assert picture.locator(mark).count() == 4, mark
    assert picture.locator(".photo-mark").count() == 18
    moved = picture.locator("line.adaptation").evaluate_all(
        "(all) => all.map((each) => Math.hypot(each.x2.baseVal.value - each.x1.baseVal.value,"
        " each.y2.baseVal.value - each.y1.baseVal.value))"
    )
    assert max(moved) > 1
    picture.locator(".photo-mark").first.dispatch_event("click")  # others may lie upon it
    assert page.get_by_role("dialog").is_visible()


def test_photos_are_shown_while_it_is_learning(page: Any, fruit: Path, tmp_path: Path) -> None:
    """As long as the server has not learned, the page says so and keeps the numbers and answers of before."""
    teach(page, fruit)
    page.locator("#try-files").set_input_files(str(fruit / "new" / "new pear.png"))
    counted(page, "#answers > li", 1)
    bars = page.locator("#answers .bars")
    expect(bars).to_have_count(1)

    def still_learning(route: Any) -> None:
        response = route.fetch()
        state = response.json() | {"learning": True, "trust": None, "can_reject": False}
        route.fulfill(response=response, json=state)

    page.route("**/api/state?*", still_learning)
    page.route("**/api/tried", lambda _: pytest.fail("it waits for what is learned"))
    drawn(FRUIT["pear"], 42).save(tmp_path / "another.png")
    drop(page, "section[aria-label='Class pear']", [tmp_path / "another.png"])
    expect(page.locator(".photos li")).to_have_count(16, timeout=WAIT)
    page.get_by_text("It is learning…").wait_for()
    page.get_by_text("It is learning from your photos.").wait_for()
    assert "on 15 photos" in page.locator("#trust-body").inner_text()
    expect(bars).to_have_count(1)
    page.get_by_role("button", name="Put away").click()
    expect(page.locator("#answers > li")).to_have_count(0, timeout=WAIT)

    page.unroute("**/api/state?*")
    page.unroute("**/api/tried")
    page.get_by_text("leave-one-out on 16 photos").wait_for()
    expect(page.locator("#working.shown")).to_have_count(0, timeout=WAIT)
    expect(page.locator("#learning")).to_be_hidden(timeout=WAIT)


def test_a_server_that_stays_busy_is_reported(page: Any) -> None:
    """The page asks again for a while, and then says what the server said."""
    page.expected.append(
        "error: Failed to load resource: the server responded with a status of 503 (Service Unavailable)"
    )
    asked = []

    def busy(route: Any) -> None:
        asked.append(route.request.url)
        route.fulfill(status=503, json={"detail": "2000 photos are waiting"})

    page.route("**/api/classes", busy)
    page.clock.install()
    page.get_by_label("New class").fill("apple")
    page.get_by_role("button", name="Add class").click()
    for _ in range(100):
        page.clock.run_for(2000)
        if page.locator("#problem").is_visible():
            break
    assert "2000 photos are waiting" in page.get_by_role("alert").inner_text()
    assert 10 <= len(asked) <= 50


def test_axe_finds_nothing_in_any_state(page: Any, fruit: Path, tmp_path: Path) -> None:
    """Nothing that axe-core knows to shut somebody out, light and dark, wide and on a phone."""
    script = axe_script(tmp_path)
    found: dict[str, list[str]] = {}

    def look(state: str) -> None:
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            if not page.evaluate("'axe' in window"):
                page.evaluate(script)  # as a script of the page it would be refused
            for violation in page.evaluate("axe.run(document)")["violations"]:
                places = [node["html"][:120] for node in violation["nodes"]]
                found.setdefault(f"{state}, {scheme}", []).append(f"{violation['id']}: {places}")

    look("empty")
    add_class(page, "stone")
    look("one class without photos")
    teach(page, fruit)
    look("taught")
    (tmp_path / "letter.jpg").write_text("dear reader")
    drawn(FRUIT["apple"], 41).save(tmp_path / "wrong.png")
    drop(
        page,
        "section[aria-label='Class pear']",
        [tmp_path / "wrong.png", fruit / "photos" / "pear" / "pear-0.jpg"],
    )
    counted(page, ".photos li", 17)
    drawn(NONE, 3).save(tmp_path / "carrot.png")
    page.expected.append(
        "error: Failed to load resource: the server responded with a status of 400 (Bad Request)"
    )
    tried = [tmp_path / "letter.jpg", tmp_path / "carrot.png", fruit / "new" / "new pear.png"]
    page.locator("#try-files").set_input_files([str(file) for file in tried])
    counted(page, "#answers > li", 2)
    assert page.get_by_role("alert").is_visible()
    assert page.get_by_role("heading", name="Suspicious photos").count() == 1
    assert page.get_by_role("heading", name="Copies of one photo").count() == 1
    look("suspects, copies, answers and a problem")
    page.get_by_role("button", name="wrong.png, looks like apple: move or delete").click()
    look("the dialog of a photo")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Camera…", exact=True).click()
    page.get_by_role("button", name="Keep this photo").wait_for()
    look("the camera")
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 360, "height": 740})
    look("a phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert found == {}


def test_the_most_useful_photos_are_named_by_keys(page: Any, fruit: Path) -> None:
    teach(page, fruit)
    page.locator("#try-files").set_input_files(sorted(map(str, (fruit / "new").iterdir())))
    counted(page, "#answers > li", len(FRUIT) + 1)
    page.get_by_role("button", name="Name the most useful ones…").click()
    dialog = page.get_by_role("dialog")
    title = dialog.get_by_role("heading")
    expect(title).to_contain_text(".png", timeout=WAIT)
    skipped = title.inner_text()
    page.keyboard.press("s")
    expect(title).not_to_have_text(skipped, timeout=WAIT)
    first = title.inner_text()
    second_class = page.locator(".card input.name").nth(1).input_value()
    page.keyboard.press("2")
    page.get_by_text(f"{first} is learned as {second_class}.").wait_for()
    expect(title).not_to_have_text(first, timeout=WAIT)
    page.get_by_role("region", name=f"Class {second_class}").get_by_text("6 photos").wait_for()
    while title.inner_text() != "There are no more photos to name":
        before = title.inner_text()
        assert before not in (first, skipped)
        page.keyboard.press("s")
        expect(title).not_to_have_text(before, timeout=WAIT)
    dialog.get_by_role("button", name="Close").click()
