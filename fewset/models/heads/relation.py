"""RelationNet's head: a network compares the maps of a query and of a class."""

from torch import Tensor, nn

from fewset.models.heads import Logits, Mask, QueryMaps, ShotMaps, at_least, register_head
from fewset.models.layers.pooling import GlobalAverage, channels_first
from fewset.models.method_info import MethodInfo
from fewset.tasks.episode import prototypes


def _behind_convolution(dim: int) -> tuple[nn.Module, ...]:
    return nn.BatchNorm2d(dim), nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True)


@register_head("relation")
class RelationHead(nn.Module):
    """The relation module of RelationNet (Sung et al., 2018), on maps; to be trained on tasks.

    The map of a class is the mean m_n (H, W, D) of those of its shots. The logit of a query map q is
    g([m_n, q]): two blocks (convolution 3 x 3, BatchNorm, ReLU, maximum of 2 x 2) on the channels of both,
    then two layers, D -> `hidden` -> 1. A convolution of both is the sum of one of each, so the first is
    computed once a map and not once a pair.

    Deviations: the loss is the cross-entropy of the logits, as for all heads here; the paper's is the squared
    error of sigmoid(g) with 0 and 1. The maps of the shots are averaged, not added, so that shots may differ
    by class. The convolutions are padded and the places are averaged behind them, where the authors flatten
    the rest of 19 x 19 places: so maps may have any size. The last layer has no bias, which would cancel in
    the softmax.
    """

    about = MethodInfo(
        "a network that compares maps of classes and queries",
        paper="RelationNet, Sung et al., CVPR 2018",
        takes="maps",
        trained=True,
    )

    def __init__(self, dim: int, hidden: int = 8) -> None:
        super().__init__()
        at_least(1, hidden=hidden)
        self.dim = dim
        self.of_class, self.of_query = (nn.Conv2d(dim, dim, 3, padding=1, bias=False) for _ in range(2))
        self.relation = nn.Sequential(
            *_behind_convolution(dim),
            nn.Conv2d(dim, dim, 3, padding=1, bias=False),
            *_behind_convolution(dim),
            GlobalAverage(),
            nn.Linear(dim, hidden),
            nn.ReLU(),
            nn.Linear(hidden, 1, bias=False),
        )

    def forward(self, support: ShotMaps, query: QueryMaps, mask: Mask = None) -> Logits:
        (tasks, way), queries = support.shape[:2], query.shape[1]
        classes = self.of_class(channels_first(prototypes(support, mask))).unflatten(0, (tasks, 1, way))
        pairs = self.of_query(channels_first(query)).unflatten(0, (tasks, queries, 1)) + classes
        logits: Tensor = self.relation(pairs.flatten(0, 2)).view(tasks, queries, way)
        return logits
