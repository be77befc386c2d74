"""Crashes between a handler's insert, its job's end and the commit: both are there, or neither, every time.

45 crashes on PostgreSQL (five libraries, three places, three ways); ``--crashes 5`` makes it 225.
"""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import windlass
from tests.acceptance.processes import start, stop
from tests.engine.shop import Shop
from tests.transactions.crash_jobs import PLACES, THE_FIVE_JOBS, WAYS, in_sqlite3
from tests.waiting import PATIENCE
from windlass.model import State

pytestmark = pytest.mark.timing

SOON = windlass.retry.fixed(attempts=5, wait=0.01)
PATIENT: dict[str, Any] = {
    "lease": 30.0,
    "heartbeat": 5.0,
    "margin": 5.0,
    "crash_cap": 5,
}  # on a busy machine, too


def prepare(shop: Shop) -> None:
    shop.run("CREATE TABLE effect (n integer, attempt integer)")
    shop.run("CREATE TABLE broken (n integer, what text)")


def assert_both_or_neither(shop: Shop, jobs: dict[int, tuple[str, Any]]) -> None:
    """Every job is completed, by the run whose effect is there, and that is one."""
    assert shop.run("SELECT n, what FROM broken") == []
    effects = dict(shop.run("SELECT n, attempt FROM effect"))
    assert len(shop.run("SELECT n FROM effect")) == len(effects) == len(jobs)
    for n, (place, job) in jobs.items():
        found = shop.job(job)
        assert (found.state, found.result) == (State.COMPLETED, effects[n]), (n, place, found.error)
        assert (effects[n] == 1) is (place == "after the commit"), (n, place, effects[n])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_on_postgres(postgres_dsn: str, pytestconfig: pytest.Config) -> None:
    shop = Shop(postgres_dsn)
    prepare(shop)
    alone, here = {}, {}
    for handler in THE_FIVE_JOBS:
        name = handler.__name__
        alone[name] = shop.app.job(name=f"{name}.process", retry=SOON, processors=1, executor="process")(
            handler
        )
        here[name] = shop.app.job(name=name, retry=SOON)(handler)
    rounds = int(pytestconfig.getoption("--crashes"))
    jobs: dict[int, tuple[str, Any]] = {}
    crashes: Counter[str] = Counter()
    cases = list(itertools.product(THE_FIVE_JOBS, PLACES, WAYS)) * rounds
    for n, (handler, place, how) in enumerate(cases):
        if how == "cut" and place == "after the commit":
            place = PLACES[n % 2]  # with the commit done, a cut connection has nothing to lose
        kind = (alone if how == "exit" else here)[handler.__name__]
        jobs[n] = place, kind.enqueue(n=n, place=place, how=how, url=postgres_dsn)
        crashes[how] += 1
    try:
        shop.drained(shop.serve(**PATIENT), timeout=120.0 * rounds)
        assert_both_or_neither(shop, jobs)
    finally:
        shop.close()
    print(f"\n{sum(crashes.values())} crashes: {dict(crashes)}")


@pytest.mark.slow
def test_on_sqlite(sqlite_path: Path) -> None:
    """Nothing to cut there: a process that dies, and exceptions."""
    shop = Shop(f"sqlite:///{sqlite_path}")
    prepare(shop)
    alone = shop.app.job(name="process", retry=SOON, executor="process")(in_sqlite3)
    here = shop.app.job(name="thread", retry=SOON)(in_sqlite3)
    jobs: dict[int, tuple[str, Any]] = {}
    for n, (place, how) in enumerate(itertools.product(PLACES, ("exit", "raise"))):
        kind = alone if how == "exit" else here
        jobs[n] = place, kind.enqueue(n=n, place=place, how=how, url=shop.app.url)
    try:
        shop.drained(shop.serve(**PATIENT))
        assert_both_or_neither(shop, jobs)
    finally:
        shop.close()


@pytest.mark.slow
def test_an_instance_that_dies_with_its_handler(postgres_dsn: str) -> None:
    """Not a child: the whole worker is gone between the end and the commit, and another one takes the job over."""
    shop = Shop(postgres_dsn)
    prepare(shop)
    jobs: dict[int, tuple[str, Any]] = {}
    for n, handler in enumerate(THE_FIVE_JOBS):
        kind = shop.app.job(name=handler.__name__, retry=SOON)(handler)
        place = PLACES[n % 3]
        jobs[n] = place, kind.enqueue(n=n, place=place, how="exit", url=postgres_dsn)
        worker = start("tests.transactions.crash_worker", postgres_dsn, handler.__name__)
        try:
            assert worker.wait(PATIENCE) == 9
        finally:
            stop(worker)
    try:
        shop.drained(shop.serve(**PATIENT))
        assert_both_or_neither(shop, jobs)
    finally:
        shop.close()
