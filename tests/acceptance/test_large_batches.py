"""Batches of thousands of members on real workers: one is killed, some members fail, one of those is retried by hand."""

from __future__ import annotations

import pytest

from tests.acceptance import batch_worker, processes
from tests.acceptance.ledger import ledger
from tests.waiting import PATIENCE, eventually
from windlass.model import ParentCounts, State

pytestmark = [pytest.mark.timing, pytest.mark.slow]

WORKER = "tests.acceptance.batch_worker"


@pytest.mark.parametrize("size", [1_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_a_summary_gets_the_results_of_thousands(url: str, size: int) -> None:
    """The last member is not due until all others have ended, so that the batch is open at the kill and at the retry."""
    app = batch_worker.served(url)
    app.store.upkeep.maintain()
    book = ledger(url)
    members = [batch_worker.quick_member.request(n) for n in range(size - 1)]
    last_member = batch_worker.quick_member.options(delay=3600).request(size - 1)
    batch = app.batch([*members, last_member], then=batch_worker.summary.request())
    failing = [n for n in range(size) if n % 100 == 7]
    retried = failing[3]

    with processes.running(WORKER, url):
        eventually(lambda: batch.progress().completed >= size // 10, batch.progress)
    assert batch.then.state() is State.WAITING
    others = ParentCounts(size, completed=size - 1 - len(failing), failed=len(failing))
    with processes.running(WORKER, url):
        eventually(lambda: batch.progress() == others, batch.progress)
        batch.members[retried].retry()
        eventually(lambda: batch.members[retried].state() is State.COMPLETED, batch.progress)
        assert batch.then.state() is State.WAITING
        app.store.jobs.run_now(batch.members[-1].id)
        found = batch.result(PATIENCE)
    assert found == {
        "results": [n for n in range(size) if n not in failing or n == retried],
        "failures": len(failing) - 1,
    }
    assert batch.progress() == ParentCounts(size, completed=size - len(failing) + 1, failed=len(failing) - 1)
    assert book.execute("SELECT job FROM ran").fetchall() == [(batch.then.id,)]
    book.close()
    app.store.close()
