"""The bidirectional LSTM against loops in NumPy."""

import numpy as np
import pytest
import torch

from fewset.models.adapters.bilstm import BiLSTM

SETS, SIZE, CONTEXT, HALF = 2, 5, 3, 7


def rows(count: int, seed: int) -> torch.Tensor:
    return torch.randn(
        SETS, count, 2 * HALF, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def naive_direction(weights: dict[str, np.ndarray], end: str, sequence: np.ndarray) -> list[np.ndarray]:
    hidden, cell, outputs = np.zeros(HALF), np.zeros(HALF), []
    for row in sequence:
        gates = weights[f"weight_ih_l0{end}"] @ row + weights[f"bias_ih_l0{end}"]
        gates = gates + weights[f"weight_hh_l0{end}"] @ hidden + weights[f"bias_hh_l0{end}"]
        enter, forget, candidate, leave = np.split(gates, 4)
        cell = sigmoid(forget) * cell + sigmoid(enter) * np.tanh(candidate)
        hidden = sigmoid(leave) * np.tanh(cell)
        outputs.append(hidden)
    return outputs


@pytest.mark.parametrize("context", [None, rows(CONTEXT, 2)], ids=["alone", "context"])
def test_equals_the_loop(context):
    torch.manual_seed(11)
    adapter, items = BiLSTM(2 * HALF).double(), rows(SIZE, 1)
    weights = {name: value.detach().numpy() for name, value in adapter.lstm.state_dict().items()}
    adapted = adapter(items, context).detach().numpy()
    for one in range(SETS):
        sequence = items[one].numpy() if context is None else np.concatenate([items[one], context[one]])
        forward = naive_direction(weights, "", sequence)
        backward = naive_direction(weights, "_reverse", sequence[::-1])[::-1]
        for i in range(SIZE):
            expected = sequence[i] + np.concatenate([forward[i], backward[i]])
            np.testing.assert_allclose(adapted[one, i], expected, rtol=1e-10)
