"""DN4 against a loop over the places of a query and of a class."""

import pytest

from fewset.models.heads.dn4 import Dn4Head
from tests.helpers.heads import DIM, PLACES, assert_equals_the_loop, cosine, with_and_without_mask


@pytest.mark.parametrize("neighbours", [1, 3, 8])  # of the last a class with one shot has fewer places
@with_and_without_mask
def test_equals_the_loop(mask, neighbours):
    def alike(q, shots):
        total, count = 0.0, 0
        for place in q.reshape(-1, DIM):
            cosines = sorted((cosine(place, other) for other in shots.reshape(-1, DIM)), reverse=True)
            total, count = total + sum(cosines[:neighbours]), count + len(cosines[:neighbours])
        return total / count / 0.3

    def naive(shots, queries):
        return [[alike(q, each) for each in shots] for q in queries]

    assert_equals_the_loop(Dn4Head(DIM, neighbours, temperature=0.3), naive, mask, places=PLACES)
