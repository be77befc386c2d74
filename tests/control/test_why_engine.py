"""Why a job is not running, where only an instance knows it: real engines publish the facts."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.control.whys import ON_INSTANCES
from tests.engine import process_handlers as handlers
from tests.engine.shop import Shop
from tests.servers.plugin import FreshPostgres
from tests.waiting import PATIENCE
from windlass.control.why.codes import Why, WhyCode
from windlass.engine.job_locks import JobLocks
from windlass.engine.workload import MAX_ISOLATED, MAX_WAITING_SUSPECTS
from windlass.locks import LockSettings, open_locks
from windlass.model import State

pytestmark = pytest.mark.timing


@pytest.fixture(params=["sqlite", "postgresql"])
def shop(
    request: pytest.FixtureRequest, fresh_postgres: FreshPostgres, fresh_sqlite: Callable[[], str]
) -> Iterator[Shop]:
    made = Shop(fresh_sqlite() if request.param == "sqlite" else fresh_postgres())
    yield made
    made.close()


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What handlers wait for; opened when the test has ended."""
    made = threading.Event()
    yield made
    made.set()


def until(shop: Shop, job_id: str, code: WhyCode) -> Why:
    """Wait until a job has a code."""
    found: list[Why] = []

    def holds() -> bool:
        found[:] = [shop.app.jobs.why(job_id)]
        return found[0].code is code

    shop.until(holds)
    return found[0]


def test_the_codes_here_are_those_that_instances_know() -> None:
    here = {WhyCode.BACKPRESSURE, WhyCode.QUIET, WhyCode.LOCK_HELD, WhyCode.ISOLATED, WhyCode.INSTANCE_CAP}
    assert here == ON_INSTANCES


def test_backpressure(shop: Shop, gate: threading.Event) -> None:
    pipe = shop.app.pipeline("press")

    @pipe.phase("quick", processors=1)
    def quick(n: int) -> int:
        gate.wait(0.02 if n < 10 else PATIENCE)  # enough for the next phase to be full
        return n

    @pipe.phase("slow", processors=1, max_waiting=3)
    def slow(n: int) -> None:
        gate.wait(PATIENCE)

    jobs = [pipe.enqueue(n=n) for n in range(20)]
    shop.serve(pressure=0.05, prefetch=0.0)
    why = until(shop, jobs[-1].id, WhyCode.BACKPRESSURE)
    assert (why.details["next"], why.details["most"]) == ("press:slow", 3)
    assert "press:slow is full" in why.sentence and why.also[0].code is WhyCode.AHEAD
    gate.set()


def test_instance_cap(shop: Shop, gate: threading.Event) -> None:
    """One job runs, one waits in the memory of the instance, the others in their queue."""

    @shop.app.job(processors=5)
    def work(n: int) -> None:
        gate.wait(PATIENCE)

    @shop.app.job(name="other", processors=5)
    def other() -> None: ...

    jobs = [work.enqueue(n=n) for n in range(4)]
    shop.serve(max_concurrent_calls=1)
    running = until(shop, jobs[0].id, WhyCode.PROCESSING)
    shop.until(lambda: shop.app.jobs.why(jobs[0].id).details["processor"] == "work-processor-1")
    assert running.details["attempt"] == 1
    # The instance may say that it is full before it has claimed the job that waits in its memory.
    shop.until(lambda: [shop.job(job).state for job in jobs].count(State.PROCESSING) == 2)
    assert [shop.job(job).state for job in jobs].count(State.QUEUED) == 2, "both ways to wait are seen"
    for job in jobs[1:]:
        why = until(shop, job.id, WhyCode.INSTANCE_CAP)
        assert why.details["running"] == 1 and why.details["max_concurrent_calls"] == [1]
    until(shop, other.enqueue().id, WhyCode.INSTANCE_CAP)
    gate.set()


def test_a_job_in_the_memory_of_an_instance_waits_for_a_processor(shop: Shop, gate: threading.Event) -> None:
    @shop.app.job(processors=1)
    def work(n: int) -> None:
        if n >= 0:
            gate.wait(PATIENCE)

    engine = shop.serve(prefetch=5.0)
    for _ in range(200):  # a phase that ends jobs fast is claimed ahead
        work.enqueue(n=-1)
    shop.drained(engine)
    jobs = [work.enqueue(n=n) for n in range(5)]

    def all_wait_for_a_processor() -> bool:  # as soon as the instance has said how many it has
        whys = [shop.app.jobs.why(job.id) for job in jobs]
        waiting = [why for why in whys if why.code is WhyCode.AHEAD or why.details.get("waits_in_memory")]
        return bool(waiting) and all("processor" in why.sentence for why in waiting)

    shop.until(all_wait_for_a_processor)
    gate.set()


def test_quiet(shop: Shop) -> None:
    @shop.app.job
    def work() -> None: ...

    shop.serve(quiet=600.0)
    job = work.enqueue()
    why = until(shop, job.id, WhyCode.QUIET)
    assert why.details["quiet"] == 600 and "not claimed before" in why.sentence


def test_isolated(shop: Shop, tmp_path: Path) -> None:
    """Those that wait in the memory of the instance, and those that it leaves in their queue."""
    count = MAX_ISOLATED + MAX_WAITING_SUSPECTS + 3
    work = shop.app.job(processors=count)(handlers.wait_for)
    jobs = [work.enqueue(path=str(tmp_path / f"begun-{n}"), go=str(tmp_path / "go")) for n in range(count)]
    table = "windlass_job" if shop.store.db.dialect == "sqlite" else "windlass.job"
    shop.run(f"UPDATE {table} SET flags = flags | 513")
    shop.serve()
    wanted = [MAX_ISOLATED, count - MAX_ISOLATED]

    def seen() -> list[int]:
        codes = [shop.app.jobs.why(job.id).code for job in jobs]
        return [codes.count(WhyCode.PROCESSING), codes.count(WhyCode.ISOLATED)]

    shop.until(lambda: seen() == wanted)
    (tmp_path / "go").touch()
    shop.until(lambda: all(shop.job(job).state == "completed" for job in jobs))


def test_lock_held(shop: Shop, valkey_url: str, gate: threading.Event) -> None:
    @shop.app.job
    def work() -> None: ...

    settings = LockSettings(url=valkey_url, required=True)
    job = work.options(delay=0.5).enqueue()
    other = open_locks(settings, worker="request-7")
    try:
        with other.acquire(job.id) as lock:
            assert lock
            shop.serve(locks=JobLocks(lambda name: open_locks(settings, worker=name), is_own=True))
            why = until(shop, job.id, WhyCode.LOCK_HELD)
            assert "request-7" in why.sentence
        shop.until(lambda: shop.app.jobs.why(job.id).code is WhyCode.ENDED)
    finally:
        other.close()


def test_no_lock_can_be_acquired(shop: Shop) -> None:
    """The lock server does not answer; no job is claimed, and the reason has no address in it."""

    @shop.app.job
    def work() -> None: ...

    settings = LockSettings(url="redis://:hunter2@127.0.0.1:1/0", required=True)
    shop.serve(locks=JobLocks(lambda name: open_locks(settings, worker=name), is_own=True))
    why = until(shop, work.enqueue().id, WhyCode.LOCK_HELD)
    assert why.details["fault"] is True and "hunter2" not in json.dumps(why.details) + why.sentence


def test_an_instance_that_leaves_takes_its_board_with_it(shop: Shop) -> None:
    @shop.app.job
    def work() -> None: ...

    engine = shop.serve()
    shop.until(lambda: engine.id in shop.store.boards.read())
    engine.stop()
    # The last statement may take longer than a stop waits for it.
    shop.until(lambda: shop.store.boards.read() == {})
    assert shop.app.jobs.why(work.enqueue().id).code is WhyCode.NO_INSTANCE


def test_an_idle_instance_does_not_write_its_board_again(shop: Shop) -> None:
    @shop.app.job
    def work() -> None: ...

    engine = shop.serve(heartbeat=600.0, lease=3600.0)
    board = engine._duties.board
    shop.until(lambda: shop.store.boards.read().get(engine.id, None))
    shop.until(lambda: engine.state == "running" and engine.report().listening)
    board.run()
    first = shop.store.boards.read()[engine.id]
    for _ in range(3):
        board.run()
    assert shop.store.boards.read()[engine.id] == first


def test_boards_of_dead_instances_are_removed(shop: Shop) -> None:
    dead = shop.store.join(info={"phases": ["work"]})
    shop.store.boards.put(dead.id, "{}")
    dead.leave()
    shop.store.boards.put(dead.id, '{"late": 1}')
    assert shop.store.boards.read()[dead.id].facts == {}, "an instance that left publishes nothing"
    shop.store.boards.sweep()
    assert shop.store.boards.read() == {}
