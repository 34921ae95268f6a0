"""An encoder as a step of a scikit-learn pipeline."""

from typing import Any

import numpy as np
from jaxtyping import Float32
from sklearn.base import BaseEstimator, TransformerMixin

from fewset.classify.embedding import chosen_encoder, embed
from fewset.encoders import Encoder


class ImageEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """An encoder as a step of a scikit-learn pipeline: photos in, rows of features out.

    Args:
        encoder: A name, the path of a run, or an encoder itself.
        device: Where to compute: "auto", "cpu", "cuda", "cuda:1", "mps".

    Example:
        >>> from PIL import Image
        >>> from sklearn.pipeline import make_pipeline
        >>> from fewset import FewShotClassifier, ImageEncoder
        >>> pipeline = make_pipeline(ImageEncoder(), FewShotClassifier())
        >>> photos = [Image.new("RGB", (64, 64), colour) for colour in ("red", "orange", "blue", "navy")]
        >>> pipeline.fit(photos, ["warm", "warm", "cold", "cold"]).predict(photos).tolist()
        ['warm', 'warm', 'cold', 'cold']
    """

    def __init__(self, encoder: str | Encoder = "auto", *, device: str = "auto") -> None:
        self.encoder = encoder
        self.device = device

    def fit(self, X: Any = None, y: Any = None) -> "ImageEncoder":  # noqa: ARG002, N803
        return self

    def transform(self, X: Any) -> Float32[np.ndarray, "n D"]:  # noqa: N803
        return embed(X, self.encoder, self.device)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:  # noqa: ARG002
        """The names of the columns, which `set_output` gives to a frame: imageencoder0 and so on."""
        name = type(self).__name__.lower()
        columns = range(chosen_encoder(self.encoder, self.device).dim)
        return np.array([f"{name}{column}" for column in columns], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags
