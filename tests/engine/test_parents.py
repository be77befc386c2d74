"""``ctx.parents()`` in every place that runs handlers: threads, the event loop, child processes, and ``process_request``."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.engine import parents_app
from tests.engine.parents_app import EXPECTED, resize
from tests.engine.shop import Shop
from windlass import App, Context, build
from windlass.engine.running_job_store import RunningJobStore
from windlass.errors import ConfigError
from windlass.handlers.parents import parents_of
from windlass.model import ParentPage, State

pytestmark = pytest.mark.timing

PLACES = ("in_a_thread", "on_the_loop", "in_a_process", "in_a_process_async")


def served(shop: Shop) -> Any:
    """The app on the shop's database."""
    return App.of(parents_app.app.parts.bound(config=shop.app.config, store=shop.store))


def test_parents_are_read_wherever_a_handler_runs(shop: Shop) -> None:
    app = served(shop)
    requests = [resize.request(n) for n in range(4)]
    batches = [app.batch(requests, then=getattr(parents_app, place).request()) for place in PLACES]
    engine = shop.serve_app(app)
    shop.drained(engine)
    found = {place: shop.job(batch.then) for place, batch in zip(PLACES, batches, strict=True)}
    assert {place: job.error for place, job in found.items() if job.error} == {}
    assert {place: job.result for place, job in found.items()} == dict.fromkeys(PLACES, EXPECTED)


def test_parents_are_read_in_process_request(shop: Shop) -> None:
    app = served(shop)
    batch = app.batch([resize.request(n) for n in range(4)], then=parents_app.in_a_thread.request())
    with build({"database.url": shop.app.url}, app=parents_app.app, store=shop.store) as background:
        for job in (*batch.members, batch.then):
            background.process_request(job.id, correlation_id=None)
    assert shop.job(batch.then).result == EXPECTED


def test_a_coroutine_that_reads_its_parents_does_not_block_the_loop(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the database is asked for a page, another coroutine of the same loop runs: it is what lets the page come."""
    gate, reading = threading.Event(), threading.Event()
    read = RunningJobStore.parents_of

    def slow(self: RunningJobStore, lease: Any, after: str) -> ParentPage:
        reading.set()
        assert gate.wait(60)
        return read(self, lease, after)

    monkeypatch.setattr(RunningJobStore, "parents_of", slow)

    @shop.app.job
    def member() -> int:
        return 7

    @shop.app.job
    async def summary(ctx: Context) -> list[Any]:
        return [value async for value in ctx.parents().results()]

    @shop.app.job
    async def opener() -> None:
        gate.set()

    batch = shop.app.batch([member.request()], then=summary.request())
    engine = shop.serve()
    assert reading.wait(60)
    opener.enqueue()
    shop.drained(engine)
    assert shop.job(batch.then).result == [7]


def test_a_kind_is_given_by_its_name_where_names_are_known(shop: Shop) -> None:
    app = served(shop)
    store: Any = None
    lease: Any = None
    assert parents_of(lease, store, "resize", app.parts.registry)._kind == "resize"
    with pytest.raises(ConfigError, match="did you mean resize"):
        parents_of(lease, store, "resise", app.parts.registry)
    with pytest.raises(ConfigError, match="the kind itself or a type"):
        parents_of(lease, store, "resize", None)
    with pytest.raises(ConfigError, match="a type that pydantic can read"):
        parents_of(lease, store, object(), app.parts.registry)


def test_a_result_that_was_pruned_is_missed_and_the_parent_is_shown_as_gone(shop: Shop) -> None:
    """Of a summary that is retried by hand when a parent is gone from history."""
    seen: list[Any] = []

    @shop.app.job
    def member(n: int) -> int:
        return n

    @shop.app.job
    def summary(ctx: Context) -> int:
        seen.append([(item.is_gone, item.result) for item in ctx.parents(member)])
        return sum(ctx.parents(member).results())

    batch = shop.app.batch(
        [member.request(1), member.request(2)], then=summary.options(max_attempts=1).request()
    )
    engine = shop.serve()
    shop.drained(engine)
    prefix = "windlass_" if shop.store.db.dialect == "sqlite" else "windlass."
    shop.run(f"DELETE FROM {prefix}job_done WHERE id = '{batch.members[0].id}'")
    shop.store.jobs.retry(batch.then.id)
    shop.until(lambda: shop.job(batch.then).state is State.FAILED)
    assert seen == [[(False, 1), (False, 2)], [(True, None), (False, 2)]]
    error = shop.job(batch.then).error
    assert error is not None and batch.members[0].id in error["message"]
