"""A worker prunes by the retention of its settings: in pages, one instance at a time, and with an archive nothing is lost."""

from __future__ import annotations

import fcntl
import json
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.life import assert_counts_are_true, enqueue, every_job
from tests.conformance.test_prune import ended
from tests.engine.shop import Shop
from tests.observe.lines import written
from tests.waiting import PATIENCE, eventually
from windlass.clock import ManualClock
from windlass.config import load
from windlass.errors import ConfigError, WindlassError
from windlass.features import Store
from windlass.model import Archived
from windlass.settings import Settings
from windlass.upkeep import pruner as module
from windlass.upkeep.archive import ArchiveFile
from windlass.upkeep.pruner import HOLD, LONGEST, SHORTEST, Pruner

DAY = 86_400.0


class Hand:
    """A clock that the test moves: that of the process, and that of the database with it."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self._clock.advance(timedelta(seconds=seconds))


@pytest.fixture
def hand(clock: ManualClock) -> Hand:
    return Hand(clock)


def whole_pass(pruner: Pruner) -> int:
    """Run a pass to its end; how many pages had another one behind them."""
    pages = 0
    while pruner.run() is not None:
        pages += 1
    return pages


def left(store: Store) -> dict[str, int]:
    found: dict[str, int] = {}
    for job in every_job(store):
        found[str(job.state)] = found.get(str(job.state), 0) + 1
    return found


# ------------------------------------------------------------------------------------------------------------ settings


def test_retention_is_given_in_code_file_and_environment(tmp_path: Path) -> None:
    file = tmp_path / "windlass.toml"
    file.write_text(
        '[retention]\ncompleted = "7d"\nfailed = "90d"\ncancelled = 3600\narchive = "old.jsonl"\n'
    )
    found = load(file=file, environ={"WINDLASS_RETENTION_FAILED": "forever"}).settings
    assert (found.retention_completed, found.retention_failed) == (7 * DAY, None)
    assert (found.retention_cancelled, found.retention_archive) == (3600.0, "old.jsonl")
    found = load({"retention.completed": timedelta(hours=1)}, environ={}).settings
    assert found.retention_completed == 3600.0 and found.retention_failed is None
    assert load({}, environ={"WINDLASS_RETENTION_COMPLETED": "none"}).settings.retention_completed is None
    with pytest.raises(ConfigError, match=r"retention\.completed.*7d.*environment"):
        load({}, environ={"WINDLASS_RETENTION_COMPLETED": "a week"})
    with pytest.raises(ConfigError, match="retention_archive"):
        Settings(retention_archive="")


def test_a_worker_says_at_its_start_what_it_will_prune(shop: Shop, tmp_path: Path) -> None:
    @shop.app.job
    def work() -> None: ...

    archive = str(tmp_path / "old.jsonl")
    with written() as lines:
        shop.serve()
        shop.serve(retention_completed=7 * DAY, retention_failed=90.0, retention_archive=archive)
    told = [line for line in lines.objects if line["event"] == "history.retention"]
    assert told[0]["message"].startswith("keeps all ended jobs: retention.completed")
    assert told[1]["message"] == (
        f"keeps completed jobs for 7 d, failed jobs for 90 s, cancelled jobs for ever; older ones are pruned, and appended to {archive} first"
    )
    assert told[1]["fields"]["completed"] == 7 * DAY and told[1]["fields"]["archive"] == archive


# ---------------------------------------------------------------------------------------------------------- the passes


@pytest.mark.owner
def test_a_pass_removes_pages_and_keeps_what_is_not_past_its_time(
    store: Store, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE", 2)
    settings = Settings(retention_completed=DAY, retention_failed=3 * DAY)
    for end in ("completed", "failed", "cancelled"):
        ended(store, end, 5)
    enqueue(store, n=1)
    pruner = Pruner(store, settings, monotonic=hand)
    hand.advance(DAY)
    assert whole_pass(pruner) == 0 and left(store)["completed"] == 5, "exactly as old as it may get"
    hand.advance(pruner.pause + 1)
    store.upkeep.maintain()
    with written() as lines:
        assert whole_pass(pruner) == 2
    assert left(store) == {"failed": 5, "cancelled": 5, "queued": 1}
    (line,) = [line for line in lines.objects if line["event"] == "history.pruned"]
    assert line["fields"]["removed"] == 5 and "archived" not in line["fields"]
    hand.advance(1000 * DAY)
    store.upkeep.maintain()
    whole_pass(pruner)
    assert left(store) == {"cancelled": 5, "queued": 1}
    assert_counts_are_true(store)


def test_the_pause_between_passes_follows_the_shortest_retention(store: Store) -> None:
    def pause(**settings: Any) -> float:
        return Pruner(store, Settings(**settings)).pause

    assert pause(retention_completed=7 * DAY, retention_failed=DAY) == LONGEST
    assert pause(retention_completed=7 * DAY, retention_cancelled=1200.0) == 120.0
    assert pause(retention_completed=0.0) == SHORTEST
    assert not Pruner(store, Settings()).is_needed
    assert Pruner(store, Settings(retention_cancelled=0.0)).is_needed


# ------------------------------------------------------------------------------------------------ one instance at a time


@pytest.mark.owner
def test_one_instance_prunes_and_another_goes_on_when_it_dies(
    store: Store, hand: Hand, opened: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE", 2)
    settings = Settings(retention_completed=DAY)
    ended(store, "completed", 9)
    hand.advance(2 * DAY)
    one, two = (Pruner(opened(), settings, monotonic=hand) for _ in range(2))
    assert one.run() is not None
    assert two.run() is None and left(store)["completed"] == 7, "it is not its turn"
    hand.advance(HOLD / 2)
    assert one.run() is not None, "which renews its turn"
    hand.advance(HOLD - 1)
    assert two.run() is None and left(store)["completed"] == 5
    hand.advance(1)
    assert two.run() is not None and left(store)["completed"] == 3, "the first one has not come back in time"
    assert one.run() is None and left(store)["completed"] == 3, "and leaves the pass to the other now"
    assert whole_pass(two) == 1 and left(store) == {}


@pytest.mark.owner
def test_after_a_pass_nobody_scans_again_before_the_pause_is_over(
    store: Store, hand: Hand, opened: Callable[[], Store]
) -> None:
    settings = Settings(retention_completed=DAY)
    one, two = (Pruner(opened(), settings, monotonic=hand) for _ in range(2))
    whole_pass(one)
    ended(store, "completed")
    hand.advance(one.pause - 1)  # the retention is over long before, for the test's sake
    past = Settings(retention_completed=0.0)
    assert Pruner(opened(), past, monotonic=hand).run() is None and left(store) == {"completed": 1}
    whole_pass(two)
    assert left(store) == {"completed": 1}
    hand.advance(1)
    whole_pass(Pruner(opened(), past, monotonic=hand))
    assert left(store) == {}


# ------------------------------------------------------------------------------------------------------------- archive


@pytest.mark.owner
def test_what_is_pruned_is_in_the_archive(store: Store, hand: Hand, tmp_path: Path) -> None:
    ids = ended(store, "completed", 3) + ended(store, "failed", 2)
    archive = tmp_path / "old.jsonl"
    settings = Settings(
        retention_completed=DAY, retention_failed=DAY, retention_cancelled=DAY, retention_archive=str(archive)
    )
    hand.advance(2 * DAY)
    store.upkeep.maintain()
    with written() as lines:
        whole_pass(Pruner(store, settings, monotonic=hand))
    assert left(store) == {}
    found = [json.loads(line) for line in archive.read_text("utf-8").splitlines()]
    assert sorted(job["id"] for job in found) == sorted(ids)
    (line,) = [line for line in lines.objects if line["event"] == "history.pruned"]
    assert (line["fields"]["removed"], line["fields"]["archived"]) == (5, 5)


def test_without_its_archive_nothing_is_pruned(store: Store, hand: Hand, tmp_path: Path) -> None:
    ended(store, "completed", 3)
    hand.advance(2 * DAY)
    archive = tmp_path / "missing" / "old.jsonl"
    settings = Settings(retention_completed=DAY, retention_archive=str(archive))
    pruner = Pruner(store, settings, monotonic=hand)
    with pytest.raises(WindlassError, match=r"nothing is pruned; correct retention\.archive"):
        pruner.run()
    assert left(store) == {"completed": 3}
    archive.parent.mkdir()
    archive.symlink_to("/dev/full")
    hand.advance(HOLD)
    with pytest.raises(WindlassError, match="could not be written"):
        pruner.run()
    assert left(store) == {"completed": 3}
    archive.unlink()
    hand.advance(HOLD)
    whole_pass(pruner)
    assert left(store) == {} and len(archive.read_text("utf-8").splitlines()) == 3


# ------------------------------------------------------------------------------------------------------------ a worker


@pytest.mark.timing
def test_a_worker_prunes_beside_its_jobs(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ended before is gone, archived, while the worker serves; an archive that cannot be written is a fault in its health."""
    monkeypatch.setattr(module, "HOLD", 0.05)
    ran: list[int] = []

    @shop.app.job
    def work(n: int) -> None:
        ran.append(n)

    first = shop.serve()
    work.enqueue_many({"n": n} for n in range(20))
    shop.drained(first)
    first.stop()
    archive = tmp_path / "missing" / "old.jsonl"
    engine = shop.serve(retention_completed=0.0, retention_archive=str(archive))
    shop.until(
        lambda: any(
            line.startswith("duty prune: failed") and "missing" in line for line in engine.report().degraded
        )
    )
    assert shop.store.phases.counts()["work"].completed == 20
    archive.parent.mkdir()
    work.enqueue(n=20)
    shop.until(lambda: shop.store.phases.counts()["work"].completed <= 1 and len(ran) == 21)
    shop.until(lambda: not engine.report().degraded)
    assert len(archive.read_text("utf-8").splitlines()) >= 20


class WatchedArchive(ArchiveFile):
    """An archive whose closing a test can see."""

    made: list[WatchedArchive]

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.made.append(self)
        self.is_appending = threading.Event()

    def is_closed(self) -> bool:
        return self._file.closed

    def append(self, jobs: Sequence[Archived]) -> None:
        self.is_appending.set()
        super().append(jobs)


@pytest.fixture
def archives(monkeypatch: pytest.MonkeyPatch) -> list[WatchedArchive]:
    """The archives that pruners open, which prune a job at a time."""
    WatchedArchive.made = []
    monkeypatch.setattr(module, "ArchiveFile", WatchedArchive)
    monkeypatch.setattr(module, "PAGE", 1)
    return WatchedArchive.made


def is_pruning() -> bool:
    return any(thread.name == "windlass-pruner" for thread in threading.enumerate())


def archived(file: Path) -> list[str]:
    return [json.loads(line)["id"] for line in file.read_text("utf-8").splitlines()]


@pytest.mark.timing
def test_stopping_between_two_pages_closes_the_archive(
    shop: Shop, tmp_path: Path, archives: list[WatchedArchive], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REST", 1e6)  # the next page would come after the test
    for name in ("SHORTEST", "HOLD"):
        monkeypatch.setattr(module, name, 10 * PATIENCE)
    ids = sorted(ended(shop.store, "completed", 3))

    @shop.app.job
    def work() -> None: ...

    engine = shop.serve(retention_completed=0.0, retention_archive=str(tmp_path / "old.jsonl"))
    shop.until(lambda: shop.store.phases.counts()["completed"].completed == 2)
    assert is_pruning() and not archives[0].is_closed()
    engine.stop()
    eventually(lambda: archives[0].is_closed() and not is_pruning(), "the archive to be closed")
    assert archived(tmp_path / "old.jsonl") == ids[:1]


@pytest.mark.timing
@pytest.mark.slow
def test_stopping_in_the_middle_of_a_page_finishes_that_page_alone(
    shop: Shop, tmp_path: Path, archives: list[WatchedArchive]
) -> None:
    """Another process has the lock of the archive, for longer than the stop waits."""
    ids = sorted(ended(shop.store, "completed", 3))
    file = tmp_path / "old.jsonl"

    @shop.app.job
    def work() -> None: ...

    with file.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        engine = shop.serve(retention_completed=0.0, retention_archive=str(file))
        eventually(lambda: archives and archives[0].is_appending.is_set(), "a page to be archived")
        engine.stop()
        assert engine.state == "stopped" and archived(file) == []
        assert len(every_job(shop.store)) == 3
    eventually(lambda: archives[0].is_closed() and not is_pruning(), "the archive to be closed")
    assert archived(file) == ids[:1]
    assert sorted(job.id for job in every_job(shop.store)) == ids[1:]
