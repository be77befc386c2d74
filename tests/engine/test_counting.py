"""Rare things are counted where they happen: crashes, and outputs that were there already."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.engine import process_handlers as handlers
from tests.engine.shop import Shop
from windlass.engine.engine import Engine
from windlass.model import State
from windlass.retry import fixed


def count(engine: Engine, name: str) -> int:
    return engine.stats.report().count(name)


def test_a_child_that_dies_under_its_job_is_a_crash(shop: Shop) -> None:
    job = shop.app.job(executor="process", retry=fixed(1))(handlers.end_process).enqueue(code=7)
    engine = shop.serve()
    shop.drained(engine)
    assert shop.job(job).state is State.FAILED and count(engine, "crashes") == 1


@pytest.mark.parametrize("is_probed", [False, True], ids=["plain", "probed"])
@pytest.mark.parametrize(("starting", "crashes"), [(1, 1), (0, 0)], ids=["started", "claimed"])
def test_an_instance_that_died_is_a_crash_of_the_jobs_it_had_started(
    shop: Shop, is_probed: bool, starting: int, crashes: int
) -> None:
    @shop.app.job(probe=(lambda: False) if is_probed else None)
    def work() -> None: ...

    job = work.enqueue()
    shop.store.join(lease=timedelta(seconds=0.3)).claim("work", 1, starting=starting)
    engine = shop.serve()
    shop.drained(engine)
    assert shop.job(job).state is State.COMPLETED
    assert shop.job(job).crashes == count(engine, "crashes") == crashes


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_outputs_that_were_there_are_counted_wherever_they_are_put(shop: Shop, executor: str) -> None:
    """Beside and inside a transaction, here and in a child."""
    job = shop.app.job(executor=executor)(handlers.put_twice).enqueue()
    engine = shop.serve()
    shop.drained(engine)
    assert shop.job(job).result == [True, False, True, False]
    assert count(engine, "duplicates_prevented") == 2
