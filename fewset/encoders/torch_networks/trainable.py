"""A model of transformers as a backbone: `backbone = "hf:DIRECTORY"` in a recipe, trained like any other."""

import torch
from jaxtyping import Float
from torch import Tensor

from fewset.core.errors import UserError
from fewset.encoders.huggingface import load_model, network_of, read_preprocessing, weights_in
from fewset.io.paths import user_path
from fewset.models.backbones import Backbone

PREFIX = "hf:"


class HuggingFaceBackbone(Backbone):
    """Starts with the weights in the directory. A run stores its own, and needs the directory to be loaded.

    Mean and deviation are those of the directory. So is the input size unless it is given; not every model
    takes another one.
    """

    def __init__(self, directory: str, input_size: int | None = None) -> None:
        super().__init__()
        path = user_path(directory)
        weights_in(path)  # an error, if there are none that can be read
        prepared = read_preprocessing(path)
        if prepared.height != prepared.width or prepared.scale != 1 / 255:
            raise UserError(
                f"{path} takes images of {prepared.width} x {prepared.height} pixels from 0 to "
                f"{255 * prepared.scale:g}, and a backbone takes squares from 0 to 1; take another model"
            )
        self.input_size, self.mean, self.std = input_size or prepared.height, prepared.mean, prepared.std
        self.network, self._has_pooler = load_model(path)
        with torch.inference_mode():
            self.dim = self(torch.zeros(1, 3, self.input_size, self.input_size)).shape[1]

    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B D"]:
        rows: Tensor = network_of(self.network, self._has_pooler)(images)
        return rows
