"""Learning the scalars of the equivariant head."""

import json
from pathlib import Path

import numpy as np
import pytest

from fewset.classify.head_training import (
    Domain,
    read_domain,
    train_equivariant,
    write_domain,
    write_scalars,
)
from fewset.classify.heads.equivariant import Scalars
from fewset.runtime.errors import UserError
from tests.helpers.backgrounds import domain_rows

DOMAINS = [Domain(*domain_rows(seed, classes=23, shots=7)) for seed in (0, 1)]


def test_the_loss_falls_and_the_centring_stays() -> None:
    losses: list[float] = []
    learned = train_equivariant(DOMAINS, steps=8, after_step=lambda _, loss: losses.append(loss))
    assert len(losses) == 8
    assert losses[-1] < losses[0]
    assert learned.centring == Scalars().centring
    assert learned.mix != Scalars().mix


def test_the_same_seed_gives_the_same_scalars() -> None:
    first, again, other = (train_equivariant(DOMAINS[:1], seed, steps=2) for seed in (3, 3, 4))
    assert first == again != other


def test_from_files_to_a_file(tmp_path: Path) -> None:
    write_domain(DOMAINS[0], tmp_path / "objects.npz")
    domain = read_domain(tmp_path / "objects.npz")
    np.testing.assert_array_equal(domain.features, DOMAINS[0].features)
    np.testing.assert_array_equal(domain.labels, DOMAINS[0].labels)
    write_scalars(Scalars(), [tmp_path / "objects.npz"], 5, 7, tmp_path / "scalars.json")
    record = json.loads((tmp_path / "scalars.json").read_text())
    assert record["scalars"]["centring"] == list(Scalars().centring)
    assert (record["seed"], record["steps"], list(record["tables"])) == (5, 7, ["objects.npz"])


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.npz cannot be read"):
        read_domain(tmp_path / "none.npz")
    np.savez(tmp_path / "short.npz", features=DOMAINS[0].features, labels=DOMAINS[0].labels[:3])
    with pytest.raises(UserError, match=r"labels of shape \(3,\)"):
        read_domain(tmp_path / "short.npz")
    np.savez(tmp_path / "empty.npz", features=DOMAINS[0].features[:, :0], labels=DOMAINS[0].labels)
    with pytest.raises(UserError, match=r"features of shape \(\d+, 0\)"):
        read_domain(tmp_path / "empty.npz")
    with pytest.raises(UserError, match="no domain has 5 classes"):
        train_equivariant([Domain(DOMAINS[0].features[:7], DOMAINS[0].labels[:7])])
