"""Jobs that come of other jobs, as handlers and rules make them."""

from __future__ import annotations

from tests.engine.shop import Shop
from windlass.model import JobFilter, NewJob
from windlass.work.context import Context


def test_a_job_enqueued_by_a_handler_inherits_its_correlation_id(shop: Shop) -> None:
    """G6, E5: by itself, inside a transaction, and not where it brings one."""

    @shop.app.job
    def leaf() -> None: ...

    @shop.app.job
    def parent(ctx: Context) -> None:
        ctx.enqueue(NewJob(kind="leaf"))
        ctx.enqueue(NewJob(kind="leaf", correlation_id="its own"))
        with ctx.transaction() as tx:
            tx.enqueue(NewJob(kind="leaf"))

    parent.enqueue(correlation_id="order-7")
    shop.drained(shop.serve())
    found = shop.store.jobs.list(JobFilter(kind="leaf")).jobs
    assert sorted(job.correlation_id for job in found) == ["its own", "order-7", "order-7"]
