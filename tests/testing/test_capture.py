"""Handles in a sandbox, and what ``capture`` collects."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

import windlass
from tests.testing.shop import Shop
from windlass.errors import ConfigError, JobFailed, SandboxError
from windlass.model import Key, State
from windlass.testing import Sandbox

Make = Callable[..., Sandbox]


def test_a_result_is_made_by_running_what_is_due(shop: Shop, windlass_sandbox: Make) -> None:
    windlass_sandbox(shop.app)
    assert shop.order.enqueue(n=2).result() == 4
    batch = shop.app.batch([shop.order.request(n=1), shop.order.request(n=2)], then=shop.total.request())
    assert batch.result(timeout=5) == 6 and batch.progress().total == 2

    async def request() -> Any:
        return await (await shop.order.enqueue_async(n=3)).result_async()

    assert asyncio.run(request()) == 6


def test_a_wait_that_nothing_would_end_is_refused(shop: Shop, windlass_sandbox: Make) -> None:
    box = windlass_sandbox(shop.app)
    late = shop.order.options(delay=60).enqueue(n=1)
    with pytest.raises(SandboxError, match=rf"job {late.id} of order has not ended.*scheduled.*advance=True"):
        late.result()
    with pytest.raises(SandboxError, match="has not ended"):
        asyncio.run(late.wait_async())
    box.advance(61)
    assert late.result() == 2


def test_a_handle_of_a_failed_job_raises_as_ever(windlass_sandbox: Make) -> None:
    app = windlass.App("sqlite:///never-opened.db")

    @app.job(retry=windlass.retry.fixed(1))
    def fail() -> None:
        raise ValueError("on purpose")

    windlass_sandbox(app)
    handle = fail.enqueue()
    with pytest.raises(JobFailed, match="on purpose"):
        app.handle(handle.id).result()


def test_a_handler_may_wait_for_what_it_enqueued(shop: Shop, windlass_sandbox: Make) -> None:
    @shop.app.job
    def parent() -> int:
        return shop.order.enqueue(n=5).result() + 1

    windlass_sandbox(shop.app)
    assert parent.enqueue().result() == 11


# ---------------------------------------------------------------------- capture


def test_capture_collects_without_running(shop: Shop, windlass_sandbox: Make) -> None:
    box = windlass_sandbox(shop.app)
    shop.order.enqueue(n=0)
    with box.capture() as captured, box.inline():
        plain = shop.order.enqueue(n=1)
        shop.order.options(key="k", delay=60, priority=9, max_attempts=7, correlation_id="c").enqueue(n=2)
        shop.order.options(after=[plain], key=Key("x", lasts=timedelta(2))).enqueue_many([{"n": 3}])
        with pytest.raises(SandboxError, match="has not ended"):
            plain.result()
    shop.order.enqueue(n=4)
    assert [(job.kind, job.args, job.options) for job in captured] == [
        ("order", {"n": 1}, {}),
        (
            "order",
            {"n": 2},
            {
                "key": "k",
                "delay": timedelta(seconds=60),
                "priority": 9,
                "max_attempts": 7,
                "correlation_id": "c",
            },
        ),
        ("order", {"n": 3}, {"after": [plain.id], "key": Key("x", lasts=timedelta(2))}),
    ]
    assert captured[0].id == plain.id and len(captured[1:]) == 2
    assert not box.jobs(state=State.COMPLETED)
    (job,) = captured.assert_enqueued("order", n=2)
    assert job.options["priority"] == 9
    captured.refute_enqueued("order", n=4)
    captured.refute_enqueued("total")
    with pytest.raises(AssertionError, match="at least one wanted of order"):
        captured.assert_enqueued("order", n=0)
    with pytest.raises(ConfigError, match="one of the kinds"):
        captured.refute_enqueued("no such kind")
    assert box.drain() == 4


def test_capture_knows_what_was_rolled_back(shop: Shop, windlass_sandbox: Make) -> None:
    box = windlass_sandbox(shop.app)
    with (
        closing(sqlite3.connect(box.url.removeprefix("sqlite:///"), isolation_level=None)) as connection,
        box.capture() as captured,
    ):
        connection.execute("BEGIN IMMEDIATE")
        shop.order.enqueue_in(connection, n=1)
        connection.execute("ROLLBACK")
        shop.app.chain(shop.order.request(n=2), shop.total.request())
    assert [job.kind for job in captured] == ["order", "total"]
