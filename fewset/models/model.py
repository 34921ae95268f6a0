"""FewShotModel = backbone + adapter + head. Identity as adapter is ProtoNet, attention is FEAT."""

from copy import copy
from typing import Any, Literal, cast, get_args

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from fewset.core.errors import UserError, refuse_unknown
from fewset.models.backbones import MapBackbone, taken_by
from fewset.models.heads.prototype import PrototypeHead
from fewset.models.layers.folding import fold
from fewset.models.layers.transform import FeatureTransform
from fewset.models.method_info import method_info
from fewset.models.task_model import Capabilities, TaskModel
from fewset.tasks.episode import class_major_labels, prototypes

Average = Literal["pre", "post"]


class FewShotModel(TaskModel):
    """A backbone, an adapter and a head. It classifies the queries of many tasks at once.

    The identity as the adapter is ProtoNet, attention is FEAT. No state of a task is kept.

    Args:
        backbone: Maps images to embeddings.
        adapter: The set-to-set function, which adapts the support to its task.
        head: Turns the adapted support and the queries into logits.
        average: When the shots of a class are averaged: before the adaptation ("pre", the paper's default:
            the set is the prototypes) or after it ("post": the set is all the shots).
        transductive: Take the queries of a task as the context of its adaptation, unless another context is
            given. The prediction for a query then depends on the other queries of its task.
        test_time_flip: Outside training, embed each image and its mirror image, and take the mean.
        gate: Outside training, keep a part of the adaptation alone: items + gate * (adapted - items). The
            gate is a number of the state dict, 1 at first, that meta-training chooses on validation tasks.
        sets_of_one: A control: the adapter is given each item as a set of one, without context. The
            difference to the full model is what the rest of the set adds.
        feature_transform: Changes each embedding by itself, before everything that follows the backbone.

    Raises:
        ValueError: `average` is unknown; the head takes maps, which the backbone does not give or an adapter
            cannot adapt; or there is a gate and no adapter that adapts.

    Example:
        >>> import fewset
        >>> import torch
        >>> from fewset.models.adapters.attention import Attention
        >>> from fewset.models.backbones.conv4 import Conv4
        >>> from fewset.models.heads.prototype import PrototypeHead
        >>> feat = fewset.FewShotModel(Conv4(), Attention(64), PrototypeHead(64)).eval()
        >>> embeddings = feat.embed(torch.randint(0, 256, (10, 3, 84, 84), dtype=torch.uint8))
        >>> support, query = embeddings[:5].view(1, 5, 1, 64), embeddings[5:].view(1, 5, 64)
        >>> feat(support, query).shape  # one task, five queries, five classes
        torch.Size([1, 5, 5])
    """

    def __init__(
        self,
        backbone: nn.Module,
        adapter: nn.Module,
        head: nn.Module,
        average: str = "pre",
        transductive: bool = False,
        test_time_flip: bool = False,
        gate: bool = False,
        feature_transform: FeatureTransform | None = None,
        sets_of_one: bool = False,
    ) -> None:
        super().__init__(backbone)
        refuse_unknown("average", average, get_args(Average))
        self.adapter, self.head = adapter, head
        can = self.capabilities
        if can.maps and can.adapts:
            raise UserError(
                f"{type(head).__name__} takes maps, and adapters adapt embeddings; take the adapter "
                "'identity', or another head"
            )
        if can.maps and not hasattr(backbone, "maps"):
            raise UserError(
                f"{type(head).__name__} takes maps, and {type(backbone).__name__} gives none; take a "
                "backbone on images such as 'conv4', or another head"
            )
        if (gate or sets_of_one) and not can.adapts:
            raise UserError("gate and sets_of_one need an adapter that adapts; leave them out")
        self.sets_of_one = sets_of_one
        self.gate: Tensor | None
        self.register_buffer("gate", torch.ones(()) if gate else None)
        self.average, self.transductive, self.test_time_flip = average, transductive, test_time_flip
        self.feature_transform = feature_transform or FeatureTransform(0)  # no steps, no mean

    @property
    def dim(self) -> int:
        """The embedding size."""
        return self.backbone.dim

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            takes=taken_by(self.backbone),
            embeds=True,
            adapts=getattr(self.adapter, "adapts", True),
            adapts_queries=hasattr(self.adapter, "adapt_queries"),
            adapter_fitted=hasattr(self.adapter, "fit"),
            maps=method_info(self.head).takes == "maps",
        )

    def items_of(self, images: Shaped[Tensor, "B 3 H W"]) -> Float[Tensor, "B *places D"]:
        """Embeddings or, for a head that takes them, maps."""
        return self.maps(images) if self.capabilities.maps else self.embed(images)

    def embed(self, images: Shaped[Tensor, "B 3 H W"]) -> Float[Tensor, "B D"]:
        """Embeddings of images: bytes (uint8) are normalised first, floats are taken as normalised."""
        return self.embed_normalised(self._normalised(images))

    def maps(self, images: Shaped[Tensor, "B 3 H W"]) -> Float[Tensor, "B h w D"]:
        """The embedding at each place of an image, before the pool; of a mirror image mirrored back."""
        images = self._normalised(images)
        backbone = cast(MapBackbone, self.backbone)
        maps = backbone.maps(images)
        if self.test_time_flip and not self.training:
            maps = (maps + backbone.maps(images.flip(3)).flip(3)) / 2
        transformed: Tensor = self.feature_transform(maps.permute(0, 2, 3, 1))
        return transformed

    def _normalised(self, images: Shaped[Tensor, "B 3 H W"]) -> Float[Tensor, "B 3 H W"]:
        if images.dtype == torch.uint8:
            images = self.prepare(images)
        return images.contiguous(memory_format=torch.channels_last)

    def embed_normalised(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B D"]:
        """Embeddings of normalised images, in the memory format that they have."""
        embedded: Tensor = self.backbone(images)
        if self.test_time_flip and not self.training:
            embedded = (embedded + self.backbone(images.flip(3))) / 2
        transformed: Tensor = self.feature_transform(embedded)
        return transformed

    def folded(self, images: Shaped[Tensor, "B 3 H W"]) -> "FewShotModel":
        """This model with a backbone that embeds faster (`fold`, tried on these images), to evaluate.

        Adapter and head are the same objects; the model itself stays as it is.
        """
        prepared = self.prepare(images).contiguous(memory_format=torch.channels_last)
        return self._with(backbone=fold(self.backbone, prepared))

    def with_head(self, head: nn.Module) -> "FewShotModel":
        """This model with another head; the other parts are shared."""
        return self._with(head=head)

    def alone(self) -> "FewShotModel":
        """This model with each item as a set of one; the parts are shared."""
        twin = self._with()
        twin.sets_of_one = True
        return twin

    def _with(self, **parts: nn.Module) -> "FewShotModel":
        twin = copy(self)
        twin._modules = {**self._modules, **parts}
        return twin

    def adapt(
        self,
        support: Float[Tensor, "T N K *places D"],
        context: Float[Tensor, "T C *places D"] | None = None,
        mask: Bool[Tensor, "T N K"] | None = None,
    ) -> Float[Tensor, "T N J *places D"]:
        """The support adapted to its task: one row a class (`average="pre"`) or one a shot ("post")."""
        if mask is not None and not mask.any(dim=2).all():
            raise UserError("a class has no shot: the mask must mark at least one item of each class")
        if self.average == "pre":
            support = prototypes(support, mask).unsqueeze(2)
        elif mask is not None and not mask.all() and self.capabilities.adapts:
            raise UserError(
                "shots that differ by class need average='pre': this model adapts every shot by itself"
            )
        tasks, way, rows = support.shape[:3]
        adapted = self.transform(
            support.flatten(1, 2), context, class_major_labels(tasks, way, rows, support.device)
        )
        return adapted.view(tasks, way, rows, *support.shape[3:])

    def adapt_queries(
        self,
        support: Float[Tensor, "T N K *places D"],
        query: Float[Tensor, "T M *places D"],
        mask: Bool[Tensor, "T N K"] | None = None,
    ) -> Float[Tensor, "T M *places D"]:
        """The queries, each changed by itself as the set says; most adapters leave them as they are."""
        if not self.capabilities.adapts_queries:
            return query
        items = prototypes(support, mask) if self.average == "pre" else support.flatten(1, 2)
        if self.sets_of_one:
            items = items[:, :1]
        adapted: Tensor = cast(Any, self.adapter).adapt_queries(items, query)
        if self.gate is None or self.training:
            return adapted
        return query.lerp(adapted, self.gate.to(query))

    def transform(
        self,
        items: Float[Tensor, "B S *places D"],
        context: Float[Tensor, "B C *places D"] | None,
        labels: Shaped[Tensor, "B S"],
    ) -> Float[Tensor, "B S *places D"]:
        """The adapter and the gate on bare sets.

        The adapter is given the labels if it says that it uses them. It learns as if there were no gate.
        """
        sets = items
        if self.sets_of_one:
            sets, context = items.flatten(0, 1).unsqueeze(1), None
            labels = labels.new_zeros(labels.numel(), 1)
        extra: dict[str, Any] = {"labels": labels} if getattr(self.adapter, "uses_labels", False) else {}
        adapted: Tensor = self.adapter(sets, context, **extra).view_as(items)
        if self.gate is None or self.training:
            return adapted
        return items.lerp(adapted, self.gate.to(items))

    def forward(
        self,
        support: Float[Tensor, "T N K *places D"],
        query: Float[Tensor, "T M *places D"],
        context: Float[Tensor, "T C *places D"] | None = None,
        mask: Bool[Tensor, "T N K"] | None = None,
    ) -> Float[Tensor, "T M N"]:
        """Logits from embeddings or, with a head that takes them, from maps.

        Args:
            support: The labelled items, class by class.
            query: The items to classify.
            context: Unlabelled items that inform the adaptation; in the transductive setting the queries.
            mask: The shots that count, if classes have different numbers of shots.

        Raises:
            ValueError: A class has no shot, or shots differ by class and the model adapts each by itself.
        """
        if context is None and self.transductive:
            context = query
        adapted = self.adapt(support, context, mask)
        query = self.adapt_queries(support, query, mask)
        logits: Tensor = self.head(adapted, query, mask if self.average == "post" else None)
        return logits


def compares_class_means(model: FewShotModel) -> bool:
    """Whether a query is compared with the class means alone, whatever the other queries are."""
    about = method_info(model.head)
    return about.class_means and about.kind == "inductive"


def embedding_model(model: TaskModel, purpose: str, *, or_maps: bool = False) -> FewShotModel:
    """The model itself, if its tasks are made of embeddings, or with `or_maps` of maps.

    Raises:
        ValueError: The model has no embeddings (MAML), or its head takes maps; `purpose` begins the message.
    """
    if not model.capabilities.embeds:
        raise UserError(
            f"{purpose} works on embeddings, and {type(model).__name__} has none; take another method"
        )
    found = cast(FewShotModel, model)
    if found.capabilities.maps and not or_maps:
        raise UserError(
            f"{purpose} works on embeddings, and {type(found.head).__name__} takes maps; take another head"
        )
    return found


def image_embedder(model: TaskModel, purpose: str) -> FewShotModel:
    """The model itself, if it embeds images; a head on maps is replaced by prototypes on the pooled maps.

    Raises:
        ValueError: The model has no embeddings, or takes rows of features; `purpose` begins the message.
    """
    found = embedding_model(model, purpose, or_maps=True)
    if found.capabilities.takes != "images":
        raise UserError(
            f"{purpose} embeds images, and this model takes features; take one that embeds images"
        )
    return found.with_head(PrototypeHead(found.dim)) if found.capabilities.maps else found
