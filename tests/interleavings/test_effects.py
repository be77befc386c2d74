"""Recovery and effect transactions do not wait for each other, and a frozen holder frees its row on time."""

from __future__ import annotations

import signal
import time
from datetime import timedelta

import psycopg
import pytest

from tests.acceptance import processes
from tests.interleavings.sessions import Open, assert_consistent, claim, enqueue
from tests.waiting import eventually
from windlass.errors import LeaseLost, StoreError
from windlass.features import Store
from windlass.model import State, Verdict

pytestmark = pytest.mark.timing

LEASE = timedelta(milliseconds=300)
IDLE_FOR_LONG = timedelta(minutes=-2)
"""A margin with which the server leaves a transaction alone that is idle while the test waits for the end of its lease."""


def lease_over(store: Store, holder_id: str) -> None:
    """Wait until an instance's lease is over by the database's clock."""
    eventually(
        lambda: any(
            one.id == holder_id and one.heartbeat_at + one.lease < store.now()
            for one in store.instances.list()
        ),
        "the lease to end",
    )


def test_recovery_leaves_out_the_job_of_an_open_effect_and_takes_the_rest(
    postgres_dsn_every: str, stores: Open
) -> None:
    """Four of five jobs come back at once; the fifth, whose effect is being written, stays with its holder, whose commit
    then stands, although the instance was declared dead in the meantime."""
    store, other = stores(postgres_dsn_every), stores(postgres_dsn_every)
    with psycopg.connect(postgres_dsn_every) as connection:
        connection.execute("CREATE TABLE effect (what text)")
    ids = enqueue(store, 5)
    holder = store.join(lease=LEASE)
    leases = claim(holder, 5)
    with holder.transaction(leases[0], margin=IDLE_FOR_LONG) as tx:
        tx.connection.execute("INSERT INTO effect VALUES ('one')")
        tx.put_output("x", name="part")  # locks the job's row
        lease_over(store, holder.id)
        recovered = other.recovery.recover()  # it would wait for the open transaction for ever
        assert {item.job_id for item in recovered} == set(ids[1:])
        assert len(other.join().claim("work", 10)) == 4
        assert not other.recovery.recover()
        tx.complete()
    assert tx.verdict is Verdict.RECORDED
    assert other.jobs.get(ids[0]).state is State.COMPLETED
    assert not other.recovery.recover()
    with psycopg.connect(postgres_dsn_every) as connection:
        assert connection.execute("SELECT count(*) FROM effect").fetchone() == (1,)
    assert_consistent(postgres_dsn_every, store)


def test_an_effect_whose_job_was_recovered_vanishes(postgres_dsn_every: str, stores: Open) -> None:
    """The fence is last: a transaction that wrote for long and lost its lease meanwhile commits nothing."""
    store, other = stores(postgres_dsn_every), stores(postgres_dsn_every)
    with psycopg.connect(postgres_dsn_every) as connection:
        connection.execute("CREATE TABLE effect (what text)")
    (job_id,) = enqueue(store)
    holder = store.join(lease=LEASE)
    (lease,) = claim(holder)
    with pytest.raises(LeaseLost), holder.transaction(lease, margin=IDLE_FOR_LONG) as tx:
        tx.connection.execute("INSERT INTO effect VALUES ('late')")
        lease_over(store, holder.id)
        assert [item.job_id for item in other.recovery.recover()] == [job_id]
        (again,) = claim(other.join())
        assert again.token > lease.token
        tx.complete()
    with psycopg.connect(postgres_dsn_every) as connection:
        assert connection.execute("SELECT count(*) FROM effect").fetchone() == (0,)
    assert other.jobs.get(job_id).state is State.PROCESSING
    assert_consistent(postgres_dsn_every, store)


def test_an_idle_effect_transaction_is_ended_by_the_server(postgres_dsn_every: str, stores: Open) -> None:
    """A holder that stops inside its transaction keeps its row no longer than the lease less its margin; the handler
    that comes back to it is told, and nothing of it stays."""
    store = stores(postgres_dsn_every)
    with psycopg.connect(postgres_dsn_every) as connection:
        connection.execute("CREATE TABLE effect (what text)")
    enqueue(store)
    holder = store.join(lease=timedelta(seconds=30))
    (lease,) = claim(holder)
    freed: list[float] = []

    def is_ended() -> bool:
        """Once more where this test itself was held up for that long, and had not locked the row yet."""
        began = time.perf_counter()
        with (
            pytest.raises(StoreError, match="idle-in-transaction timeout"),
            holder.transaction(lease, margin=timedelta(seconds=29)) as tx,
            psycopg.connect(postgres_dsn_every, autocommit=True) as outside,
        ):
            tx.connection.execute("INSERT INTO effect VALUES ('idle')")
            tx.put_output(1, name="lock")
            outside.execute("SELECT FROM windlass.job FOR UPDATE")  # waits for the row
            freed.append(time.perf_counter() - began)
            tx.complete()
        return bool(freed)

    eventually(is_ended)
    assert 0.9 < freed[0] < 25, f"the row was free after {freed[0]:.2f} s; the limit is 1 s, the lease 30 s"
    with psycopg.connect(postgres_dsn_every) as connection:
        assert connection.execute("SELECT count(*) FROM effect").fetchone() == (0,)
    assert store.jobs.get(lease.id).state is State.PROCESSING


def test_a_long_statement_in_an_effect_is_ended_too(postgres_dsn: str, stores: Open) -> None:
    """Idle time is not all: one statement that runs longer than the lease allows is cancelled; the handler gets its
    driver's own error, as for any statement of its own."""
    store = stores(postgres_dsn)
    enqueue(store)
    holder = store.join()
    (lease,) = claim(holder)
    with (
        pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"),
        holder.transaction(lease, margin=timedelta(seconds=27)) as tx,
    ):
        tx.connection.execute("SELECT pg_sleep(100)")
    assert holder.complete(lease) is Verdict.RECORDED


@pytest.mark.slow
def test_a_frozen_process_frees_its_row_on_time_and_is_refused_when_it_wakes(
    postgres_dsn: str, stores: Open
) -> None:
    """SIGSTOP inside an effect transaction: the job is recovered soon after the lease ended, another instance completes
    it, and of the frozen process nothing commits after SIGCONT: not its effect, not one of its verbs."""
    store = stores(postgres_dsn)
    with psycopg.connect(postgres_dsn) as connection:
        connection.execute("CREATE TABLE effect (what text)")
    (job_id,) = enqueue(store)
    lease = 1.0
    with processes.running("tests.acceptance.holding", postgres_dsn, "work", lease) as frozen:
        assert processes.ask(frozen, "claim 1")
        assert processes.ask(frozen, "effect") == "inside"
        frozen.send_signal(signal.SIGSTOP)
        eventually(lambda: store.recovery.recover(), "the frozen process's job")
        holder = store.join()
        (again,) = claim(holder)
        assert again.id == job_id and again.is_recovered
        with holder.transaction(again) as tx:
            tx.connection.execute("INSERT INTO effect VALUES ('second')")
            tx.complete("done")
        frozen.send_signal(signal.SIGCONT)
        answers = {
            word: processes.ask(frozen, word)
            for word in ("commit", "complete", "checkpoint", "output", "fail", "beat")
        }
    assert answers.pop("commit") in ("StoreError", "StoreUnreachableError", "LeaseLost")
    assert set(answers.values()) == {"LeaseLost"}, answers
    with psycopg.connect(postgres_dsn) as connection:
        assert connection.execute("SELECT what FROM effect").fetchall() == [("second",)]
    job = store.jobs.get(job_id)
    assert (job.state, job.result, job.crashes) == (State.COMPLETED, "done", 0)
    assert_consistent(postgres_dsn, store)
