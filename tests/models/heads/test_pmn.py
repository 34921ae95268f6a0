"""Prototype Matching Networks against NumPy, with the LSTM written out."""

import numpy as np
import torch
from scipy.special import expit, softmax

from fewset.models.heads.pmn import PmnHead
from tests.helpers.heads import DIM, assert_equals_the_loop, cosine, inputs, with_and_without_mask


def step(parameters, suffix, x, hidden, cell):
    """One step of an LSTM: its gates are input, forget, cell and output, in this order."""
    of = {name: parameters[f"{name}{suffix}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    gates = of["weight_ih"] @ x + of["bias_ih"] + of["weight_hh"] @ hidden + of["bias_hh"]
    taken, kept, new, shown = np.split(gates, 4)
    cell = expit(kept) * cell + expit(taken) * np.tanh(new)
    return expit(shown) * np.tanh(cell), cell


@with_and_without_mask
def test_equals_the_loop(mask):
    torch.manual_seed(3)
    head = PmnHead(DIM, reads=3, temperature=0.4).double()
    over_means = {name: value.detach().numpy() for name, value in head.means.named_parameters()}
    reading = {name: value.detach().numpy() for name, value in head.reading.named_parameters()}

    def naive(shots, queries):
        means = [each.mean(axis=0) for each in shots]
        embedded = [mean.copy() for mean in means]
        for suffix, order in (("_l0", range(len(means))), ("_l0_reverse", reversed(range(len(means))))):
            hidden = cell = np.zeros(DIM)
            for n in order:
                hidden, cell = step(over_means, suffix, means[n], hidden, cell)
                embedded[n] += hidden
        rows = []
        for q in queries:
            hidden, cell = q, np.zeros(DIM)
            for _ in range(3):
                attention = softmax([hidden @ g for g in embedded])
                read = sum(share * g for share, g in zip(attention, embedded, strict=True))
                output, cell = step(reading, "", np.concatenate([q, read]), hidden, cell)
                hidden = q + output
            rows.append([cosine(hidden, g) / 0.4 for g in embedded])
        return rows

    assert_equals_the_loop(head, naive, mask)


def test_depends_on_the_order_of_the_classes_as_it_says():
    torch.manual_seed(3)
    head, (support, query) = PmnHead(DIM).double(), inputs()
    assert not PmnHead.equivariant
    assert not torch.allclose(head(support.flip(1), query), head(support, query).flip(2))
