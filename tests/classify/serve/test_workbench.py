"""The album and the workbench, without HTTP: steps and steps back, learning, photos that were tried."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from threading import Event
from time import monotonic
from typing import Any

import pytest

from fewset.classify.photos.rows import PhotoRow, photo_rows
from fewset.classify.photos.sources import opened_photos
from fewset.classify.serve import workbench
from fewset.classify.serve.album import Album, AlbumPhoto
from fewset.classify.serve.workbench import Workbench
from fewset.classify.trust.rejection import SHARE
from fewset.core.errors import UserError
from tests.helpers.photos import CLASSES, TinyEncoder, photo
from tests.helpers.web import STAMP


def rows(label: str, *seeds: int) -> list[PhotoRow]:
    with opened_photos([photo(label, seed) for seed in seeds]) as opened:
        return list(photo_rows(opened, TinyEncoder(), thumbnails=True))


def filled(shots: int = 4) -> Workbench:
    bench = Workbench(STAMP)
    for label in CLASSES:
        bench.add(label, rows(label, *range(shots)))
    return bench


def sizes(bench: Workbench) -> dict[str, int]:
    album = bench.moment().album
    counted = Counter(photo.label for photo in album.photos)
    return {name: counted[name] for name in album.classes}


def test_steps_of_an_album_leave_it_as_it_was() -> None:
    one, two = (AlbumPhoto(number, row) for number, row in enumerate(rows("grass", 0, 1)))
    empty = Album()
    album = empty.with_class(" meadow ").with_photos("meadow", [one]).with_photos("lawn", [two])
    assert empty.classes == ()
    assert album.classes == ("meadow", "lawn")
    assert [photo.label for photo in album.moved([0], "lawn").photos] == ["lawn", "lawn"]
    assert [photo.label for photo in album.renamed("meadow", "field").photos] == ["field", "lawn"]
    assert album.without_photos([1]).classes == ("meadow", "lawn")
    assert [photo.number for photo in album.without_class("meadow").photos] == [1]
    assert [photo.label for photo in album.with_photos("lawn", [one]).photos] == ["lawn", "lawn"]
    assert [photo.label for photo in album.photos] == ["meadow", "lawn"]


@pytest.mark.parametrize(
    ("step", "complaint"),
    [
        (lambda album: album.with_class("grass"), "already"),
        (lambda album: album.with_class("none of these"), "no class"),
        (lambda album: album.with_class("a\nb"), "printable"),
        (lambda album: album.with_class("  "), "printable"),
        (lambda album: album.renamed("grass", "brick"), "already"),
        (lambda album: album.renamed("gras", "lawn"), "no class 'gras'"),
        (lambda album: album.moved([0], "lawn"), "no class 'lawn'"),
        (lambda album: album.moved([99], "grass"), "no photo 99"),
        (lambda album: album.without_photos([0, 99]), "no photo 99"),
        (lambda album: album.without_class("lawn"), "no class 'lawn'"),
    ],
)
def test_what_is_not_possible_changes_nothing(step: Callable[[Album], Album], complaint: str) -> None:
    bench = filled(1)
    before = bench.moment()
    with pytest.raises(UserError, match=complaint):
        bench.change("a step", step)
    after = bench.moment()
    assert after.album is before.album
    assert after.undo == before.undo


def test_every_step_can_be_undone_in_turn() -> None:
    bench = filled(2)
    bench.change("moving", lambda album: album.moved([0], "brick"))
    bench.change("renaming", lambda album: album.renamed("brick", "wall"))
    bench.change("nothing", lambda album: album.renamed("wall", "wall"))
    assert sizes(bench) == {"blue sky": 1, "grass": 2, "wall": 3}
    assert [bench.undo(), bench.undo()] == ["renaming", "moving"]
    assert sizes(bench) == {"blue sky": 2, "grass": 2, "brick": 2}
    for _ in CLASSES:
        bench.undo()
    assert sizes(bench) == {}
    with pytest.raises(UserError, match="nothing to undo"):
        bench.undo()


def test_photos_of_one_step_are_undone_together() -> None:
    bench = Workbench(STAMP)
    bench.add("grass", rows("grass", 0), step="a")
    bench.add("brick", rows("brick", 0), step="a")
    bench.add("grass", rows("grass", 1), step="b")
    assert bench.undo() == "adding photos"
    assert sizes(bench) == {"grass": 1, "brick": 1}
    bench.undo()
    assert sizes(bench) == {}


def test_nothing_is_learned_from_one_class() -> None:
    bench = Workbench(STAMP)
    bench.change("making a class", lambda album: album.with_class("brick"))
    bench.add("grass", rows("grass", 0, 1))
    bench.try_out(rows("grass", 2))
    moment = bench.moment()
    assert moment.learned is None
    assert [answer.label for answer in moment.tried_answers()] == [None]
    with pytest.raises(UserError, match="two classes"):
        moment.ready()


def test_it_learns_again_when_photos_change_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    learned = []
    real = workbench.learn
    monkeypatch.setattr(workbench, "learn", lambda *args: learned.append(args) or real(*args))
    bench = filled(2)
    bench.moment()
    bench.change("making a class", lambda album: album.with_class("empty"))
    bench.change("the setting", lambda album: album.with_share(None))
    bench.try_out(rows("grass", 9))
    bench.moment()
    assert len(learned) == 1
    bench.change("moving", lambda album: album.moved([0], "brick"))
    bench.moment()
    assert len(learned) == 2


def test_a_classifier_answers_as_its_file_until_photos_change() -> None:
    learned = filled().moment().learned
    assert learned is not None
    bench = Workbench(STAMP, learned, 0.1)
    moment = bench.moment()
    assert moment.learned is not None
    assert moment.learned.support is learned.support
    assert moment.album.share == 0.1
    assert [each.row.name for each in moment.album.photos] == list(learned.support.names)
    added = bench.add("grass", rows("grass", 7))
    assert added[0].number == len(learned.support)
    changed = bench.moment().learned
    assert changed is not None
    assert changed.support is not learned.support


def test_many_changes_are_learned_once_and_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large set takes long to learn; the page shows its photos meanwhile, and the same numbers later."""
    learned, go_on = [], Event()
    real = workbench.learn

    def slow(*args: Any) -> Any:
        go_on.wait(10)
        learned.append(args)
        return real(*args)

    monkeypatch.setattr(workbench, "learn", slow)
    bench = filled(2)
    started = monotonic()
    for seed in range(5):
        bench.add("grass", rows("grass", 10 + seed))
        moment = bench.moment(patience=0.01)
        assert moment.learning
        assert moment.learned is None
        assert len(moment.album.photos) == 7 + seed
    assert monotonic() - started < 5
    go_on.set()
    while (moment := bench.moment(patience=10)).learning:
        pass
    assert len(learned) <= 2
    assert moment.ready().trust == real("auto", moment.album.support(), STAMP, None).trust


def test_a_failure_in_the_background_is_reported_once_and_learning_starts_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, failed = workbench.learn, Event()

    def fail(*_: Any) -> None:
        failed.wait(10)
        raise UserError("it cannot learn")

    monkeypatch.setattr(workbench, "learn", fail)
    bench = filled(1)
    assert bench.moment(patience=0).learning
    failed.set()
    with pytest.raises(UserError, match="cannot learn"):
        bench.moment(patience=10)
    monkeypatch.setattr(workbench, "learn", real)
    with suppress(UserError):  # where the failure came before the one who waited for it
        bench.moment(patience=10)
    assert bench.moment(patience=10).learned is not None


def test_turning_rejection_on_again_sets_the_share_of_before() -> None:
    learned = filled().moment().ready()
    bench = Workbench(STAMP, learned, 0.2)
    bench.change("", lambda album: album.with_share(None))
    assert bench.usual_share == 0.2
    assert Workbench(STAMP, learned, None).usual_share == SHARE
