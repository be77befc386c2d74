"""What a fresh pair of eyes broke, and must not break again."""

from __future__ import annotations

import gc
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from tests.conformance.life import (
    BOOM,
    LEASE,
    assert_counts_are_true,
    claim_one,
    enqueue,
    every_job,
    one,
    state,
)
from tests.waiting import PATIENCE
from windlass.clock import ManualClock
from windlass.errors import ConfigError, StoreError
from windlass.features import Store, open_store
from windlass.model import (
    Advanced,
    After,
    Cancelled,
    Completed,
    DependencyPolicy,
    Failed,
    JobError,
    Json,
    Key,
    NewJob,
    Outcome,
    Retention,
    Retried,
    State,
    Verdict,
    Want,
)
from windlass.store.ids import new_id
from windlass.store.jobs.recovery import Recovery

LATER = LEASE + timedelta(seconds=1)


# ------------------------------------------------------------------------------------------ claims that nobody sees


def test_a_step_that_fails_claims_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recording came after the claim: when it raised, the claimed jobs stayed processing as long as the instance lived."""
    enqueue(store, n=3)
    holder = store.join()
    (first,) = holder.claim("work", 1)
    broken = Advanced(first, "next", Json("{not json"))
    with pytest.raises(StoreError):
        holder.step([broken], Want("work", 2))
    assert [str(job.state) for job in every_job(store)].count("processing") == 1


def test_claims_the_caller_never_saw_are_given_back_by_the_beat(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueue(store, n=3)
    holder = store.join()
    (first,) = holder.claim("work", 1)
    holder.complete(first)

    def fails(*_: object) -> None:
        raise StoreError("the connection broke")

    monkeypatch.setattr(holder, "_resolve", fails)
    with pytest.raises(StoreError):
        holder.step([Completed(first)], Want("work", 2))
    monkeypatch.undo()
    clock.advance(6)
    assert holder.beat().released == 2
    assert len(holder.claim("work", 5)) == 2


def test_jobs_held_for_a_probe_reach_the_caller_even_if_the_sweep_fails(
    store: Store, opened: Callable[[], Store], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    one(store)
    opened().join(lease=LEASE).claim("work", 1)
    clock.advance(LATER)
    run = store.db.run

    def no_sweep(verb: str, **parameters: object) -> list:
        if verb == "recover.sweep":
            raise StoreError("the connection broke")
        return run(verb, **parameters)

    monkeypatch.setattr(store.db, "run", no_sweep)
    (held,) = Recovery(store.db).recover(holder=store.join(), probed=["work"])
    assert held.verdict == "held" and held.is_held


def test_a_claim_made_while_a_beat_is_under_way_is_not_released(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The beat names what it knew when it was sent; a slow one came back and released what was claimed meanwhile."""
    one(store)
    holder = store.join()
    run = store.db.run

    def slow(verb: str, **parameters: object) -> list:
        if verb == "beat":
            claim_one(holder)
            clock.advance(10)
        return run(verb, **parameters)

    monkeypatch.setattr(store.db, "run", slow)
    assert holder.beat().released == 0


# ------------------------------------------------------------------------------------------ verdicts


def test_two_outcomes_of_one_job_get_a_verdict_each(store: Store) -> None:
    job_id = one(store)
    holder = store.join()
    stale = claim_one(holder)
    holder.release(stale)
    new = claim_one(holder)
    assert holder.record([Failed(stale, BOOM), Completed(new, 1)]) == [Verdict.LOST, Verdict.RECORDED]
    assert state(store, job_id) is State.COMPLETED
    again: list[Outcome] = [Completed(new, 1), Completed(new, 2), Failed(stale, BOOM)]
    assert holder.record(again) == [Verdict.ALREADY_RECORDED, Verdict.ALREADY_RECORDED, Verdict.LOST]
    other = one(store)
    lease = claim_one(holder)
    assert holder.record([Completed(lease, 1), Completed(lease, 2)]) == [
        Verdict.RECORDED,
        Verdict.ALREADY_RECORDED,
    ]
    assert store.jobs.get(other).result == 1
    assert_counts_are_true(store)


def test_a_stale_end_does_nothing_to_the_children_of_a_job_that_goes_on(store: Store) -> None:
    parent = one(store)
    child = one(store, "child", after=[After(parent)])
    store.dependencies.link()
    holder = store.join()
    stale = claim_one(holder)
    holder.checkpoint(stale, done=1)
    holder.release(stale)
    new = claim_one(holder)
    verdicts = holder.record([Completed(stale), Retried(new, BOOM, timedelta(hours=1))])
    assert verdicts == [Verdict.LOST, Verdict.RECORDED]
    assert state(store, child) is State.WAITING and store.jobs.progress(parent) is not None


def test_a_zombie_is_lost_after_recovery_moved_its_job_on(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    one(store)
    dead = opened().join(lease=LEASE)
    lease = claim_one(dead)
    dead.put_output(lease, 1, next_phase="next")
    clock.advance(LATER)
    assert [item.verdict for item in store.recovery.recover()] == ["advanced"]
    assert dead.record([Failed(lease, BOOM)]) == [Verdict.LOST]


@pytest.mark.parametrize(
    ("make", "end"),
    [
        (lambda lease: Cancelled(lease, "a\x00b\ud800"), State.CANCELLED),
        (
            lambda lease: Failed(lease, JobError(type="E", code="c", message="m", details={"x": object()})),
            State.FAILED,
        ),
        (
            lambda lease: Failed(
                lease, JobError(type="E", code="c", message="m", details={"x": "y" * 900_000})
            ),
            State.FAILED,
        ),
        (lambda lease: Completed(lease, float("nan")), State.FAILED),
        (lambda lease: Completed(lease, object()), State.FAILED),
        (lambda lease: Retried(lease, BOOM, timedelta(days=900_000_000)), State.SCHEDULED),
        (lambda lease: Advanced(lease, "next", 1, 0), State.FAILED),
        (lambda lease: Advanced(lease, "next", 1, 40_000), State.FAILED),
        (lambda lease: Advanced(lease, "a\nb", 1), State.FAILED),
        (lambda lease: Advanced(lease, "next", object()), State.FAILED),
    ],
)
def test_one_bad_outcome_does_not_take_its_neighbours_down(store: Store, make: Callable, end: State) -> None:
    """I-17: it ends with a code, or cleaned; the rest of its batch is recorded."""
    enqueue(store, n=2)
    holder = store.join()
    bad, good = holder.claim("work", 2)
    assert holder.record([make(bad), Completed(good, "fine")]) == [Verdict.RECORDED, Verdict.RECORDED]
    assert (state(store, bad.id), state(store, good.id)) == (end, State.COMPLETED)
    assert len(store.jobs.list().jobs) == 2, "what was stored can be listed"
    assert_counts_are_true(store)


# ------------------------------------------------------------------------------------------ enqueueing


def test_two_enqueues_of_one_id_in_two_transactions_make_one_job(postgres_dsn: str) -> None:
    """One went to the inbox of an open transaction, one to the queue: promotion stopped for everybody."""
    with open_store(postgres_dsn) as store:
        job_id = new_id()
        one(store, "other", delay=timedelta(milliseconds=1))
        answers = []
        with store.db.effect(5) as tx:
            store.enqueuer.enqueue_in(tx, [NewJob(kind="work", id=job_id)])
            waiting = threading.Thread(
                target=lambda: answers.append(store.enqueue([NewJob(kind="work", id=job_id)])[0].created)
            )
            waiting.start()
            time.sleep(0.2)
        waiting.join(PATIENCE)
        assert answers == [False]
        time.sleep(0.01)
        assert store.upkeep.promote() == {"work": 1, "other": 1}
        assert len(every_job(store)) == 2


def test_a_job_that_stands_in_two_tables_stops_no_promotion(store: Store, clock: ManualClock) -> None:
    """It cannot happen any more, but one bad row must never stop a phase."""
    if store.db.dialect == "sqlite":
        pytest.skip("one writer at a time: the look before the insert is exact, and the row cannot be made")
    job_id = one(store, delay=timedelta(seconds=1))
    other = one(store, delay=timedelta(seconds=1))
    with store.db.effect(5) as tx:
        tx.connection.execute(
            "INSERT INTO windlass.job (id, created_at, ready_at, lane, max_attempts, kind, phase, args) "
            "SELECT id, created_at, created_at, lane, max_attempts, kind, phase, args FROM windlass.job_later WHERE id = %s",
            (job_id,),
        )
    clock.advance(2)
    store.upkeep.promote()
    assert sorted(lease.id for lease in store.join().claim("work", 5)) == sorted([job_id, other])


def test_a_child_waits_for_the_job_that_holds_its_parents_key(store: Store) -> None:
    winner = one(store, "parent", key=Key("k"))
    parent = new_id()
    child = new_id()
    store.enqueue(
        [
            NewJob(kind="parent", id=parent, key=Key("k")),
            NewJob(kind="child", id=child, after=[After(parent)]),
        ]
    )
    assert [edge.parent for edge in store.dependencies.of(child)] == [winner]


@pytest.mark.parametrize(
    ("jobs", "key"),
    [
        (NewJob(kind="work"), "jobs"),
        (["work"], "jobs"),
        ([NewJob(kind="work", delay=5)], "delay"),  # type: ignore[arg-type]
        ([NewJob(kind="work", delay=timedelta(days=4_000_000))], "delay"),
        ([NewJob(kind="work", run_at="2027-01-01")], "run_at"),  # type: ignore[arg-type]
        ([NewJob(kind="work", run_at=datetime(9999, 12, 31, tzinfo=UTC))], "run_at"),
        ([NewJob(kind="work", key="k")], "key"),  # type: ignore[arg-type]
        ([NewJob(kind="work", key=Key("k", "bogus"))], "key scope"),  # type: ignore[arg-type]
        ([NewJob(kind="work", after=["01900000-0000-7000-8000-000000000000"])], "after"),  # type: ignore[list-item]
        ([NewJob(kind="work", after=[After("01900000-0000-7000-8000-000000000000", '"')])], "after policy"),  # type: ignore[arg-type]
        ([NewJob(kind="work", args=[1])], "args"),  # type: ignore[arg-type]
        ([NewJob(kind="work", args="hello")], "args"),  # type: ignore[arg-type]
    ],
)
def test_wrong_types_are_named_too(store: Store, jobs: list, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        store.enqueue(jobs)
    assert caught.value.key == key and every_job(store) == []


def test_json_over_several_lines_is_stored_in_bulk_too(store: Store) -> None:
    args = Json('{\n\t"a": "x\\ny",\r\n "b": [1,\n2]}')
    ids = enqueue(store, n=600, args=args)
    assert store.jobs.get(ids[0]).args == {"a": "x\ny", "b": [1, 2]}


def test_ids_that_are_none_have_nothing(store: Store) -> None:
    assert store.jobs.attempts("x") == [] and store.jobs.progress("x") is None
    assert store.outputs.of("x") == [] and store.dependencies.of("x") == []


# ------------------------------------------------------------------------------------------ effects


@pytest.mark.parametrize("way", ["commit", "with", "script", "sql"])
def test_a_handler_cannot_end_its_transaction_behind_the_fence(
    store: Store, opened: Callable[[], Store], clock: ManualClock, way: str
) -> None:
    """Its job's end belongs to that commit: on SQLite a stale holder's effect stayed, although it was told LeaseLost."""
    job_id = one(store)
    holder = store.join()
    lease = claim_one(holder)
    with store.db.effect(5) as tx:
        tx.connection.execute("CREATE TABLE effects (n integer)")
    is_sqlite = store.db.dialect == "sqlite"
    with pytest.raises((StoreError, psycopg.Error)), holder.transaction(lease) as tx:
        tx.connection.execute("INSERT INTO effects VALUES (1)")
        tx.complete()
        match way:
            case "commit":
                tx.connection.commit()
            case "with" if is_sqlite:
                with tx.connection:
                    pass
            case "script" if is_sqlite:
                tx.connection.executescript("SELECT 1;")
            case _:
                tx.connection.execute("COMMIT")
    assert state(store, job_id) is State.PROCESSING


def test_a_handlers_own_errors_stay_its_own(store: Store) -> None:
    one(store)
    holder = store.join()
    lease = claim_one(holder)
    with (
        pytest.raises((sqlite3.OperationalError, psycopg.errors.UndefinedTable)),
        holder.transaction(lease) as tx,
    ):
        tx.connection.execute("SELECT * FROM no_such_table_of_mine")
    assert holder.complete(lease) is Verdict.RECORDED


def test_a_chunk_that_was_committed_before_is_not_committed_again(store: Store) -> None:
    """Repeated after an unknown commit, the same checkpoint would carry the same effects twice."""
    one(store)
    holder = store.join()
    lease = claim_one(holder)
    with holder.transaction(lease) as tx:
        tx.checkpoint(done=10, total=20)
    with pytest.raises(ConfigError, match="never goes back"), holder.transaction(lease) as tx:
        tx.checkpoint(done=10, total=20)
    holder.checkpoint(lease, done=10, total=20)


@pytest.mark.owner
def test_a_missing_partition_heals_inside_an_effect_too(postgres_dsn: str) -> None:
    with open_store(postgres_dsn) as store:
        one(store)
        holder = store.join()
        lease = claim_one(holder)
        with psycopg.connect(postgres_dsn, autocommit=True) as admin:
            admin.execute("CREATE TABLE effects (n integer)")
            names = admin.execute(
                "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
                "WHERE i.inhparent = 'windlass.job_done'::regclass"
            ).fetchall()
            for (name,) in names:
                admin.execute(f"DROP TABLE windlass.{name}")
        with holder.transaction(lease) as tx:
            tx.connection.execute("INSERT INTO effects VALUES (1)")
            tx.complete("healed")
        assert store.jobs.get(lease.id).result == "healed"


# ------------------------------------------------------------------------------------------ upkeep


def test_an_orphan_whose_output_is_there_is_moved_on(store: Store) -> None:
    """Recovery looks for the output in the net under the nets, too."""
    job_id = one(store)
    holder = store.join()
    lease = claim_one(holder)
    holder.put_output(lease, "done", next_phase="next")
    with store.db.effect(5) as tx:
        prefix = "windlass_" if store.db.dialect == "sqlite" else "windlass."
        tx.connection.execute(f"DELETE FROM {prefix}claim")
    assert [item.verdict for item in store.recovery.sweep_orphans()] == ["advanced"]
    assert store.jobs.get(job_id).phase == "next"


def test_children_of_a_locked_parent_hold_up_nobody_behind_them(postgres_dsn: str) -> None:
    with open_store(postgres_dsn) as store:
        parent = one(store, "a")
        holder = store.join()
        lease = claim_one(holder, "a")
        enqueue(store, "stuck", 5, after=[After(parent)])
        free = one(store, "b")
        behind = one(store, "behind", after=[After(free, DependencyPolicy.RUN)])
        with holder.transaction(lease) as tx:
            tx.put_output(1, name="x")
            assert store.dependencies.link(limit=2) == 1
        store.jobs.cancel(free)
        assert state(store, behind) is State.QUEUED
        assert store.dependencies.link(limit=2) == 5


@pytest.mark.owner
def test_instances_that_prune_at_once_do_not_trip_over_each_other(postgres_dsn: str) -> None:
    old = ManualClock(datetime.now(UTC) - timedelta(days=50))
    for _ in range(3):
        with open_store(postgres_dsn, clock=old) as store:
            store.upkeep.maintain()
            one(store)
            holder = store.join()
            holder.complete(claim_one(holder))
        old.advance(timedelta(days=1))
    keep = Retention(completed=timedelta(days=1), failed=timedelta(days=1), cancelled=timedelta(days=1))
    removed: list[int] = []
    errors: list[Exception] = []

    def prune() -> None:
        try:
            with open_store(postgres_dsn) as store:
                removed.append(store.upkeep.prune(keep))
        except Exception as error:  # noqa: BLE001  shown below
            errors.append(error)

    threads = [threading.Thread(target=prune) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with open_store(postgres_dsn) as store:
        store.upkeep.prune(keep)
        assert every_job(store) == []
        assert_counts_are_true(store)


# ------------------------------------------------------------------------------------------ processes, threads, files


def test_a_relative_file_stays_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with open_store("sqlite:///jobs.db", auto_migrate=True) as store:
        monkeypatch.chdir(tmp_path / "other")
        with store.db.effect(5) as tx:
            store.enqueuer.enqueue_in(tx, [NewJob(kind="work")])
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(len(store.jobs.list().jobs)))
        thread.start()
        thread.join()
        assert found == [1]
    assert not (tmp_path / "other" / "jobs.db").exists()


def test_threads_that_end_leave_no_open_file(sqlite_path: Path) -> None:
    """One connection per thread that ever read made 100 short threads cost 200 descriptors. (SQLite itself keeps a few.)"""
    with open_store(f"sqlite:///{sqlite_path}") as store:

        def read_in_threads(n: int) -> int:
            for _ in range(n):
                thread = threading.Thread(target=store.jobs.list)
                thread.start()
                thread.join()
            gc.collect()
            return _open_files()

        first = read_in_threads(100)
        assert read_in_threads(100) - first < 10


def _open_files() -> int:
    folder = Path("/proc/self/fd")
    return sum(1 for _ in folder.iterdir()) if folder.exists() else 0


def test_an_interrupt_leaves_no_transaction_open(sqlite_path: Path) -> None:
    """A signal between BEGIN and the next line left the writer in a transaction for good."""

    is_armed = False

    def interrupt(*_: object) -> None:
        if is_armed:
            raise InterruptedError

    with open_store(f"sqlite:///{sqlite_path}") as store:
        limit, _ = signal.getitimer(signal.ITIMER_REAL)  # the test's own
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            for n in range(300):
                with suppress(InterruptedError, StoreError):
                    is_armed = True
                    signal.setitimer(signal.ITIMER_REAL, 0.0002 + (n % 37) * 0.00002)
                    for _ in range(1000):
                        store.enqueue([NewJob(kind="work")])
                is_armed = False
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            signal.setitimer(signal.ITIMER_REAL, limit)
        assert store.enqueue([NewJob(kind="work")])[0].created
        counts = store.phases.counts()["work"]
        assert counts.queued == len(every_job(store))


def test_passwords_do_not_show_in_refused_urls() -> None:
    for url in ("mysql://u:pa'SECRET@host/x", "sqlite://u:SECRET@x", "postgresql://u:SECRET@[host"):
        with pytest.raises((ConfigError, StoreError)) as caught:
            open_store(url)
        shown = f"{caught.value} {caught.value.__cause__} "
        assert "SECRET" not in shown
