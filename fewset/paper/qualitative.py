"""The paper's picture of cross-domain tasks: one that succeeds and one that fails, image by image."""

from pathlib import Path

import numpy as np
import torch

from fewset.compute.devices import pick_device
from fewset.data.images.store import ImageSet
from fewset.evaluation.embedding import embed_images, evaluating
from fewset.evaluation.protocols.cross_domain import cross_domains
from fewset.evaluation.scoring import score_tasks
from fewset.experiments.weights import load
from fewset.paper.render import write_rendered
from fewset.report.figures import png, svg
from fewset.report.picture_figures import PicturedTask, task_figure
from fewset.tasks.episode import split
from fewset.tasks.sampling import sample_tasks
from fewset.tasks.spec import TaskSpec


def picture_tasks(
    run: Path, images: ImageSet, support: str, query: str, out: Path, pages: Path | None, device: str
) -> list[Path]:
    """Write `qualitative.png` and `.svg`: the best and the worst of 200 tasks across two domains."""
    spec = TaskSpec(way=5, shot=1, query=5, tasks=200, seed=0)
    model = load(run).to(pick_device(device))
    crossing = cross_domains(images, "test", support, query)
    features = embed_images(model, images.images, crossing.rows, title="embedding")
    with evaluating(model) as evaluated:
        accuracy = score_tasks(evaluated, features, crossing.index, spec).per_task
    pictured = []
    for word, number in (("best", int(accuracy.argmax())), ("worst", int(accuracy.argmin()))):
        rows = sample_tasks(crossing.index, spec, number, number + 1)
        episode = split(features[torch.from_numpy(rows).to(features.device)], spec.shot)
        with evaluating(model) as evaluated:
            ways = evaluated(episode.support, episode.query).argmax(-1)
        shown, asked = np.split(crossing.rows[rows[0]], [spec.shot], axis=1)
        pictured.append(
            PicturedTask(
                images.images[shown],
                images.images[asked],
                ways.reshape(spec.way, spec.query).cpu().numpy(),
                [images.class_names[label] for label in images.labels[shown[:, 0]]],
                f"The {word} of {spec.tasks} tasks, {support} → {query}",
            )
        )
    figure = task_figure(pictured)
    return write_rendered({"qualitative.png": png(figure), "qualitative.svg": svg(figure)}, out, pages)
