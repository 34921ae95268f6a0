"""The paper's picture of cross-domain tasks: one that succeeds and one that fails, image by image."""

from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from fewset.compute.devices import pick_device
from fewset.data.images.store import ImageSet
from fewset.evaluation.embedding import embed_images, evaluating
from fewset.evaluation.protocols.cross_domain import cross_domains
from fewset.evaluation.scoring import score_tasks
from fewset.experiments.weights import load
from fewset.models.task_model import TaskModel
from fewset.paper.render import write_rendered
from fewset.report.figures import png, svg
from fewset.report.picture_figures import PicturedTask, task_figure
from fewset.tasks.episode import split
from fewset.tasks.sampling import ClassIndex, sample_tasks
from fewset.tasks.spec import TaskSpec

LOOKED_AT = 200  # tasks: the picture shows the best and the worst of them, and says so


def picture_tasks(
    run: Path,
    images: ImageSet,
    support: str,
    query: str,
    spec: TaskSpec,
    out: Path,
    pages: Path | None = None,
    device: str = "auto",
) -> list[Path]:
    """Write `qualitative.png` and `.svg`: the best and the worst of the tasks across two domains."""
    model = load(run).to(pick_device(device))
    crossing = cross_domains(images, "test", support, query)
    features = embed_images(model, images.images, crossing.rows, title="embedding")
    with evaluating(model) as evaluated:
        accuracy = score_tasks(evaluated, features, crossing.index, spec).per_task
    pictured = []
    for word, number in (("best", int(accuracy.argmax())), ("worst", int(accuracy.argmin()))):
        *positions, predicted = predict_task(model, features, crossing.index, spec, number)
        shown, asked = (crossing.rows[items] for items in positions)
        pictured.append(
            PicturedTask(
                images.images[shown],
                images.images[asked],
                predicted,
                [images.class_names[label] for label in images.labels[shown[:, 0]]],
                f"The {word} of {spec.tasks} tasks, {support} → {query}",
            )
        )
    figure = task_figure(pictured)
    return write_rendered({"qualitative.png": png(figure), "qualitative.svg": svg(figure)}, out, pages)


def predict_task(
    model: TaskModel, features: Float[Tensor, "items D"], index: ClassIndex, spec: TaskSpec, number: int
) -> tuple[Int[np.ndarray, "N K"], Int[np.ndarray, "N Q"], Int[np.ndarray, "N Q"]]:
    """Support and queries of task `number` as positions in the features, and the predicted way of each query.

    Row n holds class n.
    """
    rows = sample_tasks(index, spec, number, number + 1)
    episode = split(features[torch.from_numpy(rows).to(features.device)], spec.shot)
    with evaluating(model) as evaluated:
        predicted = evaluated(episode.support, episode.query).argmax(-1).reshape(spec.way, spec.query)
    return rows[0, :, : spec.shot], rows[0, :, spec.shot :], predicted.cpu().numpy()
