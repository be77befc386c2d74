"""A job submitted in a caller's transaction exists if and only if that transaction commits, whatever the library."""

from __future__ import annotations

from typing import Any

import pytest

from tests.callers.kinds import Open, run
from windlass.app import App, JobKind
from windlass.model import JobFilter, State


@pytest.fixture
def welcome(app: App) -> JobKind[..., Any]:
    @app.job
    def welcome(user_id: int) -> None: ...

    return welcome


def jobs(app: App) -> list[str]:
    return [job.id for job in app.store.jobs.list(JobFilter()).jobs]


def test_commit_makes_the_job_and_rollback_makes_none(
    kind: str, app: App, opened: Open, welcome: Any
) -> None:
    async def work() -> None:
        async with opened(app.url) as hand:
            await hand.execute("CREATE TABLE orders (n integer)")
            first = await hand.enqueue(welcome, user_id=7)
            assert jobs(app) == []
            await hand.commit()
        assert jobs(app) == [first.id] and first.created
        async with opened(app.url) as hand:
            await hand.execute("INSERT INTO orders VALUES (1)")
            await hand.enqueue(welcome, user_id=8)
            await hand.enqueue_many(welcome, [{"user_id": n} for n in range(20)])
            await hand.rollback()
        assert jobs(app) == [first.id]
        async with opened(app.url) as hand:
            assert (await hand.execute("SELECT count(*) FROM orders"))[0] == (0,)
            await hand.rollback()
        job = app.store.jobs.get(first.id)
        assert (job.kind, job.args, job.state, job.reason) == (
            "welcome",
            {"user_id": 7},
            State.QUEUED,
            "inbox",
        )
        assert app.store.upkeep.promote() == {"welcome": 1}
        (lease,) = app.store.join().claim("welcome", 5)
        assert lease.id == first.id

    run(kind, work)
