"""A fencing number is given out once, whatever was deleted or killed since (I-4)."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import psycopg
import pytest

from tests.acceptance import processes
from tests.interleavings.sessions import Open, claim, enqueue
from tests.waiting import eventually
from windlass.errors import LeaseLost
from windlass.features import open_store
from windlass.model import Released, State

pytestmark = pytest.mark.timing

LEASE = 0.3


@pytest.mark.slow
def test_sqlite_never_issues_a_token_twice(sqlite_path: Path) -> None:
    """The highest claim row goes in every way it can: by its holder's next step, with its holder, by recovery after
    kill -9, by hand; the file is closed and opened in between. Every token is higher than all before it."""
    url = f"sqlite:///{sqlite_path}"
    tokens: list[int] = []

    def claim_and_finish() -> None:
        with open_store(url) as store:
            enqueue(store)
            holder = store.join()
            (lease,) = claim(holder)
            tokens.append(lease.token)
            holder.complete(lease)
            holder.step()
            holder.leave()

    def claim_in_a_process_that_is_killed() -> None:
        with open_store(url) as store:
            enqueue(store)
            with processes.running("tests.acceptance.holding", url, "work", LEASE) as doomed:
                tokens.append(int(processes.ask(doomed, "claim 1")))
            eventually(lambda: store.recovery.recover(), "recovery")
            holder = store.join()
            (lease,) = claim(holder)
            tokens.append(lease.token)
            holder.complete(lease)
            holder.leave()

    def claim_nothing() -> None:
        """A claim that finds nothing takes its number back; the number is burnt all the same."""
        with open_store(url) as store:
            enqueue(store, kind="other")
            holder = store.join()
            assert not holder.claim("nothing", 1)
            (lease,) = claim(holder, phase="other")
            tokens.append(lease.token)
            holder.record([Released(lease)])
            holder.leave()

    def delete_by_hand() -> None:
        with sqlite3.connect(sqlite_path) as connection:
            connection.execute("DELETE FROM windlass_claim")
        connection.close()

    for step in (
        claim_and_finish,
        claim_in_a_process_that_is_killed,
        delete_by_hand,
        claim_and_finish,
        claim_nothing,
        delete_by_hand,
        claim_in_a_process_that_is_killed,
        claim_and_finish,
    ):
        step()
    assert tokens == sorted(set(tokens)), tokens


def test_a_zombie_with_the_highest_token_is_fenced(sqlite_path: Path) -> None:
    """What a token issued twice would break: the first holder's claim row was the highest and is gone, the job was
    claimed again, and the first holder's writes are refused."""
    with open_store(f"sqlite:///{sqlite_path}") as store:
        (job_id,) = enqueue(store)
        zombie = store.join()
        (lease,) = claim(zombie)
        zombie.release(lease)
        zombie.step()
        (again,) = claim(store.join())
        assert again.token > lease.token
        for write in (
            lambda: zombie.complete(lease),
            lambda: zombie.checkpoint(lease, done=1),
            lambda: zombie.put_output(lease, 1),
        ):
            with pytest.raises(LeaseLost):
                write()
        assert store.jobs.get(job_id).state is State.PROCESSING


def test_postgres_hands_tokens_out_one_by_one(postgres_dsn_every: str, stores: Open) -> None:
    """The sequence caches nothing: numbers of two sessions rise in the order of their claims, also when every claim row
    is gone and when a claim was rolled back."""
    one, two = stores(postgres_dsn_every), stores(postgres_dsn_every)
    tokens: list[int] = []
    for store in (one, two, one, two, two, one):
        enqueue(store)
        holder = store.join()
        (lease,) = claim(holder)
        tokens.append(lease.token)
        holder.complete(lease)
        holder.leave()
        with psycopg.connect(postgres_dsn_every) as connection:
            connection.execute("DELETE FROM windlass.claim")
    assert tokens == sorted(set(tokens))
