"""What a pre-training learns from beside the labels: the networks and classifiers of earlier ones."""

from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from fewset.data.images.store import open_set
from fewset.experiments.build import build_model
from fewset.experiments.config import Recipe
from fewset.experiments.initial import check_held_out, find_teacher
from fewset.experiments.recipes import read_recipe
from fewset.experiments.run_directory import RECIPE
from fewset.models.model import image_embedder
from fewset.runtime.errors import UserError
from fewset.training.checkpoint import TrainingFiles


class Teacher(nn.Module):
    """The network and the classifier of a pre-training run, as its last checkpoint has them.

    Of a run with a moving average it is the average. Images of another size than the network's own are
    resized.
    """

    def __init__(self, run: Path) -> None:
        super().__init__()
        state = TrainingFiles(run).load_checkpoint() or {"module": {}}
        recipe, tensors = read_recipe(run / RECIPE), state["module"]
        model = image_embedder(build_model(recipe.model), f"the teacher {run}")
        tensors = _under(tensors, "average.module.") or tensors
        self.backbone: nn.Module = model.backbone
        self.feature_transform = model.feature_transform
        self.input_size = model.input_size
        self.backbone.load_state_dict(_under(tensors, "model.backbone."))
        weight, bias = tensors["classifier.weight"], tensors["classifier.bias"]
        self.classifier = nn.Linear(weight.shape[1], weight.shape[0])
        self.classifier.load_state_dict({"weight": weight, "bias": bias})
        self.requires_grad_(False).eval()

    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B classes"]:
        size = (self.input_size, self.input_size)
        if images.shape[2:] != size:
            images = F.interpolate(images, size, mode="bilinear", antialias=True)
        logits: Tensor = self.classifier(self.feature_transform(self.backbone(images)))
        return logits


def load_teachers(recipe: Recipe, beside: Path, device: torch.device) -> list[Teacher]:
    """The teachers of a pre-training; `beside` is where it looks for them.

    Raises:
        ValueError: One is no pre-training run, was trained on other classes, or may know what is held out.
    """
    names = recipe.pretrain.teachers if recipe.pretrain else ()
    return [_load(recipe, find_teacher(name, beside)).to(device) for name in names]


def _load(recipe: Recipe, run: Path) -> Teacher:
    if recipe.data.hold_out:
        check_held_out(recipe, run)
    theirs, ours = read_recipe(run / RECIPE).data, recipe.data
    names = [open_set(each.set).class_names if theirs.set != ours.set else () for each in (theirs, ours)]
    if names[0] != names[1] or theirs.domain != ours.domain:
        raise UserError(f"the teacher {run} was trained on other classes than {ours.set!r}; leave it out")
    return Teacher(run)


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
