"""Limits, rates and debounced jobs served by real engines, on both databases."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, defaultdict
from datetime import timedelta

import pytest

from tests.engine.shop import Shop
from windlass import Debounce, Fail, per_second
from windlass.model import State
from windlass.retry import fixed

pytestmark = pytest.mark.timing


class Meter:
    """How many run at once, per key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.runs: Counter[str] = Counter()
        self.starts: dict[str, list[float]] = defaultdict(list)

    def enter(self, key: str) -> None:
        with self._lock:
            self.now[key] += 1
            self.runs[key] += 1
            self.most[key] = max(self.most[key], self.now[key])
            self.starts[key].append(time.monotonic())

    def leave(self, key: str) -> None:
        with self._lock:
            self.now[key] -= 1


def test_no_more_than_the_limit_run_at_once_on_two_engines(shop: Shop) -> None:
    meter = Meter()

    @shop.app.job(limit=2, limit_key="args.customer", processors=8, retry=fixed(3, wait=0.01))
    async def visit(customer: str, n: int) -> None:
        meter.enter(customer)
        try:
            await asyncio.sleep(0.005)
            if n % 7 == 0:
                raise ConnectionError
            if n % 11 == 0:
                raise Fail("no", "not this one")
        finally:
            meter.leave(customer)

    @shop.app.job(processors=8)
    async def plain(n: int) -> None:
        meter.enter("plain")
        await asyncio.sleep(0.005)
        meter.leave("plain")

    engines = [shop.serve(), shop.serve()]
    for n in range(40):
        visit.enqueue(customer=f"c{n % 2}", n=n)
    plain.enqueue_many([{"n": n} for n in range(40)])
    for engine in engines:
        shop.drained(engine)
    assert meter.runs["plain"] == 40 and meter.most["plain"] > 2
    assert meter.most["c0"] <= 2 and meter.most["c1"] <= 2
    states = Counter(job.state for job in shop.store.jobs.list(limit=1000).jobs if job.kind == "visit")
    assert states[State.COMPLETED] + states[State.FAILED] == 40
    assert shop.store.limits.check() == []
    assert {gate.admitted for gate in shop.store.limits.gates()} == {0}


def test_a_rate_is_kept_to_by_all_engines_together(shop: Shop) -> None:
    meter = Meter()

    @shop.app.job(rate=per_second(20, burst=4), processors=8)
    async def call(n: int) -> None:
        meter.enter("call")

    engines = [shop.serve(), shop.serve()]
    began = time.monotonic()
    call.enqueue_many([{"n": n} for n in range(24)])
    for engine in engines:
        shop.drained(engine)
    took = time.monotonic() - began
    starts = sorted(meter.starts["call"])
    assert len(starts) == 24
    assert took >= 20 / 20 * 0.95, "four at once, and twenty more at twenty a second"


@pytest.mark.slow
def test_a_debounced_job_runs_once_with_what_came_last(shop: Shop) -> None:
    seen: list[int] = []

    @shop.app.job
    def index(page: int) -> None:
        seen.append(page)

    for page in range(5):  # before anybody could run one of them, however long this takes
        index.options(debounce=Debounce("site", wait=2.0)).enqueue(page)
    shop.drained(shop.serve())
    assert seen == [4]


def test_a_limit_that_the_code_no_longer_has_is_lifted(shop: Shop) -> None:
    ran: list[int] = []

    @shop.app.job(limit=1)
    def slow(n: int) -> None:
        ran.append(n)

    slow.enqueue_many([{"n": n} for n in range(5)])
    shop.store.limits.let_in()
    phase = shop.app.parts.registry.phase("slow")
    assert phase is not None and phase.flow is not None and phase.flow.limit == 1
    later = Shop(shop.app.url)

    @later.app.job(name="slow")
    def quick(n: int) -> None:
        ran.append(n)

    try:
        engine = later.serve()
        assert later.store.limits.gates()[0].limit is None
        later.drained(engine)
    finally:
        later.close()
    assert sorted(ran) == list(range(5))


def test_a_pause_that_ends_by_itself_ends_on_time(shop: Shop) -> None:
    """Long before the scan that would find it anyway."""
    began: list[float] = []

    @shop.app.job
    def wait_for_it() -> None:
        began.append(time.monotonic())

    paused_at = time.monotonic()
    shop.store.phases.pause("wait_for_it", "maintenance", lasts=timedelta(seconds=1))
    wait_for_it.enqueue()
    shop.serve(scan=60, scan_unheard=60)
    shop.until(lambda: began)
    assert 1.0 <= began[0] - paused_at < 50


def test_a_pause_that_begins_and_ends_between_two_reads_of_the_agenda_ends_on_time(shop: Shop) -> None:
    """The engine scans the queue while the phase is paused, and reads its agenda only when the pause is over."""
    began: list[float] = []

    @shop.app.job
    def wait_for_it() -> None:
        began.append(time.monotonic())

    @shop.app.job
    def idle() -> None: ...

    engine = shop.serve(scan=60, scan_unheard=60, recovery=3.0)
    shop.drained(engine)
    shop.store.phases.pause("wait_for_it", "maintenance", lasts=timedelta(seconds=0.5))
    paused_at = time.monotonic()
    wait_for_it.enqueue()
    shop.until(lambda: began)
    assert began[0] - paused_at < 50


def test_a_paused_phase_is_served_when_it_is_resumed(shop: Shop) -> None:
    @shop.app.job
    async def wait_for_it() -> None: ...

    shop.store.phases.pause("wait_for_it", "maintenance", lasts=timedelta(hours=1))
    job = wait_for_it.enqueue()
    engine = shop.serve(scan=0.2)
    time.sleep(0.6)
    assert shop.job(job).state is State.QUEUED
    shop.store.phases.resume("wait_for_it")
    shop.drained(engine)
    assert shop.job(job).state is State.COMPLETED
