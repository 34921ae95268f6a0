import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.data.images.store import ImageSet, open_set, set_path, write_store
from fewset.evaluation.protocols import Job
from fewset.evaluation.protocols.cross_domain import CrossDomain, cross_domains
from fewset.evaluation.scoring import evaluate
from fewset.models.model import FewShotModel
from fewset.tasks.sampling import sample_tasks
from fewset.tasks.scores import Score
from fewset.tasks.spec import TaskSpec
from tests.helpers.embedded import distance
from tests.helpers.pixel_model import SIDE, pixel_features, pixel_model

SPEC = TaskSpec(way=3, shot=2, query=5, tasks=31, seed=2)


def crossing_score(model: FewShotModel, images: ImageSet, support: str, query: str) -> Score:
    """By the function that `fewset eval --setting cross-domain` calls."""
    job = Job(model, images, "test", None, SPEC)
    protocol = CrossDomain(support_domain=support, query_domain=query)
    return protocol.evaluate(job, protocol.prepare(job)).score


@pytest.fixture
def images() -> ImageSet:
    """11 classes (the last 7 for tests) in 3 domains of 13 items; item n of each is of the same origin."""
    labels, domains, number = (
        axis.ravel() for axis in np.meshgrid(np.arange(11), np.arange(3), np.arange(13))
    )
    order = np.random.default_rng(0).permutation(len(labels))
    labels, domains, origins = labels[order], domains[order], (13 * labels + number)[order]
    with write_store(
        set_path("tiny"),
        size=SIDE,
        labels=labels,
        class_names=[f"class{label}" for label in range(11)],
        splits=np.where(labels < 4, 0, 2),
        domains=domains,
        domain_names=("Art", "Clipart", "Real"),
        origins=origins,
        source="made by a test",
    ) as draft:
        generator = np.random.default_rng(3)
        shape = (SIDE, SIDE, 3)
        classes, looks = generator.normal(size=(11, *shape)), generator.normal(size=(3, *shape))
        noise = generator.normal(size=(len(labels), *shape))
        draft.images[:] = np.clip(128 + 25 * (classes[labels] + 0.5 * looks[domains] + 1.3 * noise), 0, 255)
    return open_set("tiny")


def test_protonet_across_domains_against_a_loop(images: ImageSet) -> None:
    table = pixel_features(images)
    crossing = cross_domains(images, "test", "Clipart", "Real")
    score = crossing_score(pixel_model("identity"), images, "Clipart", "Real")
    for number in range(SPEC.tasks):
        rows = crossing.rows[sample_tasks(crossing.index, SPEC, number, number + 1)[0]]
        assert (images.domains[rows[:, :2]] == 1).all()
        assert (images.domains[rows[:, 2:]] == 2).all()
        assert (images.labels[rows] >= 4).all()
        assert not np.intersect1d(images.origins[rows[:, :2]], images.origins[rows[:, 2:]]).size
        centres = [table[one[:2]].numpy().mean(0) for one in rows]
        right = 0
        for way, one in enumerate(rows):
            for row in one[2:]:
                distances = [distance(table[row].numpy(), centre) for centre in centres]
                right += int(np.argmin(distances) == way)
        assert score.per_task[number] == pytest.approx(right / 15)
    assert 0.4 < score.mean < 0.95


@pytest.mark.parametrize("domain", ["Clipart", "Real"])
def test_one_domain_is_standard(domain: str, images: ImageSet) -> None:
    table, model = pixel_features(images), pixel_model("attention")
    crossing, selection = cross_domains(images, "test", domain, domain), images.select("test", domain)
    np.testing.assert_array_equal(crossing.rows, selection.rows)
    found = crossing_score(model, images, domain, domain)
    expected = evaluate(model, table[selection.rows], selection.labels, SPEC)
    np.testing.assert_array_equal(found.per_task, expected.per_task)


def test_an_unknown_domain_is_named(images: ImageSet) -> None:
    with pytest.raises(UserError, match="unknown domain of 'tiny': 'Reel'"):
        cross_domains(images, "test", "Clipart", "Reel")
