"""The degraded parts of an instance, as other processes see them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.shop import QUICK
from tests.waiting import eventually
from windlass import App
from windlass.control.instances import DegradedPart, InstanceView
from windlass.engine.engine import Engine

pytestmark = pytest.mark.timing
NO_REDIS = {"redis.url": "redis://127.0.0.1:1/0", "background.redis_lock_required": True}
"""Locks are required, and nothing listens at the address of Redis."""


@pytest.fixture
def app(store_url: str) -> Iterator[App]:
    with App(store_url, config=NO_REDIS, settings=QUICK) as made:
        yield made


@pytest.fixture
def worker(app: App) -> Iterator[Engine]:
    @app.job
    def pay() -> None: ...

    engine = app.worker()
    engine.start()
    yield engine
    engine.stop(grace=0)


def _degraded(app: App) -> tuple[InstanceView, DegradedPart] | None:
    for instance in app.instances.list():
        for part in instance.degraded:
            if part.part == "redis lock":
                return instance, part
    return None


def test_a_worker_without_its_redis_is_listed_with_the_part_and_the_cure(app: App, worker: Engine) -> None:
    instance, part = eventually(lambda: _degraded(app))
    assert instance.id == worker.id
    assert part.state == "down" and "no job runs" in part.seen
    assert "redis_lock_required" in part.advice
    (problem,) = [one for one in app.overview.read().problems if "redis lock" in one]
    assert worker.id in problem and part.seen in problem and part.advice in problem
