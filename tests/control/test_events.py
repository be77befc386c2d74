"""Streams of events: shared by all watchers, each event of a job once, and within the rights of the watcher."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import timedelta

import pytest

from tests.control.conftest import ANNA, BERT, BOSS, CARA, OPS
from tests.servers.plugin import FreshPostgres
from tests.waiting import PATIENCE, eventually
from windlass import App, Context
from windlass.control.overview_sample import Sample, read_sample
from windlass.control.sampler import Sampler
from windlass.errors import ConfigError, JobNotFoundError, NotAllowedError
from windlass.features import Store, open_store
from windlass.model import NewJob
from windlass.retry import fixed
from windlass.settings import Settings
from windlass.store.database import Database

pytestmark = pytest.mark.timing


@pytest.fixture(params=["sqlite", "postgresql"])
def url(
    request: pytest.FixtureRequest, fresh_postgres: FreshPostgres, fresh_sqlite: Callable[[], str]
) -> str:
    return fresh_sqlite() if request.param == "sqlite" else fresh_postgres()


@pytest.fixture
def live(url: str) -> Iterator[App]:
    """An app on a store with the real clock."""
    with open_store(url) as store, App(store=store) as made:
        yield made


@contextmanager
def counted(db: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The verbs that run in this process. A read may be made of a run, which is not counted again."""
    verbs: list[str] = []
    inside = threading.local()
    for name in ("read", "run"):
        original = getattr(db, name)

        def note(verb: str, *, _original: Callable = original, **parameters: object) -> object:
            if getattr(inside, "read", False):
                return _original(verb, **parameters)
            verbs.append(verb)
            inside.read = True
            try:
                return _original(verb, **parameters)
            finally:
                inside.read = False

        monkeypatch.setattr(db, name, note)
    yield verbs


@pytest.mark.parametrize("watchers", [1, 50])
def test_many_watchers_read_as_often_as_one(
    live: App, monkeypatch: pytest.MonkeyPatch, watchers: int
) -> None:
    """Every verb runs once for each sample, whatever the number of watchers; and every watcher gets the same samples."""
    live.store.enqueue([NewJob(kind="report")])
    with counted(live.store.db, monkeypatch) as verbs, ExitStack() as stack:
        streams = [stack.enter_context(live.events()) for _ in range(watchers)]
        first = [stream.next(PATIENCE) for stream in streams]
        assert all(first)
        for _ in range(3):
            assert all(stream.next(PATIENCE) for stream in streams)
        last = streams[0].next(PATIENCE)
        assert last is not None and last.number >= 4
        seen = list(verbs)
        later = streams[0].next(PATIENCE)  # the sampler goes on meanwhile
        assert later is not None
        for verb in ("counts", "oldest", "paused", "instances", "board.read"):
            assert last.number <= seen.count(verb) <= later.number + 1, verb  # one may be under way
        assert 1 <= seen.count("board.watch") <= 1 + later.number


def test_samples_show_counts_processors_and_rates(live: App, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    samples: list[Sample] = []  # one alone has the end of the job, and a watcher gets the newest

    def noted(store: Store, before: Sample | None) -> Sample:
        samples.append(read_sample(store, before))
        return samples[-1]

    monkeypatch.setattr("windlass.control.sampler.read_sample", noted)

    @live.job(processors=3)
    def work() -> None:
        assert gate.wait(PATIENCE)

    engine = live.worker(Settings(heartbeat=PATIENCE * 10, lease=PATIENCE * 40))
    engine.start()
    try:
        with live.events() as stream:
            handle = work.enqueue()

            def busy() -> bool:
                sample = stream.next(PATIENCE)
                assert sample is not None
                phases = [phase for one in sample.instances for phase in one.phases]
                return (
                    any(phase.name == "work" and phase.busy == 1 and phase.size == 3 for phase in phases)
                    and sample.phases["work"].counts.processing == 1
                )

            eventually(busy, "a busy processor in the samples, although no heartbeat came")
            gate.set()
            handle.result(PATIENCE)

            def ended() -> bool:
                phases = [phase for sample in list(samples) if (phase := sample.phases.get("work"))]
                return any(phase.ended["completed"] == 1 and phase.per_second > 0 for phase in phases)

            eventually(ended, "the end of the job in the samples")
        assert [view.state for view in live.instances.list()] == ["running"]
    finally:
        gate.set()
        engine.stop(5)


async def _some(live: App, count: int) -> list[int]:
    numbers = []
    async for sample in live.events(timeout=PATIENCE):
        numbers.append(sample.number)
        if len(numbers) == count:
            break
    return numbers


def test_async_watchers_get_the_same_samples(live: App) -> None:
    async def all_of_them() -> list[list[int]]:
        return await asyncio.gather(*(_some(live, 3) for _ in range(10)))

    for numbers in asyncio.run(all_of_them()):
        assert numbers == sorted(set(numbers)), "newer and newer"


def test_the_sampler_ends_with_its_last_watcher(live: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.control.sampler.LINGER", 0.0)

    def running() -> list[str]:
        return [one.name for one in threading.enumerate() if one.name == "windlass-sampler"]

    with live.events() as stream:
        assert stream.next(PATIENCE) and running()
    eventually(lambda: not running(), "the end of the thread")
    with live.events() as stream:
        assert stream.next(PATIENCE), "a later watcher begins anew"


def test_closing_a_stream_ends_its_iteration_on_another_thread(live: App) -> None:
    """Also of the last watcher, for whom no further sample would come; the others go on."""
    with ThreadPoolExecutor(3) as pool, live.events() as other:
        stream = live.events()
        ended = pool.submit(lambda: len(list(stream)))
        eventually(lambda: stream._subscription._seen, "a sample")
        stream.close()
        assert ended.result(PATIENCE) >= 1 and stream.next(PATIENCE) is None
        assert other.next(PATIENCE) is not None
        last = pool.submit(lambda: len(list(other)))
        eventually(lambda: other._subscription._seen, "a sample")
        other.close()
        last.result(PATIENCE)


def test_closing_a_stream_ends_its_iteration_in_another_task(live: App) -> None:
    async def watch() -> int:
        stream, seen = live.events(), asyncio.Event()

        async def read() -> int:
            count = 0
            async for _ in stream:
                count += 1
                seen.set()
            return count

        task = asyncio.create_task(read())
        async with asyncio.timeout(PATIENCE):
            await seen.wait()
            stream.close()
            return await task

    assert asyncio.run(watch()) >= 1


def test_closing_the_app_ends_the_streams(url: str) -> None:
    app = App(url)
    app.store.enqueue([NewJob(kind="report")])
    stream = app.events()
    assert stream.next(PATIENCE)
    with ThreadPoolExecutor(1) as pool:
        rest = pool.submit(lambda: list(stream))
        app.close()
        rest.result(PATIENCE)


def test_the_overview_is_for_people_who_see_everything(app: App) -> None:
    for who in (ANNA, OPS):
        with pytest.raises(NotAllowedError):
            app.acting_as(who).events()
        with pytest.raises(NotAllowedError):
            app.acting_as(who).instances.list()
    with app.acting_as(BOSS).events() as stream:
        assert stream.next(PATIENCE)
    assert app.acting_as(BOSS).instances.list() == []


def test_a_watch_lasts_as_long_as_its_longest_request(store: Store) -> None:
    assert store.upkeep.agenda().seconds("watched_for") is None
    for seconds, left in ((15, 15.0), (1, 15.0), (30, 30.0)):
        store.boards.watch(seconds)
        assert store.upkeep.agenda().seconds("watched_for") == left


# ---------------------------------------------------------------------- events of one job


def test_the_events_of_a_job_come_once_each(live: App) -> None:
    steps = [threading.Event() for _ in range(2)]

    @live.job(retry=fixed(3, wait=0.01))
    def work(ctx: Context) -> str:
        if ctx.attempt == 1:
            raise ValueError("first")
        ctx.checkpoint(done=1, total=4)
        assert steps[0].wait(PATIENCE)
        ctx.checkpoint(done=2, total=4)
        assert steps[1].wait(PATIENCE)
        return "done"

    handle = work.enqueue()
    with ThreadPoolExecutor(2) as pool:
        seen: list[str] = []

        def watch() -> None:
            seen.extend(event.type for event in live.jobs.events(handle.id))

        watching = pool.submit(watch)
        engine = live.worker()
        engine.start()
        try:
            eventually(lambda: "progress" in seen, lambda: seen)
            steps[0].set()
            eventually(lambda: seen.count("progress") == 2, lambda: seen)
            steps[1].set()
            watching.result(PATIENCE)
        finally:
            for step in steps:
                step.set()
            engine.stop(5)
    assert seen == ["created", "started", "retried", "started", "progress", "progress", "completed"]
    events = list(live.jobs.events(handle.id))
    assert [event.type for event in events] == ["created", "started", "retried", "started", "completed"]
    assert events[2].error is not None and events[2].error["type"] == "ValueError"
    assert [event.is_last for event in events] == [False] * 4 + [True]
    for number, event in enumerate(events):
        rest = list(live.jobs.events(handle.id, after=event.id))
        assert rest == events[number + 1 :], "a watcher continues behind the event it has"


def test_a_job_that_never_ran_has_its_cancel_as_last_event(live: App) -> None:
    (made,) = live.store.enqueue([NewJob(kind="report", delay=timedelta(hours=1))])
    other = live.jobs.events(made.id)
    assert next(other).type == "created"  # and the next watcher has it at once
    assert [event.type for event in live.jobs.events(made.id, timeout=0.5)] == ["created"]
    live.store.jobs.cancel(made.id)
    events = list(live.jobs.events(made.id))
    assert [(event.type, event.is_last) for event in events] == [("created", False), ("cancelled", True)]


def test_watchers_of_jobs_share_their_reads(live: App, monkeypatch: pytest.MonkeyPatch) -> None:
    made = live.store.enqueue([NewJob(kind="report", delay=timedelta(hours=1)) for _ in range(5)])
    sampler: Sampler = live.parts.sampler
    with counted(live.store.db, monkeypatch) as verbs:
        watched = [sampler.job(one.id) for one in made for _ in range(10)]
        assert all(subscription.next(PATIENCE) for subscription in watched)
        assert verbs.count("timeline") == 5, "fifty watchers of five jobs"
        reads = verbs.count("watched.jobs")
        eventually(lambda: verbs.count("watched.jobs") >= reads + 2)
        assert verbs.count("timeline") == verbs.count("get") == 5, (
            "jobs that did not change are not read again"
        )
        live.store.jobs.cancel(made[0].id)
        assert watched[0].next(PATIENCE)
        assert verbs.count("timeline") == 6
    for subscription in watched:
        subscription.close()


def test_only_watched_jobs_are_read(store: Store) -> None:
    """In each of the three places of a job."""
    jobs = [NewJob(kind="report"), NewJob(kind="report", delay=timedelta(hours=1)), NewJob(kind="old")]
    mine, others = ([made.id for made in store.enqueue(jobs)] for _ in range(2))
    holder = store.join()
    for lease in holder.claim("old", limit=2):
        holder.complete(lease)
    for ids in (mine, others, mine + others):
        rows = store.db.read("watched.jobs", ids=ids)
        assert sorted(str(row[0]) for row in rows) == sorted(ids)
        assert {row[1] for row in rows} == {"job", "scheduled", "completed"}


def test_people_watch_their_own_jobs_only(app: App, store: Store) -> None:
    (made,) = store.enqueue([NewJob(kind="welcome", principal=ANNA)])
    for who in (ANNA, OPS, BOSS):
        events = app.acting_as(who).jobs.events(made.id, timeout=PATIENCE)
        assert next(iter(events)).type == "created"
    unknown = "00000000-0000-7000-8000-000000000000"
    for who in (BERT, CARA):
        with pytest.raises(JobNotFoundError) as refused:
            app.acting_as(who).jobs.events(made.id)
        with pytest.raises(JobNotFoundError) as missing:
            app.acting_as(who).jobs.events(unknown)
        assert refused.value.message.replace(made.id, "") == missing.value.message.replace(unknown, "")


def test_async_events_of_a_job(live: App) -> None:
    (made,) = live.store.enqueue([NewJob(kind="report", delay=timedelta(hours=1))])

    async def watch() -> list[str]:
        events = []
        async for event in live.jobs.events_async(made.id, timeout=PATIENCE):
            events.append(event.type)
            if event.type == "created":
                await asyncio.to_thread(live.store.jobs.cancel, made.id)
        return events

    assert asyncio.run(watch()) == ["created", "cancelled"]


def test_a_removed_job_ends_the_stream(live: App) -> None:
    (made,) = live.store.enqueue([NewJob(kind="report", delay=timedelta(hours=1))])
    events = live.jobs.events(made.id, timeout=PATIENCE)
    assert next(events).type == "created"
    if live.store.db.dialect == "sqlite":
        live.store.db.transact(
            lambda tx: tx.connection.execute("DELETE FROM windlass_job_later") and None  # type: ignore[attr-defined]
        )
    else:
        live.store.db.transact(
            lambda tx: tx.connection.execute("DELETE FROM windlass.job_later") and None  # type: ignore[attr-defined]
        )
    assert list(events) == []


@pytest.mark.parametrize("after", ["", "x", "1", "1-9", "-", "9" * 30 + "-1", 7])
def test_a_cursor_that_is_none_is_refused(app: App, store: Store, after: object) -> None:
    (made,) = store.enqueue([NewJob(kind="welcome")])
    with pytest.raises(ConfigError, match="after"):
        app.jobs.events(made.id, after=after)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="timeout"):
        app.events(timeout=-1)
