"""ProtoNet's head against NumPy."""

from fewset.models.heads.prototype import PrototypeHead
from tests.helpers.embedded import distance
from tests.helpers.heads import DIM, assert_equals_the_loop, cosine, with_and_without_mask


@with_and_without_mask
def test_equals_the_loop(mask):
    def euclidean(shots, queries):
        return [[-distance(q, class_shots.mean(axis=0)) / 2.5 for class_shots in shots] for q in queries]

    def by_cosine(shots, queries):
        return [[cosine(q, class_shots.mean(axis=0)) / 0.5 for class_shots in shots] for q in queries]

    assert_equals_the_loop(PrototypeHead(DIM, temperature=2.5), euclidean, mask)
    assert_equals_the_loop(PrototypeHead(DIM, similarity="cosine", temperature=0.5), by_cosine, mask)
