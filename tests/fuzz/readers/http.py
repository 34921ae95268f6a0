"""The HTTP interface of `fewset serve`: odd requests, then the state, which must be told as before."""

import json
import traceback
from random import Random
from typing import Any

from tests.fuzz.case import Case, Ending, reader
from tests.fuzz.readers.images import damaged_photo
from tests.fuzz.room import Room
from tests.helpers.damage import altered, damaged, json_text, odd_number, odd_text
from tests.helpers.photos import CLASSES
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
_PAGES = (
    "/api/state",
    "/api/tried",
    "/api/picture",
    "/api/downloads/{}",
    "/api/photos/{}/thumbnail",
    "/{}",
    "/docs",
)
_SHOWN = 300


def _request(opened: Any, rng: Random) -> Any:
    kind = rng.randrange(5)
    if kind == 0:
        page = rng.choice(_PAGES).format(_quoted(odd_text(rng)) if rng.random() < 0.6 else odd_number(rng))
        return opened.request(rng.choice(("GET", "HEAD", "DELETE", "POST")), page)
    if kind < 3:
        place = rng.choice(list(_BODIES))
        text = json_text(altered(_BODIES[place], rng)).encode("utf-8", "surrogatepass")
        text = damaged(text, rng) if rng.random() < 0.2 else text
        header = {"content-type": rng.choice(("application/json", "application/json", "text/plain"))}
        return opened.post(place, content=text, headers=header)
    data: dict[str, Any] = {"label": _encodable(rng.choice((*CLASSES, odd_text(rng)))), "group": "a"}
    if kind == 3:
        name = _encodable(odd_text(rng))
        sent = [("photos", (name or "x", damaged_photo(rng)[1])), ("photos", ("b.png", png("grass", 7)))]
        place = rng.choice(("/api/photos", "/api/classify"))
        odd = {rng.choice(("top", "keep", "label", "group")): _encodable(str(odd_number(rng)))}
        return opened.post(place, data=data | odd, files=sent)
    whole = opened.build_request("POST", "/api/photos", data=data, files=files("grass", 9))
    body = damaged(whole.read(), rng)
    return opened.post("/api/photos", content=body, headers={"content-type": whole.headers["content-type"]})


def _quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(text.encode("utf-8", "surrogatepass")[:2000], safe="/")


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _serve(rng: Random) -> Ending:
    """Exit code 2 stands for a request that was refused, 1 for an answer that no request may get."""
    lines = []
    with client() as opened:
        teach(opened, shots=2)
        opened.post("/api/classify", data={"keep": "true"}, files=files("grass", 5))
        for _ in range(8):
            try:
                answer = _request(opened, rng)
            except Exception:  # what a server would answer with 500
                return Ending(1, "\n".join(lines), traceback.format_exc())
            lines.append(f"{answer.status_code} {answer.request.method} {answer.request.url}"[:_SHOWN])
            if answer.status_code >= 500:
                return Ending(1, "\n".join(lines), answer.text)
        state = opened.get("/api/state")
        if state.status_code != 200 or not json.loads(state.text)["encoder"]:
            return Ending(1, "\n".join(lines), state.text)
    refused = any(line.startswith("4") for line in lines)
    return Ending(2, "", "error: a request was refused") if refused else Ending(0, "", "")


@reader("HTTP")
def http(room: Room, rng: Random) -> Case:  # noqa: ARG001, nothing is read from the room
    return Case(("serve",), act=lambda: _serve(rng))
