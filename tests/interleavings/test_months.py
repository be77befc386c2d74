"""Days become months while jobs are retried out of them, pruned, read and dropped: no job is lost, doubled or brought back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel

from tests.interleavings import years
from tests.interleavings.sessions import Open, Waiting, assert_consistent, until_blocked, user_transaction
from tests.interleavings.years import FIRST, LAST, LAST_USED, MONTH
from windlass.errors import JobNotFoundError
from windlass.features import Store
from windlass.model import JobFilter, Retention, State
from windlass.store.postgres import partitions

pytestmark = pytest.mark.timing


@pytest.fixture
def old(postgres_dsn_every: str) -> str:
    """A database with six old days of one month."""
    years.fill(postgres_dsn_every, FIRST, LAST_USED)
    return postgres_dsn_every


def test_days_become_a_month_with_the_same_jobs(old: str, stores: Open) -> None:
    store, before = stores(old), years.contents(old)
    steps = years.merge(old)
    assert [step.merged for step in steps if step.merged is not None] == [24]
    assert years.contents(old) == before
    assert MONTH in years.names(old) and not {
        name for name in years.names(old) if name.startswith(MONTH + "0")
    }
    with psycopg.connect(old) as connection:
        left = connection.execute(
            "SELECT relname FROM pg_class WHERE relname LIKE 'job_done_%%' AND relkind = 'r' AND NOT relispartition"
        ).fetchall()
        assert left == [], "the days are gone"
        assert _indexes(connection, MONTH) == _indexes(
            connection, partitions.name_of(datetime.now(UTC).date())
        )
    (failed,) = store.jobs.list(JobFilter(state=State.FAILED), limit=1).jobs
    with psycopg.connect(old) as connection, pytest.raises(psycopg.errors.CheckViolation):
        connection.execute("UPDATE windlass.job_done SET state = 'cancelled' WHERE id = %s", (failed.id,))
    assert store.jobs.retry(failed.id).generation == 2
    assert years.step(old) is None
    assert_consistent(old, store)


def _indexes(connection: psycopg.Connection, table: str) -> list[str]:
    rows = connection.execute(
        "SELECT regexp_replace(indexdef, '^.* USING', '') FROM pg_indexes WHERE schemaname = 'windlass' AND tablename = %s ORDER BY 1",
        (table,),
    ).fetchall()
    return [row[0] for row in rows]


@pytest.mark.parametrize("change", ["retry", "prune", "come late"])
@pytest.mark.parametrize("stage", ["began", "copies", "copied", "took the place", "dropped"])
def test_what_is_changed_at_any_stage_is_changed_in_the_month(
    old: str, stores: Open, stage: str, change: str
) -> None:
    """All failed jobs leave history, or a job comes that ended long ago by a clock that was wrong, between two steps."""
    store, before = stores(old), years.ids(old)
    failed = [job.id for job in store.jobs.list(JobFilter(state=State.FAILED), limit=100).jobs]
    years.until(old, stage)
    if change == "retry":
        for job_id in failed:
            store.jobs.retry(job_id)
    elif change == "prune":
        assert store.upkeep.prune(Retention(completed=None, failed=timedelta(), cancelled=None), page=5) == 12
    else:
        with psycopg.connect(old, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO windlass.job_done SELECT (d).* FROM (SELECT jsonb_populate_record(d, jsonb_build_object('id', gen_random_uuid())) AS d "
                "FROM windlass.job_done AS d WHERE d.state = 'failed') AS late"
            )
            connection.execute("INSERT INTO windlass.delta (phase, failed) VALUES ('old', 12)")
    expected = years.ids(old) if change == "come late" else sorted(set(before) - set(failed))
    years.merge(old)
    assert years.ids(old) == expected
    assert MONTH in years.names(old)
    for job_id in failed:
        if change == "prune":
            with pytest.raises(JobNotFoundError):
                store.jobs.get(job_id)
        else:
            assert store.jobs.get(job_id).state == (State.QUEUED if change == "retry" else State.FAILED)
    assert_consistent(old, store)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_retry_that_is_open_while_its_job_is_copied(old: str, stores: Open, end: str) -> None:
    """The copy sees the job as it was; the swap waits for the retry, and the copy follows it."""
    store = stores(old)
    job_id = store.jobs.list(JobFilter(state=State.FAILED), limit=1).jobs[0].id
    years.until(old, "began")
    with psycopg.connect(old) as retry:
        retry.execute("DELETE FROM windlass.job_done WHERE id = %s", (job_id,))
        years.until(old, "copied", page=100)
        assert job_id in years.ids(old, MONTH), "the copy was made beside it"
        stuck = years.step(old)
        assert stuck is not None and stuck.is_waiting
        getattr(retry, end)()
        if end == "commit":
            retry.execute("INSERT INTO windlass.delta (phase, failed) VALUES ('old', -1)")
    years.merge(old)
    assert (job_id in years.ids(old)) is (end == "rollback")
    assert_consistent(old, store)


def test_a_retry_between_the_wait_and_the_swap_is_not_swapped_over(old: str, stores: Open) -> None:
    """The swap looks under its lock: a change puts it off, and is done to the copy first."""
    store = stores(old)
    job_id = store.jobs.list(JobFilter(state=State.FAILED), limit=1).jobs[0].id
    years.until(old, "copied")
    with psycopg.connect(old) as swapping, psycopg.connect(old) as retrying:
        retrying.execute("DELETE FROM windlass.job_done WHERE id = %s", (job_id,))
        retrying.execute("INSERT INTO windlass.delta (phase, failed) VALUES ('old', -1)")
        # It has looked for changes already, and waits for its lock.
        swap = Waiting(lambda: years.swap(swapping))
        until_blocked(old, swap)
        retrying.commit()
        assert swap.result().merged is None
        swapping.commit()
    assert MONTH not in years.names(old)
    years.merge(old)
    assert MONTH in years.names(old) and job_id not in years.ids(old)
    assert_consistent(old, store)


@pytest.mark.parametrize("verb", ["retry", "get", "list", "prune", "after"])
def test_whoever_waits_for_the_swap_finds_the_job_in_the_month(old: str, stores: Open, verb: str) -> None:
    """A verb whose plan names the days waits for the swap's lock, and then works with the month."""
    store, everything = stores(old), years.ids(old)
    job_id = store.jobs.list(JobFilter(state=State.FAILED), limit=1).jobs[0].id
    keep = Retention(completed=None, failed=timedelta(), cancelled=None)
    verbs: dict[str, Callable[[], Any]] = {
        "retry": lambda: store.jobs.retry(job_id).state,
        "get": lambda: store.jobs.get(job_id).state,
        "list": lambda: [job.id for job in store.jobs.list(JobFilter(kind="old"), limit=100).jobs],
        "prune": lambda: store.upkeep.prune(keep),
        "after": lambda: _enqueue_after(store, job_id),
    }
    for _ in range(2):  # so that the plans are there
        store.jobs.get(job_id), store.jobs.list(JobFilter(kind="old"), limit=100)
    years.until(old, "copied")
    with psycopg.connect(old) as instance:
        assert years.swap(instance).merged == 24
        call = Waiting(verbs[verb])
        until_blocked(old, call)
        instance.commit()
        found = call.result()
    expected = {
        "retry": State.QUEUED,
        "get": State.FAILED,
        "list": sorted(everything, reverse=True),
        "prune": 12,
        "after": State.CANCELLED,
    }
    assert (sorted(found, reverse=True) if verb == "list" else found) == expected[verb]
    years.merge(old)
    assert (job_id in years.ids(old)) is (verb not in ("retry", "prune"))
    assert_consistent(old, store)


def _enqueue_after(store: Store, parent: str) -> State:
    from windlass.model import After, NewJob

    (child,) = store.enqueue([NewJob(kind="child", after=[After(parent)])])
    store.dependencies.link()
    return store.jobs.get(child.id).state


@pytest.mark.parametrize("has_read", [False, True])
def test_a_report_with_an_older_snapshot_sees_what_it_saw(old: str, has_read: bool) -> None:
    """Rows of the copy are younger than its snapshot: it would see a month without jobs. Whether it has read history yet or not,
    the swap waits for it."""
    before = years.contents(old)
    with psycopg.connect(old) as report:
        report.isolation_level = IsolationLevel.REPEATABLE_READ
        report.execute(
            "SELECT count(*) FROM windlass.job_done" if has_read else "SELECT 1 FROM windlass.tally"
        )
        years.until(old, "copied")
        for _ in range(3):
            stuck = years.step(old)
            assert stuck is not None and stuck.is_waiting
        rows = report.execute("SELECT d::text FROM windlass.job_done AS d ORDER BY d.id").fetchall()
        assert [row[0] for row in rows] == before
    years.merge(old)
    assert years.contents(old) == before


def test_a_report_that_began_between_a_retry_and_its_catching_up_does_not_see_the_job_twice(
    old: str, stores: Open
) -> None:
    store = stores(old)
    job_id = store.jobs.list(JobFilter(state=State.FAILED), limit=1).jobs[0].id
    years.until(old, "copied")
    store.jobs.retry(job_id)
    with psycopg.connect(old) as report:
        report.isolation_level = IsolationLevel.REPEATABLE_READ
        report.execute("SELECT 1 FROM windlass.tally")
        years.until(old, "caught up")
        years.until(old, "copied")
        for _ in range(2):
            stuck = years.step(old)
            assert stuck is not None and stuck.is_waiting
        assert report.execute("SELECT count(*) FROM windlass.jobs WHERE id = %s", (job_id,)).fetchone() == (
            1,
        )
    years.merge(old)
    assert MONTH in years.names(old)
    assert_consistent(old, store)


def test_the_swap_gives_up_soon_behind_a_reader_and_others_go_on(old: str, stores: Open) -> None:
    """A caller's transaction that has looked at history stays open: nobody waits behind the swap for longer than its own patience."""
    store = stores(old)
    job_id = years.ids(old)[0]
    years.until(old, "copied")
    with user_transaction(old) as tx:
        tx.connection.execute("SELECT count(*) FROM windlass.job_done")
        swap = Waiting(lambda: years.step(old))
        while not swap.is_done():
            store.jobs.get(job_id)
        stuck = swap.result()
        assert stuck is not None and stuck.is_waiting
        assert store.jobs.get(job_id).id == job_id
    years.merge(old)
    assert MONTH in years.names(old)


@pytest.mark.parametrize(
    "ground",
    ["a day is dropped", "a day is detached", "a column comes", "a day is emptied", "the copy is dropped"],
)
@pytest.mark.parametrize("stage", ["began", "copies", "copied"])
def test_where_the_ground_has_changed_the_copy_is_thrown_away(
    old: str, stores: Open, stage: str, ground: str
) -> None:
    store = stores(old)
    years.until(old, stage)
    day = partitions.name_of(FIRST)
    with psycopg.connect(old, autocommit=True) as connection:
        match ground:
            case "a day is dropped":
                cutoff = partitions.midnight(FIRST + timedelta(days=1))
                assert partitions.drop_before(connection, cutoff) == {
                    day: {("old", "completed"): 2, ("old", "failed"): 2}
                }
            case "a day is detached":
                connection.execute(f"ALTER TABLE windlass.job_done DETACH PARTITION windlass.{day}".encode())
                connection.execute(
                    "INSERT INTO windlass.delta (phase, completed, failed) VALUES ('old', -2, -2)"
                )
            case "a column comes":
                connection.execute("ALTER TABLE windlass.job_done ADD COLUMN colour text DEFAULT 'red'")
            case "the copy is dropped":
                connection.execute(f"DROP TABLE windlass.{MONTH}".encode())
            case _:
                connection.execute(f"TRUNCATE windlass.{day}".encode())
                connection.execute(
                    "INSERT INTO windlass.delta (phase, completed, failed) VALUES ('old', -2, -2)"
                )
    before = years.contents(old)
    steps = years.merge(old)
    assert any("thrown away" in step.what for step in steps)
    assert years.contents(old) == before
    assert MONTH in years.names(old)
    if ground == "a day is detached":
        assert len(years.ids(old, day)) == 4, "it is the user's"
        with psycopg.connect(old, autocommit=True) as connection:
            connection.execute(f"DELETE FROM windlass.{day}".encode())
            assert connection.execute("SELECT count(*) FROM windlass.month_change").fetchone() == (0,)
    assert_consistent(old, store)


def test_readers_see_every_job_once_while_months_are_made(postgres_dsn: str, stores: Open) -> None:
    """Two threads look, one retries, one prunes, while three months are made in small pages and by whoever comes."""
    first = (FIRST - timedelta(days=1)).replace(day=1)
    years.fill(postgres_dsn, first, LAST, each=6)
    store = stores(postgres_dsn)
    failed = [job.id for job in _all(store, State.FAILED)]
    completed = frozenset(job.id for job in _all(store, State.COMPLETED))
    retried, over, looks = failed[::2], threading.Event(), [0, 0]

    def look(number: int) -> None:
        seen = stores_of[number]
        ids = sorted(completed)
        while not over.is_set() or not looks[number]:
            listed = [job.id for job in _all(seen, State.COMPLETED)]
            assert len(listed) == len(set(listed)) and set(listed) == completed
            for job_id in ids[looks[number] % 50 :: 50]:
                assert seen.jobs.get(job_id).state is State.COMPLETED
            looks[number] += 1

    def retry() -> None:
        for job_id in retried:
            assert store.jobs.retry(job_id).generation == 2

    def merge() -> None:
        years.merge(postgres_dsn, page=20)

    stores_of = [stores(postgres_dsn), stores(postgres_dsn)]
    readers = [Waiting(lambda n=n: look(n)) for n in range(2)]  # type: ignore[misc]
    writers = [Waiting(retry), Waiting(merge), Waiting(merge)]
    try:
        for writer in writers:
            writer.result()
    finally:
        over.set()
    for reader in readers:
        reader.result()
    assert {partitions.month_of(first), MONTH} <= years.names(postgres_dsn)
    assert years.ids(postgres_dsn) == sorted(completed | set(failed[1::2]))
    assert_consistent(postgres_dsn, store)


def _all(store: Store, state: State) -> list[Any]:
    page = store.jobs.list(JobFilter(state=state), limit=200)
    jobs = [*page.jobs]
    while page.next_cursor:
        page = store.jobs.list(JobFilter(state=state), limit=200, cursor=page.next_cursor)
        jobs += page.jobs
    return jobs
