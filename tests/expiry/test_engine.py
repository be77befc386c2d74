"""Every way of submitting a job that expires, and every way of running one."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from tests.conformance.bystanders import rows
from tests.engine.conftest import app, box, shop  # noqa: F401  fixtures
from tests.engine.shop import Shop
from tests.waiting import PATIENCE
from windlass import Context
from windlass.app.app import App
from windlass.engine.one_job import OneJobRunner, Status
from windlass.errors import ConfigError
from windlass.model import NewJob, State
from windlass.testing import Sandbox

LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


def test_every_call_takes_the_option(app: App, box: Sandbox) -> None:  # noqa: F811
    made: list[str] = []

    @box.app.job
    def leaf(n: int = 0) -> None: ...

    @box.app.job
    def root(ctx: Context) -> None:
        made.append(ctx.enqueue(NewJob(kind="leaf", expires=60)).id)
        with ctx.transaction() as tx:
            made.append(tx.enqueue(NewJob(kind="leaf", expires=60)).id)
            made.append(leaf.options(expires=60).enqueue_in(tx, n=2).id)

    pipe = box.app.pipeline("pipe")

    @pipe.phase("a")
    def first() -> None: ...

    made += [job.id for job in leaf.enqueue_many([leaf.options(expires=60).request(n=1)])]
    made += [job.id for job in leaf.options(expires=timedelta(minutes=1)).enqueue_many([{"n": 1}] * 2)]
    made += [leaf.options(expires=60).enqueue(n=1).id, pipe.options(expires=60).enqueue().id]
    box.run_one(root.enqueue())
    assert len(made) == 8
    at = box.clock.now() + timedelta(seconds=60)
    assert {box.store.expiries.get(job) for job in made} == {at}
    box.advance(60)
    assert box.drain() == 0
    assert {box.store.jobs.get(job).state for job in made} == {State.CANCELLED}


def test_a_parameter_of_that_name_is_the_handlers(app: App, box: Sandbox) -> None:  # noqa: F811
    seen: list[int] = []

    @box.app.job
    def brew(expires: int) -> None:
        seen.append(expires)

    job = brew.options(expires=60).enqueue(expires=7)
    assert box.store.expiries.get(job.id) == box.clock.now() + timedelta(seconds=60)
    box.drain()
    assert seen == [7]
    with pytest.raises(ConfigError, match="did you mean expires"):
        brew.options(expire=5)  # type: ignore[call-arg]


def test_an_instance_begins_no_job_whose_time_is_over(shop: Shop) -> None:  # noqa: F811
    """Long before the duty comes round; jobs beside it run."""
    ran: list[str] = []

    @shop.app.job
    async def on_the_loop(name: str) -> None:
        ran.append(name)

    @shop.app.job
    def on_a_thread(name: str) -> None:
        ran.append(name)

    late = [kind.options(expires=LONG_AGO).enqueue(name="late") for kind in (on_the_loop, on_a_thread)]
    good = [kind.options(expires=3600).enqueue(name="good") for kind in (on_the_loop, on_a_thread)]
    plain = [kind.enqueue(name="plain") for kind in (on_the_loop, on_a_thread)]
    engine = shop.serve()
    shop.drained(engine)
    assert [shop.job(job).state for job in late] == [State.CANCELLED] * 2
    assert [shop.job(job).state for job in (*good, *plain)] == [State.COMPLETED] * 4
    assert sorted(ran) == ["good", "good", "plain", "plain"]
    assert rows(shop.store, "expiry") == []


def test_a_job_expires_in_the_memory_of_a_busy_instance(shop: Shop) -> None:  # noqa: F811
    """The instance has claimed it and has no processor free; upkeep comes at the very moment."""
    release, began = threading.Event(), threading.Event()

    @shop.app.job(processors=1)
    def busy(wait: bool) -> None:
        began.set()
        if wait:
            release.wait(PATIENCE)

    busy.enqueue(wait=True)
    engine = shop.serve(recovery=PATIENCE * 2, prefetch=60.0, heartbeat=0.5)
    assert began.wait(PATIENCE)
    late = busy.options(expires=0.5).enqueue(wait=False)
    shop.until(lambda: shop.job(late).state is State.CANCELLED)
    assert (shop.job(late).error or {})["code"] == "expired"
    release.set()
    shop.drained(engine)
    assert shop.store.phases.counts()["busy"].cancelled == 1


def test_process_request_does_not_begin_it_either(shop: Shop) -> None:  # noqa: F811
    ran: list[int] = []

    @shop.app.job
    def work(n: int) -> None:
        ran.append(n)

    late, good = work.options(expires=LONG_AGO).enqueue(n=1), work.options(expires=3600).enqueue(n=2)
    with OneJobRunner(shop.store, shop.app.parts.registry) as runner:
        found = runner.process(late.id)
        assert found.status is Status.CANCELLED and (found.job.error or {})["code"] == "expired"
        assert runner.process(good.id).status is Status.COMPLETED
    assert ran == [2]
