"""The database refuses impossible rows by itself, whoever writes them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import timedelta

import psycopg
import pytest

from tests.conformance.life import BOOM, claim_one, one, state
from windlass.features import Store, open_store
from windlass.model import NewJob, State

# What a handler's own statements raise is the driver's, untranslated.
REFUSALS = (sqlite3.IntegrityError, psycopg.errors.IntegrityError)

# Statements that would make an impossible row; {job}, {later}, … are the tables of the dialect.
IMPOSSIBLE = {
    "a token without a claim time": "UPDATE {p}job SET token = 99",
    "a claim time without a token": "UPDATE {p}job SET claimed_at = created_at",
    "a cancel nobody could hear": "UPDATE {p}job SET cancel_at = created_at",
    "a lane below zero": "UPDATE {p}job SET lane = -1",
    "a lane above nine": "UPDATE {p}job SET lane = 10",
    "no attempts allowed": "UPDATE {p}job SET max_attempts = 0",
    "negative attempts": "UPDATE {p}job SET attempt = -1",
    "negative crashes": "UPDATE {p}job SET crashes = -1",
    "generation zero": "UPDATE {p}job SET generation = 0",
    "scheduled with parents pending": "UPDATE {p}job_later SET pending = 1",
    "waiting for nobody": "UPDATE {p}job_later SET reason = 'waiting'",
    "an unknown reason": "UPDATE {p}job_later SET reason = 'why not'",
    "no due time": "UPDATE {p}job_later SET run_at = NULL",
    "a completed job that failed": "UPDATE {p}job_done SET state = 'completed'",
    "an end that changes": "UPDATE {p}job_done SET state = 'cancelled'",
    "an end that becomes no end": "UPDATE {p}job_done SET state = 'queued'",
    "history that changes": "UPDATE {p}job_done SET attempt = 9",
    "a second job with the same id": "INSERT INTO {p}job SELECT * FROM {p}job",
    "progress beyond the total": "UPDATE {p}checkpoint SET done = 99",
    "negative progress": "UPDATE {p}checkpoint SET done = -1",
    "a job that waits for itself": "INSERT INTO {p}job_dep (parent, child, policy) SELECT id, id, 'run' FROM {p}job",
    "an unknown policy": "INSERT INTO {p}job_dep (parent, child, policy) SELECT d.id, j.id, 'x' FROM {p}job j, {p}job_done d",
    "an endless idempotency key": "INSERT INTO {p}job_key (scope, key, job, body_hash) SELECT 'idempotent', 'k', id, 'h' FROM {p}job",
    "an unknown scope": "INSERT INTO {p}job_key (scope, key, job, body_hash) SELECT 'x', 'k', id, 'h' FROM {p}job",
    "an attempt with an unknown outcome": "UPDATE {p}attempt SET outcome = 'x'",
    "a lease without a length": "UPDATE {p}instance SET lease = {zero}",
    "a second output under one name": "INSERT INTO {p}output SELECT * FROM {p}output",
    "a side output that moves a job on": "UPDATE {p}output SET next_phase = 'b', next_max_attempts = 1",
}


@pytest.fixture(scope="module")
def filled(open_shared: Callable[[], Store]) -> Store:
    """A store with a row in each table; statements that are refused change none of them."""
    store = open_shared()
    holder = store.join()
    one(store, "ended")
    holder.fail(claim_one(holder, "ended"), BOOM)
    one(store, "held")
    lease = claim_one(holder, "held")
    holder.checkpoint(lease, done=1, total=2)
    holder.put_output(lease, 1, name="x")
    holder.release(lease, counted=True)
    one(store, "later", delay=timedelta(hours=1))
    return store


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_the_database_refuses(filled: Store, what: str) -> None:
    """Not only code, the database too."""
    store = filled
    is_sqlite = store.db.dialect == "sqlite"
    sql = IMPOSSIBLE[what].format(
        p="windlass_" if is_sqlite else "windlass.", zero="0" if is_sqlite else "interval '0'"
    )
    with pytest.raises(REFUSALS), store.db.effect(5) as tx:
        tx.connection.execute(sql)


ENDS = ("completed", "failed", "cancelled")
PLACES = {
    "queued": "INSERT INTO windlass_job (id, created_at, ready_at, {shared}) SELECT id, created_at, finished_at, {shared} FROM windlass_job_done",
    "processing": "INSERT INTO windlass_job (id, created_at, ready_at, token, claimed_at, {shared}) SELECT id, created_at, finished_at, 1, finished_at, {shared} FROM windlass_job_done",
    "scheduled": "INSERT INTO windlass_job_later (id, created_at, run_at, reason, {shared}) SELECT id, created_at, finished_at, 'scheduled', {shared} FROM windlass_job_done",
    "waiting": "INSERT INTO windlass_job_later (id, created_at, run_at, reason, pending, {shared}) SELECT id, created_at, finished_at, 'waiting', 1, {shared} FROM windlass_job_done",
}
SHARED = "lane, max_attempts, kind, phase, args"


def _end(store: Store, how: str) -> str:
    """A job that ended so."""
    job = one(store)
    if how == "cancelled":
        store.jobs.cancel(job)
        return job
    holder = store.join()
    lease = claim_one(holder)
    if how == "completed":
        holder.complete(lease)
    else:
        holder.fail(lease, BOOM)
    return job


@pytest.fixture(scope="module", params=ENDS)
def ended(request: pytest.FixtureRequest, open_shared: Callable[[], Store]) -> tuple[Store, str]:
    """A store with one job, which has ended, and how."""
    store = open_shared()
    _end(store, request.param)
    return store, request.param


@pytest.mark.parametrize("becomes", [str(each) for each in State])
def test_the_refusal_to_change_an_end_names_both_states(ended: tuple[Store, str], becomes: str) -> None:
    store, is_ = ended
    table = "windlass_job_done" if store.db.dialect == "sqlite" else "windlass.job_done"
    with pytest.raises(REFUSALS) as caught, store.db.effect(5) as tx:
        tx.connection.execute(f"UPDATE {table} SET state = '{becomes}'")
    assert is_ in str(caught.value) and "only by retry" in str(caught.value)
    if becomes != is_:
        assert f"cannot become {becomes}" in str(caught.value)


@pytest.mark.parametrize("is_", ENDS)
@pytest.mark.parametrize("becomes", PLACES)
def test_on_sqlite_an_ended_job_is_not_inserted_again(
    fresh_sqlite: Callable[[], str], is_: str, becomes: str
) -> None:
    """PostgreSQL has no such guard: it would cost a search in every partition of history (docs/decisions/0001-data-model.md)."""
    with open_store(fresh_sqlite()) as store:
        job = _end(store, is_)
        with pytest.raises(sqlite3.IntegrityError) as caught, store.db.effect(5) as tx:
            tx.connection.execute(PLACES[becomes].format(shared=SHARED))
        assert f"a {is_} job cannot become {becomes}" in str(caught.value)
        assert state(store, job) == is_
        store.jobs.retry(job)
        assert state(store, job) == "queued"


def test_an_id_that_has_ended_makes_no_second_job(store: Store) -> None:
    """Through the store's own door, at once and inside a transaction, for now and for later."""
    job = _end(store, "completed")
    for delay in (None, timedelta(hours=1)):
        (answer,) = store.enqueue([NewJob(kind="work", id=job, delay=delay)])
        assert (answer.id, answer.created) == (job, False)
    assert state(store, job) == "completed"
    assert store.join().claim("work", 1) == []
