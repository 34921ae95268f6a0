"""Labels of items."""

import numpy as np


def shuffled_labels(counts: list[int], seed: int = 0) -> np.ndarray:
    """Labels that are neither sorted nor contiguous, `counts` items of each class."""
    labels = np.repeat(10 * np.arange(len(counts)) + 3, counts)
    return np.random.default_rng(seed).permutation(labels)
