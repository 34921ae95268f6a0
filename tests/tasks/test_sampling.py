import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewset.core.errors import UserError
from fewset.tasks.sampling import ClassIndex, queries_apart, sample_apart, sample_every_class, sample_tasks
from fewset.tasks.spec import TaskSpec
from tests.helpers.labels import shuffled_labels


@settings(max_examples=50, deadline=None)
@given(
    counts=st.lists(st.integers(5, 11), min_size=3, max_size=7),
    way=st.integers(1, 3),
    shot=st.integers(1, 2),
    query=st.integers(1, 3),
    seed=st.integers(0, 2**40),
)
def test_a_task_is_distinct_items_of_distinct_classes(
    counts: list[int], way: int, shot: int, query: int, seed: int
) -> None:
    labels = shuffled_labels(counts)
    rows = sample_tasks(ClassIndex(labels), TaskSpec(way, shot, query, 13, seed), 0, 13)
    assert rows.shape == (13, way, shot + query)
    for task in rows:
        assert len(np.unique(task)) == task.size
        assert (labels[task] == labels[task][:, :1]).all()
        assert len(np.unique(labels[task][:, 0])) == way


def test_task_number_i_is_a_pure_function_of_seed_and_i() -> None:
    labels, origins, domains = two_domains()
    spec = TaskSpec(way=3, shot=2, query=3, tasks=29, seed=5)
    for index in (
        ClassIndex(shuffled_labels([7, 11, 13, 7, 9])),
        ClassIndex(labels, origins=origins, support=domains == 1, query=domains == 0),
        ClassIndex(labels, origins=origins, domains=domains),
    ):
        alone = [sample_tasks(index, spec, number, number + 1) for number in reversed(range(29))]
        np.testing.assert_array_equal(sample_tasks(index, spec, 0, 29), np.concatenate(alone[::-1]))


def test_classes_and_items_are_drawn_uniformly() -> None:
    labels = np.repeat(np.arange(7), 11)
    rows = sample_tasks(ClassIndex(labels), TaskSpec(way=3, shot=1, query=2, tasks=20_000), 0, 20_000)
    # Each of the 77 items is expected 20,000 * 9 / 77 times; the deviation of a binomial count is about 47.
    expected = rows.size / 77
    np.testing.assert_allclose(np.bincount(rows.ravel(), minlength=77), expected, atol=5 * np.sqrt(expected))
    # ... and so is each place in a task: the first shot of the first class as well.
    first = np.bincount(rows[:, 0, 0], minlength=77)
    np.testing.assert_allclose(first, 20_000 / 77, atol=5 * np.sqrt(20_000 / 77))


def test_a_pinned_task_guards_the_published_numbers() -> None:
    rows = sample_tasks(
        ClassIndex(np.repeat(np.arange(5), 7)), TaskSpec(way=2, shot=1, query=2, seed=1), 3, 4
    )
    assert rows.tolist() == [[[30, 28, 34], [10, 11, 12]]]


def test_too_few_classes_is_named() -> None:
    with pytest.raises(UserError, match=r"the way is 5, but there are 3 classes"):
        sample_tasks(ClassIndex(shuffled_labels([9] * 3)), TaskSpec(way=5, shot=1, query=1), 0, 1)


def test_the_class_with_too_few_items_is_named() -> None:
    index = ClassIndex(np.repeat([0, 1, 2], [9, 4, 9]), ["ash", "birch", "cedar"])
    with pytest.raises(UserError, match=r"class 'birch' has 4 items, but shot \+ query = 6"):
        sample_tasks(index, TaskSpec(way=2, shot=1, query=5), 0, 1)


# Origins and domains


def two_domains(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, origins and domains of 5 classes: a photo of each of 13 origins, and 0 to 3 sketches of it."""
    generator = np.random.default_rng(seed)
    items = []
    for origin in range(65):
        sketches = (3, 1, 0, 2, 1)[origin % 5]
        items += [(origin // 13, 100 - origin, 0)] + sketches * [(origin // 13, 100 - origin, 1)]
    labels, origins, domains = generator.permutation(np.array(items)).T
    return labels, origins, domains


@pytest.mark.parametrize(("support", "query"), [(0, 1), (1, 0)])
def test_support_and_queries_keep_to_their_domains_and_share_no_origin(support: int, query: int) -> None:
    labels, origins, domains = two_domains()
    index = ClassIndex(labels, origins=origins, support=domains == support, query=domains == query)
    rows = sample_tasks(index, TaskSpec(way=3, shot=2, query=5, seed=1), 0, 211)
    assert (domains[rows[..., :2]] == support).all()
    assert (domains[rows[..., 2:]] == query).all()
    assert (labels[rows] == labels[rows[..., :1]]).all()
    for task in rows:
        assert len(np.unique(task)) == task.size
        assert not np.intersect1d(origins[task[:, :2]], origins[task[:, 2:]]).size
    for role, domain in ((rows[..., :2], support), (rows[..., 2:], query)):
        assert len(np.unique(role)) == (domains == domain).sum()  # every item is drawn some time


def test_shots_of_one_origin_are_as_good_as_any() -> None:
    """A class of sketchy: 25 sketches of 3 photos, and 50 photos; 5 shots are 5 sketches of 3 photos."""
    labels, origins = np.zeros(75, dtype=int), np.concatenate([np.arange(25) % 3, np.arange(50)])
    sketch = np.arange(75) < 25
    rows = sample_tasks(
        ClassIndex(labels, origins=origins, support=sketch, query=~sketch),
        TaskSpec(way=1, shot=5, query=47),
        0,
        7,
    )
    assert sketch[rows[..., :5]].all()
    assert not sketch[rows[..., 5:]].any()
    alone = sample_tasks(ClassIndex(labels[sketch]), TaskSpec(way=1, shot=5, query=15), 0, 7)
    assert any(np.intersect1d(origins[task[0, :5]], origins[task[0, 5:]]).size for task in alone)


def test_items_of_one_origin_are_of_one_domain_in_a_task_of_mixed_domains() -> None:
    labels, origins, domains = two_domains()
    index = ClassIndex(labels, origins=origins, domains=domains)
    rows = sample_tasks(index, TaskSpec(way=5, shot=3, query=7), 0, 211)
    together = 0
    for task in rows:
        assert len(np.unique(task)) == task.size
        found = np.unique(np.stack([origins[task].ravel(), domains[task].ravel()]), axis=1)
        assert len(np.unique(found[0])) == found.shape[1]
        together += task.size - found.shape[1]
    assert together  # sketches of one photo meet
    assert len(np.unique(rows)) == len(labels)
    with pytest.raises(UserError, match="has 13 items"):
        sample_tasks(index, TaskSpec(way=5, shot=3, query=11), 0, 1)


def test_tasks_across_domains_against_a_loop() -> None:
    """The items in the order of their keys: first the shots, then the queries of other origins."""
    labels, origins, domains = two_domains()
    spec = TaskSpec(way=2, shot=2, query=3, seed=7)
    index = ClassIndex(labels, origins=origins, support=domains == 1, query=domains == 0)
    for number in range(23):
        (found,) = sample_tasks(index, spec, number, number + 1)
        keys = {label: mix_whole(7, number, label) for label in range(5)}
        for way, label in enumerate(sorted(keys, key=keys.__getitem__)[:2]):
            own = np.flatnonzero(labels == label).tolist()
            order = sorted(range(len(own)), key=lambda place, c=label: mix_whole(7, number, c + 1, place))
            shots = [own[place] for place in order if domains[own[place]] == 1][:2]
            taken = set(origins[shots])
            queries = [
                own[place] for place in order if domains[own[place]] == 0 and origins[own[place]] not in taken
            ][:3]
            assert found[way].tolist() == shots + queries


def mix_whole(*parts: int) -> int:
    """The hash of the sampler, in Python's own integers."""
    state, mask = 0x9E3779B97F4A7C15, 2**64 - 1
    for part in parts:
        state = (state + part * 0xD1342543DE82EF95) & mask
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & mask
        state ^= state >> 31
    return state


def test_tasks_that_might_run_out_of_queries_are_rejected() -> None:
    """Of 13 photos, 10 of which have a sketch, 2 shots may take 2: 11 are left for queries, never 12."""
    labels, origins, domains = two_domains()
    names = ["ash", "birch", "cedar", "dogwood", "elm"]
    index = ClassIndex(labels, names, origins=origins, support=domains == 1, query=domains == 0)
    assert sample_tasks(index, TaskSpec(way=2, shot=2, query=11), 0, 7).shape == (7, 2, 13)
    with pytest.raises(UserError, match=r"has \d+ items for the support and 13 for the queries"):
        sample_tasks(index, TaskSpec(way=2, shot=2, query=12), 0, 1)
    # The other way round 2 photos may rule out 3 sketches each.
    index = ClassIndex(labels, names, origins=origins, support=domains == 0, query=domains == 1)
    with pytest.raises(UserError, match=r"shot \+ query = 15 \(2 \+ 13\)"):
        sample_tasks(index, TaskSpec(way=2, shot=2, query=13), 0, 1)


def test_an_origin_of_two_classes_is_rejected() -> None:
    with pytest.raises(UserError, match="items of 'birch' and 'ash' have one origin"):
        ClassIndex(np.array([0, 1, 0]), ["ash", "birch"], origins=np.array([9, 9, 8]))


def test_queries_of_every_class() -> None:
    labels = shuffled_labels([7, 11, 13, 7, 9])
    rows = sample_every_class(ClassIndex(labels), 5, seed=3, first=0, last=501)
    assert rows.shape == (501, 5, 5)
    assert (labels[rows] == np.unique(labels)[:, None]).all()
    assert all(len(np.unique(task)) == 25 for task in rows)
    np.testing.assert_array_equal(rows[11:13], sample_every_class(ClassIndex(labels), 5, 3, 11, 13))
    counts = np.bincount(rows.ravel(), minlength=len(labels)) / 501
    expected = 5 / np.bincount(labels)[labels]
    np.testing.assert_allclose(counts, expected, atol=5 * np.sqrt(0.25 / 501))
    with pytest.raises(UserError, match="has 7 items"):
        sample_every_class(ClassIndex(labels), 8, 3, 0, 1)


# Tasks in which no query has the origin of a shot, within a domain too


def origins_of(sizes: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Labels and origins; `sizes` has the items of each origin of each class."""
    labels = np.repeat(np.arange(len(sizes)), [sum(each) for each in sizes])
    flat = [size for each in sizes for size in each]
    order = np.random.default_rng(0).permutation(len(labels))
    return labels[order], np.repeat(np.arange(len(flat)), flat)[order]


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.lists(st.integers(1, 5), min_size=2, max_size=5), min_size=3, max_size=5),
    shot=st.integers(1, 5),
    seed=st.integers(0, 2**40),
)
def test_apart_no_query_has_the_origin_of_a_shot(sizes: list[list[int]], shot: int, seed: int) -> None:
    labels, origins = origins_of(sizes)
    index = ClassIndex(labels, origins=origins)
    query = queries_apart(index, shot)
    if query < 1:
        return
    spec = TaskSpec(3, shot, query, 7, seed)
    rows = sample_apart(index, spec, 0, 7)
    for task in rows:
        assert len(np.unique(task)) == task.size
        assert len(np.unique(labels[task][:, 0])) == 3
        for items in task:
            assert len(np.unique(labels[items])) == 1
            assert not set(origins[items[:shot]]) & set(origins[items[shot:]])
    alone = [sample_apart(index, spec, number, number + 1) for number in range(7)]
    np.testing.assert_array_equal(rows, np.concatenate(alone))


@pytest.mark.parametrize(
    ("shot", "query", "of_shots", "of_queries"),
    [
        (1, 4, [1], [1, 1, 1, 1]),  # no two of one origin
        (2, 3, [1, 1], [1, 1, 1]),
        (5, 4, [1, 1, 1, 2], [4]),  # the queries have one origin
        (5, 6, [1, 2, 2], [3, 3]),
        (3, 4, [1, 1, 1], [2, 2]),
    ],
)
def test_apart_items_go_round_their_origins(
    shot: int, query: int, of_shots: list[int], of_queries: list[int]
) -> None:
    labels, origins = origins_of([[5, 5, 5, 5, 5], [5, 5, 5, 5, 5]])
    rows = sample_apart(ClassIndex(labels, origins=origins), TaskSpec(2, shot, query, 90), 0, 90)
    for items in rows.reshape(-1, shot + query):
        for part, expected in ((items[:shot], of_shots), (items[shot:], of_queries)):
            assert sorted(np.unique(origins[part], return_counts=True)[1].tolist()) == expected
    np.testing.assert_array_equal(np.unique(rows), np.arange(50))


def test_apart_the_queries_are_as_many_as_every_draw_has() -> None:
    labels, origins = origins_of([[1, 5, 5, 14], [6, 9, 10]])
    index = ClassIndex(labels, origins=origins)
    assert [queries_apart(index, shot) for shot in (1, 5, 11, 12)] == [11, 7, 1, 0]
    sample_apart(index, TaskSpec(2, 5, 7, 300), 0, 300)
    with pytest.raises(UserError, match="query is 8, expected at most 7"):
        sample_apart(index, TaskSpec(2, 5, 8, 3), 0, 3)


def test_a_task_of_more_ways_begins_with_the_task_of_fewer() -> None:
    labels, origins = origins_of([[3, 3, 3]] * 7)
    for sample, index in (
        (sample_tasks, ClassIndex(labels)),
        (sample_apart, ClassIndex(labels, origins=origins)),
    ):
        few, many = (sample(index, TaskSpec(way, 2, 3, 11), 0, 11) for way in (3, 6))
        np.testing.assert_array_equal(many[:, :3], few)
