"""schemathesis over the OpenAPI page: what the schema allows, and what it does not, is no server error."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import hypothesis
import pytest
import schemathesis
import torch

from fewset.classify.photos.rows import photo_rows
from fewset.classify.photos.sources import opened_photos
from fewset.classify.serve.embedding_queue import EmbeddingQueue
from fewset.classify.serve.server import application
from fewset.classify.serve.workbench import Workbench
from tests.helpers.photos import CLASSES, photo
from tests.helpers.web import STAMP, TINY


@pytest.fixture(scope="module")
def described() -> Iterator[Any]:
    """The schema of a server that knows three classes."""
    bench, queue = Workbench(STAMP), EmbeddingQueue(TINY)
    for label in CLASSES:
        with opened_photos([photo(label, seed) for seed in range(2)]) as photos:
            bench.add(label, list(photo_rows(photos, TINY)))
    yield schemathesis.openapi.from_asgi("/openapi.json", application(bench, queue), headers=HOST)
    queue.close()


@pytest.fixture
def small_numbers() -> None:
    """hypothesis makes numbers that a command of an earlier test, in this process, may have flushed to 0."""
    torch.set_flush_denormal(False)


HOST = {"host": "localhost"}
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)


@pytest.mark.usefixtures("small_numbers")
@pytest.mark.parametrize(("mode", "routes"), [("POSITIVE", 16), ("NEGATIVE", 11)])
def test_whatever_is_asked_there_is_no_server_error(described: Any, mode: str, routes: int) -> None:
    """A few requests by, and against, the description of each route; some have nothing to get wrong."""
    asked: set[str] = set()
    checks = [getattr(schemathesis.checks, name) for name in CHECKS]
    few = hypothesis.settings(
        max_examples=10,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )

    def ask(case: Any) -> None:
        asked.add(case.operation.label)
        case.validate_response(case.call(headers=HOST), checks=checks)

    for operation in described.get_all_operations():
        cases = operation.ok().as_strategy(generation_mode=schemathesis.GenerationMode[mode])
        with suppress(hypothesis.errors.Unsatisfiable):
            few(hypothesis.given(cases)(ask))()
    assert len(asked) >= routes
