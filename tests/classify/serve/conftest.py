"""The page in a browser, for the tests of it. One browser and one server a file of tests."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from fewset.classify.trust.rejection import SHARE
from tests.helpers.browser import WAIT, launched, own, post, served
from tests.helpers.drawn import FRUIT, NONE, drawn, write_fruit


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as opened:
        yield opened


@pytest.fixture(scope="module")
def server(browser: Any) -> Iterator[str]:  # noqa: ARG001 - none is started where there is no browser
    with served() as address:
        yield address


@pytest.fixture(scope="module")
def fruit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five photos a class, and new ones in the folder "new"."""
    folder = tmp_path_factory.mktemp("fruit")
    write_fruit(folder / "photos", 5)
    (folder / "new").mkdir()
    for name, what in {**FRUIT, "carrot": NONE}.items():
        drawn(what, 77).save(folder / "new" / f"new {name}.png")
    return folder


@pytest.fixture
def page(browser: Any, server: str) -> Iterator[Any]:
    """An empty page; whatever it complains of, or asks of another host, fails the test."""
    state = json.load(urlopen(f"{server}api/state"))
    for each in state["classes"]:
        post(server, "api/classes/remove", {"name": each["name"]})
    post(server, "api/reject", {"share": SHARE})
    tried = [answer["number"] for answer in json.load(urlopen(f"{server}api/tried"))["answers"]]
    if tried:
        post(server, "api/tried/forget", {"photos": tried})
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    opened = context.new_page()
    opened.set_default_timeout(WAIT)
    trouble: list[str] = []
    opened.expected = []
    opened.on("console", lambda message: trouble.append(f"{message.type}: {message.text}"))
    opened.on("pageerror", lambda error: trouble.append(str(error)))
    opened.on(
        "request", lambda request: trouble.append(request.url) if not own(request.url, server) else None
    )
    opened.goto(server)
    opened.get_by_text("Make two classes").wait_for()
    yield opened
    context.close()
    assert [each for each in trouble if each not in opened.expected] == []
