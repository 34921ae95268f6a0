"""A machine-learning backend for Label Studio: it predicts tasks with a fewset classifier.

    export LABEL_STUDIO_URL=http://localhost:8080 LABEL_STUDIO_API_KEY=...
    python label_studio_backend.py my.fewset        # needs: pip install 'fewset[web]'

Then add http://localhost:9090 as a model in the settings of a project with an Image and Choices.
"""

import json
import os
import sys
from hashlib import sha256
from http.client import HTTPException
from math import isnan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, build_opener, urlopen
from urllib.request import Request as Question
from xml.etree import ElementTree

import uvicorn
from fastapi import Body, FastAPI, Request, Response

from fewset import FewShotClassifier

STUDIO = os.environ.get("LABEL_STUDIO_URL", "http://localhost:8080").rstrip("/") + "/"
KEY = os.environ.get("LABEL_STUDIO_API_KEY", "")
SECONDS = 20.0
Tasks = Annotated[list[dict[str, Any]], Body()]


class NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """A redirect could lead to another host."""


def photo(place: Any) -> bytes:
    """The photo at the address of a task: from Label Studio only, and only from below /data/."""
    if str(place).startswith("data:"):
        return bytes(urlopen(place).read())
    asked, studio = urlsplit(urljoin(STUDIO, str(place))), urlsplit(STUDIO)
    path = unquote(asked.path)
    if asked[:2] != studio[:2] or not path.startswith(f"{studio.path}data/") or ".." in path.split("/"):
        raise ValueError(f"photos are read from {STUDIO}data/ only")
    address = urlunsplit((*asked[:2], quote(path), quote(asked.query, safe="%=&/:+,"), ""))
    return answer(Question(address, headers={"Authorization": authorization()} if KEY else {}))


def authorization() -> str:
    """The header for the key; a personal access token is exchanged for one that is valid for minutes."""
    if KEY.count(".") != 2:
        return f"Token {KEY}"
    body, kind = json.dumps({"refresh": KEY}).encode(), {"Content-Type": "application/json"}
    return f"Bearer {json.loads(answer(Question(f'{STUDIO}api/token/refresh/', body, kind)))['access']}"


def answer(question: Question) -> bytes:
    with build_opener(NoRedirects).open(question, timeout=SECONDS) as response:
        return bytes(response.read())


def question(config: str) -> tuple[str, str, str]:
    """The names of the first Choices for an Image, of the Image, and of the photo in a task's data."""
    tags = list(ElementTree.fromstring(config).iter())
    images = {tag.get("name"): tag.get("value", "") for tag in tags if tag.tag == "Image"}
    found = [tag.attrib for tag in tags if tag.tag == "Choices" and tag.get("toName") in images]
    return found[0]["name"], found[0]["toName"], images[found[0]["toName"]].removeprefix("$")


def application(file: Path) -> FastAPI:
    """The routes that Label Studio calls."""
    classifier, app = FewShotClassifier.load(file), FastAPI()
    version = f"fewset-{sha256(file.read_bytes()).hexdigest()[:12]}"

    @app.exception_handler(ElementTree.ParseError)
    @app.exception_handler(LookupError)
    def wrong_config(_: Request, error: Exception) -> Response:
        return Response(f"the labelling configuration has no Choices for an Image: {error}", 400)

    @app.get("/health")
    def health() -> dict[str, str]:
        return {"status": "UP", "model_class": "FewShotClassifier"}

    @app.post("/setup")
    def setup(schema: Annotated[str, Body(embed=True)] = "") -> dict[str, str]:
        if schema:
            question(schema)
        return {"model_version": version}

    @app.post("/predict")
    def predict(tasks: Tasks, label_config: Annotated[str, Body()]) -> dict[str, Any]:
        choices, image, key = question(label_config)
        with TemporaryDirectory() as folder:
            return {"results": [result(task, choices, image, key, folder) for task in tasks]}

    def result(task: dict[str, Any], choices: str, image: str, key: str, folder: str) -> dict[str, Any]:
        """The prediction for one task; an error with its photo is the problem of this task alone."""
        try:
            path = Path(folder, "photo.jpg")
            path.write_bytes(photo(task["data"][key]))
            (found,) = classifier.answers([path], top=1)
            if found.problem:
                raise ValueError(found.problem)
        except (OSError, ValueError, TypeError, LookupError, HTTPException) as error:
            problem = f"{type(error).__name__}: {error}"
            return {"result": [], "score": 0.0, "model_version": version, "problem": problem}
        value = {"choices": [str(found.label)]}
        chosen = {"from_name": choices, "to_name": image, "type": "choices", "value": value}
        score = 0.0 if isnan(found.probability) else found.probability  # none of these
        return {"result": [chosen | {"score": score}], "score": score, "model_version": version}

    return app


if __name__ == "__main__":
    uvicorn.run(application(Path(sys.argv[1])), port=9090)
