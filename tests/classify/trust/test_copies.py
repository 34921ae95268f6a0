"""Copies of one photo: against a loop over all pairs, in little memory, and for flat pictures too."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from fewset.classify.photos.rows import fingerprint
from fewset.classify.trust.copies import ALIKE_BITS, ALIKE_PHOTO, SAME_PHOTO, numbered_copies
from tests.helpers.classifier_tasks import unit


def naive(rows: np.ndarray, fingerprints: np.ndarray) -> list[int]:
    """Copies of copies are copies: numbers are joined until no pair has two."""
    centred = [unit(row) for row in rows - rows.mean(axis=0)]
    numbers = list(range(len(rows)))
    for i, row in enumerate(centred):
        for j, other in enumerate(centred[:i]):
            bits = (int(fingerprints[i]) ^ int(fingerprints[j])).bit_count()
            cosine = float(row @ other)
            if cosine > SAME_PHOTO or (bits <= ALIKE_BITS and cosine > ALIKE_PHOTO):
                old, new = max(numbers[i], numbers[j]), min(numbers[i], numbers[j])
                numbers = [new if number == old else number for number in numbers]
    return np.unique(numbers, return_inverse=True)[1].tolist()


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_copies_of_copies_have_one_number(seed: int) -> None:
    generator = np.random.default_rng(seed)
    means = generator.normal(size=(5, 7))
    rows = means[generator.integers(0, 5, size=31)] + generator.normal(scale=0.3, size=(31, 7))
    fingerprints = generator.choice(generator.integers(1, 2**63, size=4, dtype=np.uint64), size=31)
    assert numbered_copies(rows, fingerprints).tolist() == naive(rows, fingerprints)


def test_memory_does_not_grow_with_the_pairs() -> None:
    generator = np.random.default_rng(0)
    rows = np.concatenate([np.ones((3000, 7)), generator.normal(size=(11, 7))])
    fingerprints = np.full(len(rows), 12345, dtype=np.uint64)
    tracemalloc.start()
    numbers = numbered_copies(rows, fingerprints)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (numbers[:3000] == 0).all()
    assert peak < 50e6  # the pairs alone would take 144 MB


@pytest.mark.parametrize("picture", ["flat", "brightening"])
def test_flat_pictures_have_copies_too(picture: str) -> None:
    pixels = (
        np.full((64, 90), 128, np.uint8)
        if picture == "flat"
        else np.tile(np.arange(90, dtype=np.uint8), (64, 1))
    )
    image = Image.fromarray(pixels)
    prints = [fingerprint(each.convert("RGB")) for each in (image, image.resize((45, 32)))]
    assert 0 not in prints
    rows = np.array([[1.0, 0.1, 0], [1.0, 0.0, 0], [-1.0, 0, 1.0]])  # the copy is at a cosine of 0.99
    found = numbered_copies(rows, np.array([*prints, 2**63 - 1], dtype=np.uint64))
    assert found.tolist() == [0, 0, 1]
