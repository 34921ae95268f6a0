"""Large-scale low-shot, one query after another."""

from itertools import product

import numpy as np
import torch

from fewset.core.randomness import mix
from fewset.data.features.table import FeatureTable, Setup
from fewset.models.model import FewShotModel

NAMES = [f"top{top}_{metric}" for top, metric in product((1, 5), ("unseen", "all", "all_with_prior"))]


def oracle(
    model: FewShotModel,
    table: FeatureTable,
    shot: int,
    trial: int,
    seed: int,
    prior: float,
    setup: Setup | None,
) -> dict[str, float]:
    """One query after another, each class compared by itself."""
    features = table.read(np.arange(len(table.labels))).astype(np.float64)
    training = table.roles == 0
    steps = model.feature_transform.steps
    if "centre" in steps:
        features = features - features[training & ~table.unseen[table.labels]].mean(0)
    if steps:
        features = np.array([row / np.sqrt((row**2).sum()) for row in features])

    seen, unseen = table.classes("seen", setup).tolist(), table.classes("unseen", setup).tolist()
    means = {number: features[training & (table.labels == number)].mean(0) for number in seen}
    drawn = table.draw(np.array(unseen), shot, mix(seed, trial))
    means.update({number: features[rows].mean(0) for number, rows in zip(unseen, drawn, strict=True)})

    def adapted(classes: list[int]) -> dict[int, np.ndarray]:
        stacked = torch.tensor(np.array([means[number] for number in classes])).float()
        with torch.no_grad():
            return dict(zip(classes, model.adapter.eval()(stacked[None])[0].double().numpy(), strict=True))

    def score(query: np.ndarray, prototype: np.ndarray) -> float:
        if model.head.similarity.__name__ == "cosine":
            value = query @ prototype / np.sqrt((query**2).sum() * (prototype**2).sum())
        else:
            value = -((query - prototype) ** 2).sum()
        return float(value / model.head.temperature)

    alone, joint = adapted(unseen), adapted(seen + unseen)
    hits: dict[str, list[bool]] = {name: [] for name in NAMES}
    for row in range(len(features)):
        label = table.labels[row]
        if table.roles[row] == 0 or label not in joint:
            continue
        scores = {number: score(features[row], joint[number]) for number in joint}
        tables = {"all": scores, "all_with_prior": {}}
        for group, weight in ((seen, 1 - prior), (unseen, prior)):
            total = sum(np.exp(scores[number]) for number in group)
            tables["all_with_prior"] |= {number: weight * np.exp(scores[number]) / total for number in group}
        if label in alone:
            tables["unseen"] = {number: score(features[row], alone[number]) for number in alone}
        for metric, values in tables.items():
            best = sorted(values, key=lambda number: -values[number])
            for top in (1, 5):
                hits[f"top{top}_{metric}"].append(label in best[:top])
    return {name: float(np.mean(found)) for name, found in hits.items()}
