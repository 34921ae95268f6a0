"""A `FewShotModel` as ONNX: support and queries in, logits out, for any number of ways, shots and queries.

As one graph it takes the pixels of one task, ``support`` (N, K, H, W, 3) and ``query`` (M, H, W, 3) as bytes,
and gives ``logits`` (M, N). In two parts, the encoder embeds ``images`` (B, H, W, 3), bytes too, as ``rows``
(B, D), and the head takes embeddings, ``support`` (N, K, D) and ``query`` (M, D). A model on tables of
features has no pixels: then there is the head alone.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from fewset.classify.export.tracing import traced
from fewset.core.errors import UserError
from fewset.models.heads import HEADS
from fewset.models.method_info import method_info
from fewset.models.model import FewShotModel, embedding_model
from fewset.models.task_model import TaskModel

_WAY, _SHOT, _QUERIES = 3, 4, 7  # of the traced task: all differ, so that no axes can be confused


class TaskGraphs(nn.Module):
    """The graphs of a model, each a `ModelProto` of ONNX."""

    def __init__(self, model: TaskModel) -> None:
        super().__init__()
        self.model: FewShotModel = embedding_model(model, "the export as ONNX")
        _check_head(self.model.head)

    @property
    def takes_pixels(self) -> bool:
        """Whether there is an encoder."""
        return self.model.capabilities.takes == "images"

    def joined(self) -> Any:
        """The whole model: of pixels, or of features where it takes these."""
        if not self.takes_pixels:
            return self.head()
        return _traced_task(self._logits_of_pixels, self._pixels(_WAY, _SHOT), self._pixels(_QUERIES))

    def encoder(self) -> Any:
        """The backbone, with the normalisation of pixels."""
        return traced(self._embed, {"images": self._pixels(2)}, {"images": {0: "B"}}, "rows", "the model")

    def head(self) -> Any:
        """Adapter and head, on embeddings; on rows of a table, where the model takes these."""
        generator = torch.Generator().manual_seed(0)
        support = torch.randn(_WAY, _SHOT, self.model.dim, generator=generator)
        query = torch.randn(_QUERIES, self.model.dim, generator=generator)
        logits = self._logits if self.takes_pixels else self._logits_of_features
        return _traced_task(logits, support, query)

    def _logits_of_pixels(
        self, support: UInt8[Tensor, "N K H W 3"], query: UInt8[Tensor, "M H W 3"]
    ) -> Float[Tensor, "M N"]:
        way, shot = support.shape[:2]
        rows = self._embed(torch.cat([support.flatten(0, 1), query]))
        return self._logits(rows[: way * shot].view(way, shot, -1), rows[way * shot :])

    def _logits_of_features(
        self, support: Float[Tensor, "N K D"], query: Float[Tensor, "M D"]
    ) -> Float[Tensor, "M N"]:
        shots, rows = (self.model.feature_transform(self.model.backbone(part)) for part in (support, query))
        return self._logits(shots, rows)

    def _embed(self, images: UInt8[Tensor, "B H W 3"]) -> Float[Tensor, "B D"]:
        return self.model.embed(images.permute(0, 3, 1, 2))

    def _logits(self, support: Float[Tensor, "N K D"], query: Float[Tensor, "M D"]) -> Float[Tensor, "M N"]:
        logits: Tensor = self.model(support.unsqueeze(0), query.unsqueeze(0))
        return logits.squeeze(0)

    def _pixels(self, *counts: int) -> UInt8[Tensor, "*counts H W 3"]:
        shape = (*counts, self.model.input_size, self.model.input_size, 3)
        return torch.randint(256, shape, generator=torch.Generator().manual_seed(0)).to(torch.uint8)


def _check_head(head: nn.Module) -> None:
    """Raise an error at once for a head that cannot be traced; tracing may take minutes to fail."""
    reason = method_info(head).no_onnx
    if reason:
        about = {name: method_info(kind) for name, kind in HEADS.items()}
        others = ", ".join(
            name for name, each in about.items() if each.takes == "embeddings" and not each.no_onnx
        )
        raise UserError(
            f"the model's head cannot be exported: {reason}; export a classifier that is fitted with the "
            f"model as its encoder, or a model with another head: {others}"
        )


def _traced_task(function: Callable[..., Tensor], support: Tensor, query: Tensor) -> Any:
    dynamic = {"support": {0: "N", 1: "K"}, "query": {0: "M"}}
    return traced(function, {"support": support, "query": query}, dynamic, "logits", "the model")
