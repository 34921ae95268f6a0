"""The HTTP interface of `fewset serve`: odd requests, after which its state must still be readable."""

import json
import traceback
from random import Random
from typing import Any
from urllib.parse import quote

from tests.fuzz.case import Case, Ending, reader
from tests.fuzz.room import Room
from tests.helpers.containers import spoiled
from tests.helpers.damage import Spared, altered, damaged, json_text, odd_number, odd_text
from tests.helpers.photos import CLASSES, photo_files
from tests.helpers.web import client, files, png, teach

_BODIES: dict[str, Any] = {
    "/api/photos/move": {"photos": [0, 1], "label": "grass"},
    "/api/photos/remove": {"photos": [2]},
    "/api/classes": {"name": "new"},
    "/api/classes/rename": {"name": "grass", "new_name": "meadow"},
    "/api/classes/remove": {"name": "brick"},
    "/api/reject": {"share": 0.05},
    "/api/undo": {},
    "/api/tried/teach": {"photos": [0], "label": "grass"},
    "/api/tried/forget": {"photos": [0]},
}
_PAGES = "state", "tried", "picture", "downloads/{}", "photos/{}/thumbnail", "../{}", "../docs"


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _page(opened: Any, rng: Random) -> Any:
    name = quote(odd_text(rng).encode("utf-8", "surrogatepass")[:2000], safe="/")
    page = rng.choice(_PAGES).format(rng.choice((name, str(odd_number(rng)))))
    return opened.request(rng.choice(("GET", "HEAD", "DELETE", "POST")), f"/api/{page}")


def _json(opened: Any, rng: Random) -> Any:
    place = rng.choice(list(_BODIES))
    text = json_text(altered(_BODIES[place], rng)).encode("utf-8", "surrogatepass")
    text = damaged(text, rng) if rng.random() < 0.2 else text
    return opened.post(place, content=text, headers={"content-type": "application/json"})


def _upload(opened: Any, rng: Random) -> Any:
    data = {"label": _encodable(rng.choice((*CLASSES, odd_text(rng))))}
    data[rng.choice(("top", "keep", "label", "group"))] = _encodable(str(odd_number(rng)))
    bad = spoiled(rng.choice(list(photo_files().values())), rng)
    sent = [("photos", (_encodable(odd_text(rng)) or "x", bad)), ("photos", ("b.png", png("grass", 7)))]
    return opened.post(rng.choice(("/api/photos", "/api/classify")), data=data, files=sent)


def _form(opened: Any, rng: Random) -> Any:
    whole = opened.build_request("POST", "/api/photos", data={"label": "grass"}, files=files("grass", 9))
    body = damaged(whole.read(), rng)
    return opened.post("/api/photos", content=body, headers={"content-type": whole.headers["content-type"]})


def _serve(rng: Random) -> Ending:
    """Exit code 2 stands for a request that was rejected, 1 for an answer that no request may get."""
    codes = []
    with client() as opened:
        teach(opened, shots=2)
        opened.post("/api/classify", data={"keep": "true"}, files=files("grass", 5))
        for _ in range(0 if isinstance(rng, Spared) else 8):
            try:
                answer = rng.choice((_page, _json, _json, _upload, _form))(opened, rng)
            except Exception:  # a server would answer with 500
                return Ending(1, "", traceback.format_exc())
            codes.append(answer.status_code)
            if answer.status_code >= 500:
                return Ending(1, "", f"{answer.request.method} {answer.request.url}: {answer.text}")
        if not json.loads(opened.get("/api/state").text)["encoder"]:
            return Ending(1, "", "the state is gone")
    rejected = any(code >= 400 for code in codes)
    return Ending(2, "", "error: a request was rejected") if rejected else Ending(0, "", "")


@reader("HTTP")
def http(room: Room, rng: Random) -> Case:  # noqa: ARG001, nothing is read from the room
    return Case(("serve",), act=lambda: _serve(rng))
