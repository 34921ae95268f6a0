from dataclasses import replace

import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.data.images.store import ImageSet, open_set, set_path, write_store
from fewset.evaluation.controls import set_adds
from fewset.evaluation.protocols import Job
from fewset.evaluation.protocols.ways import Ways
from fewset.evaluation.scoring import evaluate
from fewset.tasks.spec import TaskSpec
from tests.helpers.pixel_model import SIDE, pixel_features, pixel_model

SPEC = TaskSpec(way=5, shot=2, query=3, tasks=23, seed=4)


@pytest.fixture
def images() -> ImageSet:
    """13 classes of 7 items, all for tests."""
    labels = np.repeat(np.arange(13), 7)
    with write_store(
        set_path("thirteen"),
        size=SIDE,
        labels=labels,
        class_names=[f"class{label}" for label in range(13)],
        splits=np.full(len(labels), 2),
        source="made by a test",
    ) as draft:
        generator = np.random.default_rng(5)
        classes = generator.normal(size=(13, SIDE, SIDE, 3))
        noise = generator.normal(size=(len(labels), SIDE, SIDE, 3))
        draft.images[:] = np.clip(128 + 30 * (classes[labels] + noise), 0, 255)
    return open_set("thirteen")


def test_each_number_of_ways_is_scored_as_by_itself(images: ImageSet) -> None:
    model, features = pixel_model("attention"), pixel_features(images)
    job, protocol = Job(model, images, "test", None, SPEC), Ways(ways=(3, 11))
    outcome = protocol.evaluate(job, protocol.prepare(job))
    scores = {5: outcome.score, 3: outcome.scores["3_way"], 11: outcome.scores["11_way"]}
    assert list(outcome.scores) == ["3_way", "11_way", "alone"]
    for way, score in scores.items():
        by_itself, alone = (
            evaluate(each, features, images.labels, replace(SPEC, way=way)) for each in (model, model.alone())
        )
        np.testing.assert_array_equal(score.per_task, by_itself.per_task)
        assert outcome.fields["set_adds_to"][f"{way}_way"] == set_adds(by_itself, alone)
    assert outcome.fields["set_adds"] == outcome.fields["set_adds_to"]["5_way"]
    assert scores[3].mean > scores[5].mean > scores[11].mean


def test_ways_that_cannot_be_drawn_are_rejected_before_anything_is_embedded(images: ImageSet) -> None:
    job = Job(pixel_model("identity"), images, "test", None, SPEC)
    with pytest.raises(UserError, match="the way is 17, but there are 13 classes"):
        Ways(ways=(3, 17)).prepare(job)
    with pytest.raises(UserError, match="way is 0"):
        Ways(ways=(3, 0)).prepare(job)
