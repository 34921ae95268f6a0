from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from fewset.core.errors import UserError
from fewset.data.features.table import FeatureTable, Setup
from fewset.evaluation.class_means import fit_centre
from fewset.evaluation.controls import set_adds
from fewset.evaluation.protocols import Job, low_shot
from fewset.evaluation.protocols.low_shot import (
    LowShot,
    choose_prior,
    evaluate_low_shot,
    ranking,
)
from fewset.models.adapters.attention import Attention
from fewset.models.adapters.identity import Identity
from fewset.models.backbones.features import FeatureInput
from fewset.models.heads.matching import MatchingHead
from fewset.models.heads.prototype import PrototypeHead
from fewset.models.layers.transform import FeatureTransform
from fewset.models.model import FewShotModel
from fewset.tasks.scores import Score
from fewset.tasks.spec import TaskSpec
from tests.helpers.features import DIM, SEEN, SIMPLESHOT, UNSEEN, make_table
from tests.helpers.low_shot import NAMES, oracle

SPEC = TaskSpec(tasks=2, seed=4)
PRIOR = 0.7
SHOTS = (1, 3, 5)


@pytest.fixture
def table() -> FeatureTable:
    return make_table()


def make_model(method: str, similarity: str = "euclidean", temperature: float = 0.7) -> FewShotModel:
    torch.manual_seed(0)
    adapter: nn.Module = Attention(DIM) if method == "FEAT" else Identity(DIM)
    transform = {"SimpleShot": "cl2n", "SimpleShot L2N": "l2n"}.get(method, "none")
    head = PrototypeHead(DIM, similarity, temperature)
    steps = FeatureTransform(DIM, SIMPLESHOT[transform])
    return FewShotModel(FeatureInput(DIM), adapter, head, feature_transform=steps)


def evaluate_shots(
    model: FewShotModel,
    table: FeatureTable,
    spec: TaskSpec = SPEC,
    prior: float = PRIOR,
    setup: Setup | None = None,
) -> dict[int, dict[str, Score]]:
    specs = {shot: replace(spec, shot=shot) for shot in SHOTS}
    return {shot: evaluate_low_shot(model, table, specs[shot], prior, setup) for shot in SHOTS}


def values(scores: dict[int, dict[str, Score]]) -> dict[tuple[int, str], list[float]]:
    return {(shot, name): scores[shot][name].per_task.tolist() for shot in scores for name in scores[shot]}


@pytest.mark.parametrize("method", ["ProtoNet", "SimpleShot", "SimpleShot L2N", "FEAT"])
@pytest.mark.parametrize(
    ("similarity", "setup"), [("euclidean", None), ("cosine", "test"), ("euclidean", "validation")]
)
def test_every_accuracy_against_a_loop(
    table: FeatureTable, method: str, similarity: str, setup: Setup | None
) -> None:
    model = make_model(method, similarity)
    fit_centre(model, table)
    scores = evaluate_shots(model, table, setup=setup)
    for shot in SHOTS:
        assert set(scores[shot]) == set(NAMES)
        for trial in range(2):
            expected = oracle(model, table, shot, trial, 4, 0.7, setup)
            found = {name: float(score.per_task[trial]) for name, score in scores[shot].items()}
            assert found == pytest.approx(expected, abs=1e-6)
    assert scores[1]["top1_unseen"].mean == pytest.approx(scores[1]["top1_unseen"].per_task.mean())


@pytest.mark.parametrize("method", ["ProtoNet", "SimpleShot", "FEAT"])
def test_the_chunk_does_not_matter(table: FeatureTable, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model(method)
    fit_centre(model, table)
    expected = values(evaluate_shots(model, table))
    for size in (7 * (SEEN + UNSEEN), 50 * (SEEN + UNSEEN)):  # 7 and 50 rows at once
        monkeypatch.setattr(low_shot, "_CHUNK_SIZE", size)
        assert values(evaluate_shots(model, table)) == expected


def test_a_trial_depends_on_the_seed_and_its_number_alone(table: FeatureTable) -> None:
    model = make_model("FEAT")
    two = evaluate_shots(model, table, SPEC)
    assert values(evaluate_shots(model, table, SPEC)) == values(two)
    five = evaluate_shots(model, table, replace(SPEC, tasks=5))
    for name in NAMES:
        assert five[3][name].per_task[:2].tolist() == two[3][name].per_task.tolist()
    other = evaluate_shots(model, table, replace(SPEC, seed=5))
    assert values(other) != values(two)
    assert len(set(five[3]["top1_all"].per_task.tolist())) > 1


def test_a_certain_prior_leaves_one_group(table: FeatureTable) -> None:
    queries = table.rows(np.arange(SEEN + UNSEEN), "test")
    share = table.unseen[table.labels[queries]].mean()
    model = make_model("ProtoNet")
    certain = evaluate_shots(model, table, prior=1.0)
    for shot, top in product(SHOTS, (1, 5)):
        expected = share * certain[shot][f"top{top}_unseen"].per_task
        np.testing.assert_allclose(certain[shot][f"top{top}_all_with_prior"].per_task, expected, rtol=1e-6)
    never = evaluate_shots(model, table, prior=0.0)
    by_seen = never[1]["top1_all_with_prior"].per_task  # the same in each trial: nothing of the shots counts
    assert by_seen[0] == by_seen[1] > 0
    assert by_seen[0] <= 1 - share


def test_ranking() -> None:
    nan = float("nan")
    scores = torch.tensor(
        [
            [0.1, 0.7, 0.3, 0.5],
            [2.0, 2.0, 2.0, 1.0],
            [2.0, 2.0, 2.0, 1.0],
            [nan, 0.0, 1.0, 2.0],
            [nan, 3.0, 1.0, 2.0],
            [-np.inf, -np.inf, 0.0, 1.0],
        ]
    )
    assert ranking(scores, torch.tensor([3, 0, 2, 0, 1, 1])).tolist() == [1, 0, 2, 4, 1, 3]


def test_the_prior_is_chosen_on_the_validation_setup(table: FeatureTable) -> None:
    model, priors = make_model("ProtoNet", temperature=8.0), (0.05, 0.3, 0.6, 0.95)
    means = [
        evaluate_low_shot(model, table, SPEC, prior, "validation")["top5_all_with_prior"].mean
        for prior in priors
    ]
    assert len(set(means)) > 1
    assert choose_prior(model, table, SPEC, priors) == priors[int(np.argmax(means))]
    with pytest.raises(UserError, match="no seen classes of the validation setup"):
        choose_prior(model, _without_setups(table), SPEC, priors)


def test_what_the_set_adds_has_its_own_prior(table: FeatureTable) -> None:
    protocol = LowShot(prior="auto", setup="test")
    model = make_model("FEAT")
    found, blind = (
        protocol.evaluate(Job(each, table, "test", None, SPEC), None) for each in (model, model.alone())
    )
    for name, score in blind.scores.items():
        if name != "alone":
            assert found.fields["set_adds_to"][name] == set_adds(found.scores[name], score)
    assert found.fields["set_adds"] == found.fields["set_adds_to"]["top5_all"]
    plain = Job(make_model("ProtoNet"), table, "test", None, SPEC)
    assert "set_adds" not in protocol.evaluate(plain, None).fields


def _without_setups(table: FeatureTable) -> FeatureTable:
    return replace(table, setups=np.zeros_like(table.setups))


def test_what_cannot_be_scored_is_rejected(table: FeatureTable) -> None:
    def rejected(model: FewShotModel, match: str) -> None:
        with pytest.raises(UserError, match=match):
            evaluate_shots(model, table, SPEC)

    entry, adapter, head = FeatureInput(DIM), Attention(DIM), PrototypeHead(DIM)
    rejected(FewShotModel(entry, Identity(DIM), MatchingHead(DIM)), "head is MatchingHead")
    rejected(FewShotModel(entry, adapter, head, transductive=True), "without the queries")
    rejected(FewShotModel(entry, adapter, head, average="post"), "average='pre'")
    rejected(FewShotModel(FeatureInput(3), Identity(3), PrototypeHead(3)), "dimension 3")
    rejected(make_model("SimpleShot"), "is not set")
    plain = evaluate_shots(FewShotModel(entry, Identity(DIM), head, average="post"), table, SPEC)
    assert values(plain) == values(evaluate_shots(make_model("ProtoNet", temperature=1.0), table, SPEC))

    with pytest.raises(UserError, match="expected 99 or more"):
        evaluate_low_shot(make_model("ProtoNet"), table, TaskSpec(shot=99))
    table.roles[table.labels == 3] = 0
    rejected(make_model("ProtoNet"), "class 'class 3' of 'table' has no queries")
