"""Tasks with other numbers of ways than in training: interpolation and extrapolation (section 5.2.2)."""

from dataclasses import dataclass, replace

from fewset.core.errors import UserError
from fewset.evaluation.embedding import evaluating
from fewset.evaluation.protocols import Job, Outcome, Protocol, option, register_protocol
from fewset.evaluation.scoring import score_tasks


@register_protocol("ways")
@dataclass(frozen=True)
class Ways(Protocol):
    """Each number of ways on one table of embeddings. The headline is at the job's own way."""

    ways: tuple[int, ...] = option((5, 10, 15, 20), "Numbers of ways, with commas between them.")

    def check(self, job: Job) -> None:
        if not self.ways or min(self.ways) < 1:
            raise UserError(f"ways are {self.ways}, expected numbers of 1 or more")
        pool = job.pool()
        for way in self.ways:
            pool.index.check(way, job.spec.shot, job.spec.query)

    def evaluate(self, job: Job) -> Outcome:
        pool = job.pool()
        features = job.embed(pool.rows)
        with evaluating(job.model) as model:
            scores = {
                way: score_tasks(model, features, pool.index, replace(job.spec, way=way), title=f"{way}-way")
                for way in dict.fromkeys((job.spec.way, *self.ways))
            }
        return Outcome(
            scores[job.spec.way],
            scores={f"{way}_way": scores[way] for way in self.ways},
            left_out=pool.left_out,
        )
