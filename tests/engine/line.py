"""Engines in trouble: jobs that wait in memory behind one that runs, beats that fail, an instance declared dead."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.engine.shop import Shop
from tests.waiting import PATIENCE
from windlass.engine.engine import Engine
from windlass.errors import StoreUnreachableError
from windlass.handlers.context import Context
from windlass.model.retry import fixed
from windlass.submit.handle import JobHandle


@dataclass
class Line:
    """Five jobs of one phase with one processor, all claimed: the first runs until the gate is opened, four wait in memory."""

    engine: Engine
    jobs: list[JobHandle[None]]
    gate: threading.Event
    ran: list[tuple[int, int]]
    """Number and token of each run, in order."""

    @classmethod
    def in_memory(
        cls,
        shop: Shop,
        *,
        look: Callable[[Context], None] = lambda _: None,
        attempts: int = 3,
        **settings: Any,
    ) -> Line:
        """``look`` is called by each job when it begins."""
        ran: list[tuple[int, int]] = []
        gate, has_looked = threading.Event(), threading.Event()

        @shop.app.job(processors=1, retry=fixed(attempts))
        def work(ctx: Context, n: int) -> None:
            ran.append((n, ctx._lease.token))
            look(ctx)
            has_looked.set()
            while not gate.wait(0.01):
                ctx.check_stop()

        gate.set()
        work.enqueue_many({"n": -1} for _ in range(30))  # fast at first, so that some are claimed ahead
        engine = shop.serve(prefetch=10.0, **settings)
        shop.drained(engine)
        gate.clear()
        ran.clear()
        has_looked.clear()
        jobs = [work.enqueue(n=n) for n in range(5)]
        shop.until(lambda: engine.report().phases["work"].waiting == 4)
        assert has_looked.wait(PATIENCE), "the first runs, and has looked"
        return cls(engine, jobs, gate, ran)


def break_beats(engine: Engine) -> Callable[[], None]:
    """Have every beat of an engine fail from now on, the one that is under way included; call what it returns to end that."""
    holder: Any = engine.holder
    real, away, has_failed = holder.beat, threading.Event(), threading.Event()
    away.set()

    def beat(**options: Any) -> Any:
        if away.is_set():
            has_failed.set()
            raise StoreUnreachableError("away")
        return real(**options)

    holder.beat = beat
    engine._heartbeat.beat_soon()
    assert has_failed.wait(PATIENCE)  # one thread beats: no beat from before can renew the lease any more
    return away.clear


def run_out(engine: Engine) -> None:
    """Bring the instance's own clock to the moment from which its lease has no more than the margin left. Nothing may renew it then."""
    engine._heartbeat._good_until = time.monotonic() + engine.settings.margin


def declare_dead(shop: Shop) -> None:
    """What another instance does with one that did not beat in time."""
    table = "windlass_instance" if shop.store.db.dialect == "sqlite" else "windlass.instance"
    now = "1" if shop.store.db.dialect == "sqlite" else "now() - interval '1 day'"
    shop.run(f"UPDATE {table} SET dead_at = {now}, heartbeat_at = {now}")


def endless(shop: Shop) -> tuple[JobHandle[None], Engine]:
    """A job that runs until it is told to stop, and the engine that runs it."""
    begun = threading.Event()

    @shop.app.job
    def endless(ctx: Context) -> None:
        begun.set()
        ctx.sleep(60)

    job = endless.enqueue()
    engine = shop.serve()
    assert begun.wait(PATIENCE)
    return job, engine
