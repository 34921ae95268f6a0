"""Tasks with other numbers of ways than in training: interpolation and extrapolation (section 5.2.2)."""

from dataclasses import dataclass, replace

from fewset.evaluation.controls import set_adds_fields
from fewset.evaluation.embedding import evaluating
from fewset.evaluation.protocols import Job, Outcome, Protocol, option, register_protocol
from fewset.evaluation.scoring import score_tasks
from fewset.models.task_model import TaskModel
from fewset.tasks.items import Items
from fewset.tasks.scores import ALONE, Score


@register_protocol("ways")
@dataclass(frozen=True)
class Ways(Protocol):
    """Each number of ways on one table of embeddings. The headline is at the job's own way."""

    ways: tuple[int, ...] = option((5, 10, 15, 20), "Numbers of ways, with commas between them.")

    def prepare(self, job: Job) -> Items:
        items = job.items()
        for way in self.ways:
            items.index.check(replace(job.spec, way=way).way, job.spec.shot, job.spec.query)
        return items

    def evaluate(self, job: Job, items: Items) -> Outcome:
        features = job.embed(items)

        def score(model: TaskModel) -> dict[str, Score]:
            return {
                f"{way}_way": score_tasks(
                    model, features, items.index, replace(job.spec, way=way), title=f"{way}-way"
                )
                for way in dict.fromkeys((job.spec.way, *self.ways))
            }

        with evaluating(job.model) as model:
            scores = score(model)
            alone = score(job.embedding_model.alone()) if model.capabilities.adapts else {}
        own = f"{job.spec.way}_way"
        shown = {f"{way}_way": scores[f"{way}_way"] for way in self.ways}
        return Outcome(
            scores[own],
            scores=shown | ({ALONE: alone[own]} if alone else {}),
            fields=set_adds_fields(own, scores, alone),
            left_out=items.left_out,
        )
