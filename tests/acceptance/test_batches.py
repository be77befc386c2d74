"""Batches whose workers are killed, as real processes: each summary runs once, after all members, with what all of them left."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest

from tests.acceptance import batch_worker, processes
from tests.acceptance.ledger import ledger
from tests.waiting import PATIENCE, eventually
from windlass import JobHandle
from windlass.model import State

pytestmark = pytest.mark.timing

WORKER = "tests.acceptance.batch_worker"
SIZE = 25
GOOD = [n for n in range(SIZE) if n % 5 != 4]


@pytest.mark.slow
def test_a_summary_of_members_that_all_complete_gets_each_result_once(url: str) -> None:
    """A batch of 25 on one worker after the other; two of them are killed with jobs in their hands. The last member is not due until then, so
    that the batch is open at both kills."""
    app = batch_worker.served(url)
    app.store.upkeep.maintain()
    book = ledger(url)
    members = [batch_worker.member.request(n, may_fail=False) for n in range(SIZE - 1)]
    last_member = batch_worker.member.options(delay=3600).request(SIZE - 1, may_fail=False)
    batch = app.batch([*members, last_member], then=batch_worker.summary.request())

    def have_run(n: int) -> bool:
        return int(book.execute("SELECT count(*) FROM ran").fetchone()[0]) >= n

    for committed in (5, 13):
        with processes.running(WORKER, url):
            eventually(partial(have_run, committed), app.store.phases.counts)
    assert batch.then.state() is State.WAITING
    app.store.jobs.run_now(batch.members[-1].id)
    with processes.running(WORKER, url):
        found = batch.result(PATIENCE)
    assert found == {"results": list(range(SIZE)), "failures": 0}
    assert [job.result() for job in batch.members] == list(range(SIZE))
    ran = Counter(book.execute("SELECT job, what FROM ran").fetchall())
    book.close()
    assert ran == Counter([(job.id, "member") for job in batch.members] + [(batch.then.id, "summary")])
    assert app.store.jobs.get(batch.then.id).generation == 1
    app.store.close()


@pytest.mark.slow
def test_summaries_run_once_with_all_results_whatever_is_killed(url: str) -> None:
    """Three batches of 25 and one that is open on two workers; one of them is killed with jobs in its hands, and another comes in its place. Members of
    the open batch that failed are retried by hand: two before it is over, one after that."""
    app = batch_worker.served(url)
    app.store.upkeep.maintain()
    book = ledger(url)
    requests = [batch_worker.member.request(n) for n in range(SIZE)]
    batches = [app.batch(requests, then=batch_worker.summary.request()) for _ in range(3)]
    last_member = batch_worker.member.options(delay=3600).request(SIZE)
    held = app.batch([*requests, last_member], then=batch_worker.summary.request())
    first, second, third = (held.members[n] for n in (4, 9, 14))

    def rows() -> int:
        return int(book.execute("SELECT count(*) FROM ran").fetchone()[0])

    def have_run(n: int) -> bool:
        return rows() >= n

    def are_over() -> bool:
        return all(is_in(State.COMPLETED, batch.then) for batch in batches)

    def is_in(state: State, job: JobHandle[Any]) -> bool:
        return app.store.jobs.get(job.id).state is state

    def retried(member: JobHandle[Any]) -> None:
        eventually(partial(is_in, State.FAILED, member), rows)
        app.store.jobs.retry(member.id)

    with processes.running(WORKER, url):
        for committed, member in ((5, first), (40, second)):
            with processes.running(WORKER, url):
                eventually(partial(have_run, committed), rows)
                retried(member)
        eventually(are_over, app.store.phases.counts)
        for member in (first, second):
            eventually(partial(is_in, State.COMPLETED, member), rows)
        assert is_in(State.WAITING, held.then)
        app.store.jobs.cancel(held.members[-1].id)
        eventually(partial(is_in, State.COMPLETED, held.then), rows)
        retried(third)
        eventually(partial(is_in, State.COMPLETED, third), rows)
    found = app.store.jobs.get(held.then.id)
    assert found.result == {"results": sorted([*GOOD, 4, 9]), "failures": 4} and found.generation == 1
    for batch in batches:
        assert app.store.jobs.get(batch.then.id).result == {"results": GOOD, "failures": 5}
        assert (batch.progress().completed, batch.progress().failed) == (20, 5)
        last = max(str(app.store.jobs.get(job.id).finished_at) for job in batch.members)
        assert str(app.store.jobs.get(batch.then.id).started_at) >= last
    ran = Counter(row[0] for row in book.execute("SELECT job FROM ran").fetchall())
    book.close()
    assert set(ran.values()) == {1}, "an effect of a member or a summary was committed twice"
    assert len(ran) == 4 * (len(GOOD) + 1) + 3
    app.store.close()
