"""Label Studio's protocol for backends (/setup, /predict, /versions, /health), without its SDK.

Label Studio asks for predictions of tasks and sends, as a rule, addresses of photos. A server that fetches
whatever address it is given can be made to fetch from the network that it stands in. So photos are taken from
the task itself (`data:` addresses), or fetched from the one Label Studio that was named when the server was
started, never from the host that a request names.
"""

from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple
from xml.etree import ElementTree

from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field

from fewset.classify.answers import NONE_OF_THESE, Answer
from fewset.classify.photo_rows import PhotoRow
from fewset.classify.photos import Photo
from fewset.classify.web.interface import RESPONSES, Interface
from fewset.classify.web.label_studio_photos import TaskPhotos
from fewset.classify.web.workbench import Moment
from fewset.runtime.errors import UserError

_LONGEST_CONFIG = 200_000


class SetupRequest(BaseModel):
    project: Any = None
    label_config: str = Field(default="", alias="schema")
    hostname: Any = None
    access_token: Any = None
    extra_params: Any = None


class SetupReply(BaseModel):
    model_version: str


class Task(BaseModel):
    id: Any = None
    data: dict[str, Any]


class Predict(BaseModel):
    tasks: list[Task] = Field(max_length=1000)
    label_config: str = Field(max_length=_LONGEST_CONFIG)
    project: Any = None
    params: Any = None
    model_version: Any = None


class Prediction(BaseModel):
    result: list[dict[str, Any]]
    score: float
    model_version: str
    problem: str = Field(default="", description="Why there is no result.")


class Predictions(BaseModel):
    results: list[Prediction]
    model_version: str


class Versions(BaseModel):
    versions: list[str]


class Health(BaseModel):
    status: str = "UP"
    model_class: str = "FewShotClassifier"


class Question(NamedTuple):
    """What a labelling configuration asks: one choice about one photo."""

    choice: str
    """The name of the Choices."""
    image: str
    """The name of the Image."""
    key: str
    """Where in a task's data the photo is."""
    options: frozenset[str]
    """What may be chosen; empty where the configuration leaves it open."""


class LabelStudio:
    """The routes. `address` is that of the Label Studio from which photos may be fetched."""

    def __init__(self, interface: Interface, address: str | None = None) -> None:
        self.interface = interface
        self.read = TaskPhotos(address)
        self.router = APIRouter(responses=RESPONSES, tags=["Label Studio"])
        self.router.add_api_route("/setup", self.setup, methods=["POST"])
        self.router.add_api_route("/predict", self.predict, methods=["POST"])
        self.router.add_api_route("/versions", self.versions, methods=["GET"])
        self.router.add_api_route("/health", self.health, methods=["GET"])

    def health(self) -> Health:
        """That the server is there."""
        return Health()

    def versions(self) -> Versions:
        """Which classifiers can answer: the one that is here now."""
        return Versions(versions=[version(self.interface.bench.moment())])

    def setup(self, asked: SetupRequest) -> SetupReply:
        """Check a project's configuration, and say which classifier would answer."""
        if asked.label_config:
            question(asked.label_config)
        return SetupReply(model_version=version(self.interface.bench.moment()))

    async def predict(self, asked: Predict) -> Predictions:
        """Predict tasks: one choice each."""
        posed = question(asked.label_config)
        photos = [Photo(_name(task), partial(self.read, task.data.get(posed.key))) for task in asked.tasks]
        rows = await self.interface.rows(photos, thumbnails=False)
        return await run_in_threadpool(self._predictions, posed, rows)

    def _predictions(self, posed: Question, rows: Sequence[PhotoRow]) -> Predictions:
        moment = self.interface.bench.moment()
        results = [prediction(posed, answer, version(moment)) for answer in moment.answers(rows, top=1)]
        return Predictions(results=results, model_version=version(moment))


def question(label_config: str) -> Question:
    """The first Choices of a configuration that is about an Image."""
    if "<!" in label_config.replace("<!--", ""):  # no entities, which may grow without end
        raise UserError("the labelling configuration has a DOCTYPE or an entity, expected plain tags")
    try:
        tags = list(ElementTree.fromstring(label_config).iter())
    except (ElementTree.ParseError, ValueError) as error:
        raise UserError(f"the labelling configuration is not XML: {error}") from None
    images = {tag.get("name"): tag.get("value", "") for tag in tags if tag.tag == "Image"}
    for tag in tags:
        name, image = tag.get("name"), tag.get("toName")
        if tag.tag == "Choices" and name and image in images and images[image].startswith("$"):
            options = (choice.get("alias") or choice.get("value") or "" for choice in tag.iter("Choice"))
            return Question(name, image or "", images[image][1:], frozenset(filter(None, options)))
    raise UserError(
        'the labelling configuration has no choice about an image, expected <Image name="image" '
        'value="$image"/> and <Choices name="class" toName="image">'
    )


def prediction(posed: Question, answer: Answer, model_version: str) -> Prediction:
    """An answer as Label Studio reads it; one that it does not offer is none."""
    label, problem = str(answer.label), answer.problem
    if not problem and posed.options and label not in posed.options:
        problem = f"{label!r} is not among the choices of the project"
    elif label == NONE_OF_THESE and not posed.options:
        problem = NONE_OF_THESE
    if problem:
        return Prediction(result=[], score=0, model_version=model_version, problem=problem)
    value = {
        "from_name": posed.choice,
        "to_name": posed.image,
        "type": "choices",
        "value": {"choices": [label]},
        "score": answer.probability,
    }
    return Prediction(result=[value], score=answer.probability, model_version=model_version)


def version(moment: Moment) -> str:
    """Changes whenever answers may."""
    if moment.learned is None:
        return "fewset-empty"
    linear = moment.learned.linear
    digest = sha256("\0".join(map(str, moment.learned.support.classes)).encode())
    for part in (linear.weight, linear.bias, linear.shift):
        digest.update(part.tobytes())
    digest.update(f"{linear.temperature} {moment.album.share}".encode())
    return f"fewset-{digest.hexdigest()[:12]}"


def _name(task: Task) -> str:
    return f"task {task.id}"[:100]
