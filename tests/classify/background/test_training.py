"""A background: FEAT is trained on it, kept where it is ahead on other classes, and saved."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone

from fewset.classify.background import training as background_training
from fewset.classify.background.comparison import Background, HeldOutComparison
from fewset.classify.background.head import AdaptedHead, episode_logits
from fewset.classify.background.training import learn_background
from fewset.classify.card import summary
from fewset.classify.classifier import FewShotClassifier
from fewset.classify.heads import prepared, unit_rows
from fewset.classify.photos.support import support_of_rows
from fewset.core.errors import UserError
from fewset.data.features.table import FeatureTable
from fewset.evaluation.scoring import score_tasks
from fewset.models.regression import episode_membership
from fewset.tasks.sampling import ClassIndex
from fewset.tasks.spec import TaskSpec
from tests.helpers.backgrounds import NOISE, TELLING, domain_rows, noise_rows, random_head
from tests.helpers.classifier_tasks import answers, task, unit
from tests.helpers.photos import TinyEncoder, write_photos

OTHERS = domain_rows(0, classes=40, shots=11, first=100)


@pytest.fixture(scope="module")
def taught() -> Background:
    own = support_of_rows(*domain_rows(1, classes=5, shots=1))
    before = torch.manual_seed(123).get_state()
    learned = learn_background(support_of_rows(*OTHERS), own, "ridge")
    assert torch.equal(torch.get_rng_state(), before)
    return learned


def test_as_the_loop_has_it() -> None:
    """The ridge head's logits, plus e^gain times the cosines to what attention makes of the prototypes."""
    head = random_head(29)
    rows, labels, query = task(0)
    layer = {name: value.numpy() for name, value in head.adapter.layers[0].state_dict().items()}
    ready, asked = prepared(rows, 0.5), prepared(query, 0.5)
    ways = range(int(labels.max()) + 1)
    centre = np.mean([ready[labels == label].mean(axis=0) for label in ways], axis=0)
    ready, asked = (np.array([unit(row - centre) for row in part]) for part in (ready, asked))
    prototypes = [unit(ready[labels == label].mean(axis=0)) for label in ways]
    adapted = []
    for prototype in prototypes:
        scores = np.array(
            [
                (layer["to_query.weight"] @ prototype) @ (layer["to_key.weight"] @ other)
                for other in prototypes
            ]
        ) / np.sqrt(29)
        weights = np.exp(scores) / np.exp(scores).sum()
        value = sum(
            weight * (layer["to_value.weight"] @ other)
            for weight, other in zip(weights, prototypes, strict=True)
        )
        moved = prototype + layer["to_output.weight"] @ value + layer["to_output.bias"]
        normed = (moved - moved.mean()) / np.sqrt(moved.var() + 1e-5)
        adapted.append(unit(normed * layer["norm.weight"] + layer["norm.bias"]))
    gain = np.exp(head.log_gain.item())
    expected = answers(head.base, rows, labels, query) + gain * asked @ np.array(adapted).T
    np.testing.assert_allclose(answers(head, rows, labels, query), expected, atol=1e-10)


def test_a_model_and_a_head_are_one() -> None:
    head = random_head(7)
    generator = torch.Generator().manual_seed(0)
    support = torch.rand(2, 3, 5, 7, generator=generator, dtype=torch.float64)
    query = torch.rand(2, 11, 7, generator=generator, dtype=torch.float64)
    mask = torch.ones(2, 3, 5, dtype=torch.bool)
    mask[0, 1, 2:] = False
    rows, members = support.flatten(1, 2), episode_membership(support, mask)
    solution = head.solve(rows.numpy(), members.numpy())
    np.testing.assert_allclose(head(support, query, mask=mask).numpy(), solution.logits(query.numpy()))


def test_it_pays_where_other_classes_teach_something(taught: Background) -> None:
    comparison = taught.comparison
    assert (comparison.classes, comparison.held_out, comparison.way, comparison.shot) == (40, 8, 5, 1)
    assert comparison.gain == pytest.approx(comparison.adapted - comparison.alone)
    assert comparison.kept
    assert taught.head is not None
    # On classes of neither part of the background too.
    rows, labels = domain_rows(2, classes=20, shots=20)
    spec = TaskSpec(way=5, shot=1, query=15, tasks=300)
    ready = torch.from_numpy(prepared(rows, taught.head.power))
    adapted, alone = (
        score_tasks(
            partial(episode_logits, head),
            ready,
            ClassIndex(labels),
            spec,
        )
        for head in (taught.head, taught.head.base)
    )
    assert adapted.mean > alone.mean


def test_the_set_is_dropped_where_each_class_alone_says_as_much(taught: Background) -> None:
    """Which axes are noise is the same for all classes, so that the rest of the set tells nothing."""
    assert not taught.comparison.uses_set
    assert taught.head is not None
    assert not taught.head.uses_set
    assert "kept without the set; the set adds -" in taught.comparison.in_words


def test_the_set_is_kept_where_it_adds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Attention that takes away half as much again as the mean of what it sees: nothing from a set around its
    mean, but a set of one is turned round."""

    def weighted(table: FeatureTable, *_: object, uses_set: bool) -> tuple[AdaptedHead, np.ndarray]:
        head = AdaptedHead(table.dim, uses_set)
        layer, one = head.adapter.layers[0], torch.eye(table.dim)
        weights = {
            "to_query.weight": 0 * one,
            "to_key.weight": 0 * one,
            "to_value.weight": one,
            "to_output.weight": -1.5 * one,
            "norm.weight": (torch.arange(table.dim) < TELLING).float(),
        }
        layer.load_state_dict({**layer.state_dict(), **weights})
        head.log_gain.data.fill_(6.0)
        return head.finished(), np.arange(10)

    monkeypatch.setattr(background_training, "_trained", weighted)
    rows, labels = domain_rows(1, classes=5, shots=1)
    classifier = FewShotClassifier(background=OTHERS).fit(rows, labels)
    background = classifier.learned_.background
    assert background is not None
    assert background.head is not None
    assert background.comparison.uses_set
    assert background.head.uses_set
    assert background.comparison.set_adds > 0.2
    assert ": kept; the set adds +" in background.comparison.in_words
    classifier.save(tmp_path / "my.fewset")
    again = FewShotClassifier.load(tmp_path / "my.fewset").learned_.background
    assert again is not None
    assert again.head is not None
    assert again.head.uses_set


def test_without_the_set_a_class_is_adapted_by_itself() -> None:
    """As by attention to itself alone, with the same weights."""
    head = random_head(29)
    rows = np.random.default_rng(0).uniform(size=(2, 7, 29))
    members = np.stack([np.eye(7)] * 2)
    head.uses_set = False
    found = head.solve(rows, members)
    base = head.base.solve(rows, members)
    prototypes = torch.from_numpy(unit_rows(rows - base.shift[:, None]))
    for task_number in range(2):
        for label in range(7):
            one = head.adapter(prototypes[task_number, label].view(1, 1, -1))[0, 0]
            gained = (head.log_gain.exp() * one / one.norm()).numpy()
            expected = base.weight[task_number, :, label] + gained
            np.testing.assert_allclose(found.weight[task_number, :, label], expected)


def test_it_is_dropped_where_they_teach_nothing() -> None:
    noise = support_of_rows(*noise_rows(0, classes=40, shots=11))
    found = learn_background(noise, support_of_rows(*domain_rows(1, 5, 1)), "ridge")
    assert not found.comparison.kept
    assert found.head is None
    assert "not kept" in found.comparison.in_words


def test_the_same_seed_gives_the_same_weights(taught: Background) -> None:
    again = learn_background(
        support_of_rows(*OTHERS), support_of_rows(*domain_rows(1, classes=5, shots=1)), "ridge"
    )
    assert again.comparison == taught.comparison
    assert taught.head is not None
    assert again.head is not None
    for name, value in taught.head.state_dict().items():
        assert (again.head.state_dict()[name] == value).all(), name


def test_saved_and_restored_to_the_bit(tmp_path: Path) -> None:
    rows, labels = domain_rows(1, classes=5, shots=3)
    classifier = clone(FewShotClassifier(background=OTHERS)).fit(rows, labels)
    background = classifier.learned_.background
    assert background is not None
    assert background.comparison.in_words in summary(classifier.learned_)
    assert background.head is not None
    plain = FewShotClassifier().fit(rows, labels)
    queries = domain_rows(1, classes=5, shots=7)[0]
    assert (plain.predict_proba(queries) != classifier.predict_proba(queries)).any()

    classifier.save(tmp_path / "my.fewset")
    random_state = torch.random.get_rng_state()
    again = FewShotClassifier.load(tmp_path / "my.fewset")
    assert torch.equal(torch.random.get_rng_state(), random_state)
    again.save(tmp_path / "again.fewset")
    assert (tmp_path / "again.fewset").read_bytes() == (tmp_path / "my.fewset").read_bytes()
    assert again.learned_.background is not None
    assert again.learned_.background.comparison == background.comparison
    # What comes later is learned with FEAT too.
    for each in (classifier, again):
        each.add(domain_rows(3, classes=1, shots=2)[0], 77)
    assert (again.predict_proba(queries) == classifier.predict_proba(queries)).all()
    assert (again.learned_.linear.weight == classifier.learned_.linear.weight).all()


def test_a_folder_of_photos_and_what_is_refused(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos")
    with pytest.raises(UserError, match=r"the background has 0 classes of \d+ photos or more, expected 20"):
        FewShotClassifier(TinyEncoder(), background=photos).fit(photos)
    rows, labels = domain_rows(1, classes=5, shots=1)
    with pytest.raises(UserError, match="is fitted on rows of features"):
        FewShotClassifier(background=photos).fit(rows, labels)
    with pytest.raises(UserError, match=f"rows of 3 features, expected {TELLING + NOISE}"):
        FewShotClassifier(background=(OTHERS[0][:, :3], OTHERS[1])).fit(rows, labels)


def test_kept_means_that_the_interval_lies_above_zero() -> None:
    found = HeldOutComparison(
        *("ridge", 100, 20, 5, 1, 600, 0.8, 0.81), gain=0.01, ci95=0.01, set_adds=0.02, set_ci95=0.02
    )
    assert not found.kept
    assert not found.uses_set
    assert "+1.00 ± 1.00 points" in found.in_words
    assert "the set adds +2.00 ± 2.00 points" in found.in_words
