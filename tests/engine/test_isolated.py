"""Jobs of dead instances: they run again at once and in the worker; only a suspect runs in a process of its own, and what waits for one holds
nobody up."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.engine import process_handlers as handlers
from tests.engine.shop import Shop
from windlass.engine.engine import Engine
from windlass.engine.workload import MAX_ISOLATED, MAX_WAITING_SUSPECTS
from windlass.model import State
from windlass.submit.handle import JobHandle

pytestmark = [pytest.mark.one_database, pytest.mark.timing]

BRIEF = timedelta(seconds=0.3)


def die(shop: Shop, phase: str) -> None:
    """An instance that claims the one job of a phase, enters its handler, and is never heard of again."""
    holder = shop.store.join(lease=BRIEF)
    assert holder.start(holder.claim(phase, 1))
    shop.until(shop.store.recovery.recover)


@pytest.mark.parametrize(("deaths", "is_apart"), [(1, False), (2, True)])
def test_a_job_that_was_running_at_two_deaths_runs_in_a_process_of_its_own(
    shop: Shop, deaths: int, is_apart: bool
) -> None:
    """I-9, I-14."""
    job = shop.app.job(handlers.pid).enqueue()
    for _ in range(deaths):
        die(shop, "pid")
    shop.drained(shop.serve())
    assert (shop.job(job).result != os.getpid()) is is_apart


def suspects(shop: Shop, folder: Path, count: int, processors: int | None = None) -> Sequence[JobHandle[Any]]:
    """Suspects that run until there is a file ``go``, and say that they began."""
    work = shop.app.job(processors=processors or count)(handlers.wait_for)
    jobs = [work.enqueue(path=str(folder / f"begun-{n}"), go=str(folder / "go")) for n in range(count)]
    table = "windlass_job" if shop.store.db.dialect == "sqlite" else "windlass.job"
    shop.run(f"UPDATE {table} SET flags = flags | 513")
    return jobs


def begun(folder: Path) -> int:
    return len([path for path in folder.glob("begun-*") if not path.suffix])  # without those being written


def waiting(engine: Engine) -> int:
    return engine.report().phases["wait_for"].waiting


def test_those_that_wait_for_a_process_hold_no_processor(shop: Shop, tmp_path: Path) -> None:
    """Seven suspects for four places, and seven processors: three are for the others."""
    jobs = suspects(shop, tmp_path, MAX_ISOLATED + 3)
    engine = shop.serve()
    shop.until(lambda: begun(tmp_path) == MAX_ISOLATED and waiting(engine) == 3)
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    (fresh / "go").touch()
    for n in range(3):
        job = shop.app.enqueue("wait_for", path=str(fresh / f"begun-{n}"), go=str(fresh / "go"))
        shop.until(lambda: shop.job(job).state is State.COMPLETED)  # noqa: B023
    assert begun(tmp_path) == MAX_ISOLATED and waiting(engine) == 3
    (tmp_path / "go").touch()
    shop.drained(engine)
    assert [shop.job(job).state for job in jobs] == [State.COMPLETED] * len(jobs)


def test_one_that_waits_for_a_process_is_not_known_to_run(shop: Shop, tmp_path: Path) -> None:
    """Its instance may die before it is entered, and that is not to be charged to it."""
    jobs = suspects(shop, tmp_path, MAX_ISOLATED + 1)
    engine = shop.serve()
    shop.until(lambda: begun(tmp_path) == MAX_ISOLATED and waiting(engine) == 1)
    table = "windlass_job" if shop.store.db.dialect == "sqlite" else "windlass.job"
    started = {str(row[0]) for row in shop.run(f"SELECT id FROM {table} WHERE flags & 2 <> 0")}
    assert len(started) == MAX_ISOLATED and started < {job.id for job in jobs}
    (tmp_path / "go").touch()
    shop.drained(engine)


@pytest.mark.usefixtures("patient_stop")
def test_one_that_waits_for_a_process_can_be_cancelled_and_is_given_back(shop: Shop, tmp_path: Path) -> None:
    jobs = suspects(shop, tmp_path, MAX_ISOLATED + 2)
    engine = shop.serve()
    shop.until(lambda: begun(tmp_path) == MAX_ISOLATED and waiting(engine) == 2)
    *_, cancelled, left = [job for job in jobs if not (tmp_path / f"begun-{jobs.index(job)}").exists()]
    shop.store.jobs.cancel(cancelled.id)
    shop.until(lambda: shop.job(cancelled).state is State.CANCELLED)
    assert waiting(engine) == 1
    engine.stop(grace=0)
    assert shop.job(left).state is State.QUEUED and shop.job(left).attempt == 0
    assert begun(tmp_path) == MAX_ISOLATED


def fresh_ones_end(shop: Shop, folder: Path) -> None:
    """Jobs that met no death and stand behind all suspects run while those wait."""
    folder.mkdir()
    (folder / "go").touch()
    jobs = [
        shop.app.enqueue("wait_for", path=str(folder / f"begun-{n}"), go=str(folder / "go")) for n in range(3)
    ]
    shop.until(lambda: all(shop.job(job).state is State.COMPLETED for job in jobs))


def held(shop: Shop) -> int:
    return shop.store.phases.counts()["wait_for"].processing


@pytest.mark.parametrize("processors", [MAX_ISOLATED + 2, pytest.param(20, marks=pytest.mark.long)])
def test_an_instance_leaves_suspects_to_others_and_goes_on_with_fresh_jobs(
    shop: Shop, tmp_path: Path, processors: int
) -> None:
    """I-9. With the many processors one claim brings more than may wait: the rest goes back at once."""
    jobs = suspects(shop, tmp_path, 2 * MAX_ISOLATED + MAX_WAITING_SUSPECTS, processors)
    first = shop.serve(recovery=600.0)
    shop.until(lambda: begun(tmp_path) == MAX_ISOLATED)
    fresh_ones_end(shop, tmp_path / "fresh-1")
    shop.until(
        lambda: (
            held(shop) <= MAX_ISOLATED + MAX_WAITING_SUSPECTS and 0 < waiting(first) <= MAX_WAITING_SUSPECTS
        )
    )
    second = shop.serve(recovery=600.0)
    shop.until(lambda: begun(tmp_path) == 2 * MAX_ISOLATED)
    fresh_ones_end(shop, tmp_path / "fresh-2")
    shop.until(lambda: held(shop) <= 2 * (MAX_ISOLATED + MAX_WAITING_SUSPECTS))
    (tmp_path / "go").touch()
    shop.drained(first)
    shop.drained(second)
    ended = [shop.job(job) for job in jobs]
    assert {(job.state, job.attempt) for job in ended} == {(State.COMPLETED, 1)}


@pytest.mark.parametrize("when", ["before", "after"])
def test_recovery_comes_when_the_lease_can_have_run_out(shop: Shop, when: str) -> None:
    """I-9: the timer is the net, and here it is ten minutes away. An instance that came after the last look is found in time, too.
    (On SQLite every commit of another process is a reason to look.)"""

    @shop.app.job
    def work() -> None: ...

    @shop.app.job
    def other() -> None: ...

    if when == "after":  # on PostgreSQL the next look is due when the instance's own lease can have run out
        shop.serve(phases=("other",), recovery=600.0, lease=6.0)
        done = other.enqueue()
        shop.until(lambda: shop.job(done).state is State.COMPLETED)
    job = work.enqueue()
    # The engine that is there may declare a slow test's instance dead before its claim.
    shop.until(lambda: shop.store.join(lease=BRIEF * 12).claim("work", 1))
    if when == "before":
        shop.serve(phases=("other",), recovery=600.0)
    shop.until(lambda: shop.job(job).state is State.QUEUED)
