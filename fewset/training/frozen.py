"""Meta-training of the adapter and the head alone, on a backbone that stays as it is.

Every image is embedded once, so thousands of tasks cost what a few do when the backbone learns too. A run of
this kind is a good start (`init`) for one of the whole model.
"""

from fewset import distributed
from fewset.data.store import ImageSet
from fewset.errors import UserError
from fewset.evaluation import Score, class_index, embed_images, evaluating, score_tasks
from fewset.model import FewShotModel
from fewset.sampling import TaskSpec, sample_tasks
from fewset.training.batches import trained_items
from fewset.training.episodic import TrainConfig, task_step, validation_spec
from fewset.training.loop import Step
from fewset.training.optimiser import build_optimiser


class FrozenTraining:
    """Tasks on the table of embeddings of the train split."""

    title = "meta-training on a frozen backbone"

    def __init__(
        self,
        model: FewShotModel,
        images: ImageSet,
        config: TrainConfig,
        seed: int,
        domain: str | None = None,
        held_out: float = 0.0,
    ) -> None:
        backbone = set(model.backbone.parameters())
        learning = [parameter for parameter in model.parameters() if parameter not in backbone]
        if not learning:
            raise UserError(
                "this model has nothing to train but its backbone, which train.freeze_backbone keeps as it "
                "is; leave that out, or set train.epochs = 0 to score the model"
            )
        self.model = self.module = model
        self.config, self.seed = config, seed
        train, val = trained_items(images, domain, held_out, seed), images.select("val", domain)
        self.index, self.validation_index = class_index(train), class_index(val)
        # Copies: what was computed without gradients may not take part in them.
        self.features, self.validation_features = (
            embed_images(model, images.images, rows, title="embedding").clone()
            for rows in (train.rows, val.rows)
        )
        self.spec = TaskSpec(config.way, config.shot, config.query, config.tasks_per_step, seed)
        self.portion = distributed.portion(config.tasks_per_step, "train.tasks_per_step")
        self.optimiser_config = config.optimiser
        self.optimiser = build_optimiser(config.optimiser, (), learning)
        self.epochs = config.epochs
        self.steps_per_epoch = config.tasks_per_epoch // config.tasks_per_step

    def step(self, number: int) -> Step:
        first, last = (number * self.config.tasks_per_step + place for place in self.portion)
        return task_step(
            self.model, self.features[sample_tasks(self.index, self.spec, first, last)], self.config
        )

    def validate(self) -> Score:
        with evaluating(self.model):
            spec = validation_spec(self.config, self.seed)
            return score_tasks(self.model, self.validation_features, self.validation_index, spec)
