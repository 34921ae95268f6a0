import numpy as np
import pytest

from fewset.evaluation.seen_unseen_calibration import Margins, calibrate, curve, scores_at

TASKS, SEEN, SEEN_QUERIES, WAY, QUERIES = 5, 11, 3, 2, 7


def margins(seed: int = 0, ties: bool = False) -> Margins:
    """Margins of which a third are NaN; with ties, small whole numbers."""
    generator = np.random.default_rng(seed)
    parts = []
    for shape, shift in (((TASKS, SEEN, SEEN_QUERIES), 1.0), ((TASKS, WAY, QUERIES), 0.0)):
        values = generator.normal(shift, 2, size=shape)
        values = np.round(values) if ties else values
        parts.append(np.where(generator.uniform(size=shape) < 1 / 3, np.nan, values).astype(np.float32))
    return Margins(*parts)


def naive(found: Margins, constant: float) -> dict[str, list[float]]:
    """Each measure of each task, query by query."""
    result: dict[str, list[float]] = {
        name: [] for name in ("seen", "unseen", "s_all", "u_all", "combined", "h")
    }
    for seen, unseen in zip(found.seen, found.unseen, strict=True):
        per_class = [[float(m > constant) for m in one] for one in seen.tolist()]
        per_class += [[float(m <= constant) for m in one] for one in unseen.tolist()]
        s = np.mean([np.mean(one) for one in per_class[:SEEN]])
        u = np.mean([np.mean(one) for one in per_class[SEEN:]])
        result["seen"].append(np.mean([m == m for m in seen.ravel()]))
        result["unseen"].append(np.mean([m == m for m in unseen.ravel()]))
        result["s_all"].append(s)
        result["u_all"].append(u)
        result["combined"].append(np.mean([np.mean(one) for one in per_class]))
        result["h"].append(2 / (1 / s + 1 / u) if s and u else 0.0)
    return result


@pytest.mark.parametrize("constant", [-np.inf, -1.5, 0.0, 1.0, 2.0, np.inf])
@pytest.mark.parametrize("ties", [False, True])
def test_scores_against_a_loop(constant: float, ties: bool) -> None:
    found, expected = scores_at(margins(ties=ties), constant), naive(margins(ties=ties), constant)
    for name, score in (
        ("seen", found["seen"]),
        ("unseen", found["unseen"]),
        ("s_all", found["seen_among_all"]),
        ("u_all", found["unseen_among_all"]),
        ("combined", found["combined"]),
        ("h", found["harmonic"]),
    ):
        np.testing.assert_allclose(score.per_task, expected[name], rtol=1e-6, atol=1e-9)
        assert score.mean == pytest.approx(np.mean(expected[name]))


def objective_at(found: Margins, constant: float, objective: str) -> float:
    at = scores_at(found, constant)
    s, u = at["seen_among_all"].mean, at["unseen_among_all"].mean
    if objective == "combined":
        return at["combined"].mean
    return 2 * s * u / (s + u) if s + u else 0.0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("objective", ["harmonic", "combined"])
def test_no_constant_is_better_than_the_chosen_one(seed: int, ties: bool, objective: str) -> None:
    found = margins(seed, ties)
    every = np.unique(np.concatenate([found.seen.ravel(), found.unseen.ravel()]).astype(np.float64))
    every = every[~np.isnan(every)]
    candidates = [-np.inf, np.inf, *every, *((every[1:] + every[:-1]) / 2)]
    best = max(objective_at(found, candidate, objective) for candidate in candidates)
    chosen = calibrate(found, objective)
    assert objective_at(found, chosen, objective) == pytest.approx(best, abs=1e-6)
    assert chosen not in every  # between two margins, or infinite


def test_the_constant_is_in_the_middle_of_the_gap() -> None:
    found = Margins(np.array([[[3.0, 5.0]]]), np.array([[[0.0, 1.0]]]))
    assert calibrate(found) == 2.0
    assert scores_at(found, 2.0)["combined"].mean == 1


def test_shifted_scores_shift_the_constant() -> None:
    found = margins()
    moved = Margins(found.seen + np.float32(8), found.unseen + np.float32(8))
    assert calibrate(moved) == pytest.approx(calibrate(found) + 8, abs=1e-5)
    assert curve(moved)["area"] == pytest.approx(curve(found)["area"])


def test_nothing_right_has_no_best_constant() -> None:
    nothing = Margins(np.full((2, 3, 5), np.nan), np.full((2, 3, 5), np.nan))
    assert calibrate(nothing) == -np.inf
    assert curve(nothing)["area"] == 0
    assert curve(nothing)["constants"] == ["-inf", "inf"]


@pytest.mark.parametrize("ties", [False, True])
def test_the_area_against_every_pair(ties: bool) -> None:
    found = margins(ties=ties)
    pairs = [
        float(seen > unseen) + 0.5 * float(seen == unseen)
        for seen in found.seen.ravel().tolist()
        for unseen in found.unseen.ravel().tolist()
    ]
    assert curve(found)["area"] == pytest.approx(np.mean(pairs))


def test_the_curve_runs_over_all_margins() -> None:
    found = margins()
    full, thin = curve(found, points=1000), curve(found, points=17)
    for constant, seen, unseen in zip(full["constants"], full["seen"], full["unseen"], strict=True):
        at = scores_at(found, float(constant))
        assert at["seen_among_all"].mean == pytest.approx(seen)
        assert at["unseen_among_all"].mean == pytest.approx(unseen)
    assert full["seen"] == sorted(full["seen"], reverse=True)
    assert full["seen"][-1] == full["unseen"][0] == 0
    # With a point at each margin the trapezoids are the exact area.
    assert -np.trapezoid(full["unseen"], full["seen"]) == pytest.approx(full["area"])
    assert len(thin["constants"]) == 19
    assert thin["area"] == full["area"]
    assert set(thin["constants"]) <= set(full["constants"])
