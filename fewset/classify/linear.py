"""What a fitted classifier computes: a power, a shift, a matrix. NumPy only, so that it runs anywhere."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import softmax

from fewset.classify.heads import Solution


@dataclass(frozen=True, eq=False)
class LinearClassifier:
    """Rows of features to logits. Every head ends as one of these; they are what is saved and exported."""

    power: float
    shift: Float[np.ndarray, " D"]
    weight: Float[np.ndarray, "D N"]
    bias: Float[np.ndarray, " N"]
    temperature: float

    def logits(self, features: Float[np.ndarray, "m D"]) -> Float[np.ndarray, "m N"]:
        centred = unit_rows(prepared(features, self.power) - self.shift)
        return np.asarray((centred @ self.weight + self.bias) / self.temperature)

    def probabilities(self, features: Float[np.ndarray, "m D"]) -> Float[np.ndarray, "m N"]:
        return np.asarray(softmax(self.logits(features), axis=1))


def linear_classifier(solution: Solution, power: float, temperature: float) -> LinearClassifier:
    """The classifier of the first (and only) task of a solution."""
    shift, weight, bias = (np.ascontiguousarray(part[0].double().cpu().numpy()) for part in solution)
    return LinearClassifier(power, shift, weight, bias, temperature)


def prepared(features: Float[np.ndarray, "m D"], power: float) -> Float[np.ndarray, "m D"]:
    """As `fewset.classify.heads.signed_power`: sign(x) |x|^power at length 1, in double precision."""
    exact = features.astype(np.float64)
    return unit_rows(np.sign(exact) * np.abs(exact) ** power)


def unit_rows(rows: Float[np.ndarray, "m D"]) -> Float[np.ndarray, "m D"]:
    """The rows at length 1; rows of zeros stay what they are."""
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))
