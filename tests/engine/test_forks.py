"""Handlers that fork: the child may end however it likes, and never acts as a worker."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tests.engine.process_handlers import fork
from tests.engine.shop import Shop
from windlass.model import State

pytestmark = [
    pytest.mark.parametrize("shop", ["sqlite"], indirect=True),  # what forks is no matter of the database
    pytest.mark.timing,
]
JOBS, FORKS = 40, range(5, 40, 10)


class Prints:
    """What handlers did, one line a time, from whichever process."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, word: object) -> None:
        with self._path.open("a") as file:
            file.write(f"{word}\n")

    @property
    def all(self) -> list[str]:
        return self._path.read_text().split()


@pytest.fixture
def prints(tmp_path: Path) -> Prints:
    return Prints(tmp_path / "prints")


def leave(how: str, prints: Prints) -> None:
    """In the child: ``return`` comes back to the handler, which returns."""
    prints.add("child")
    match how:
        case "exits":
            sys.exit(3)
        case "raises":
            raise ValueError("in the child")


def ended(pids: list[int]) -> list[int]:
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


CODES = {"returns": 0, "exits": 3, "raises": 1}


@pytest.mark.parametrize("how", CODES)
@pytest.mark.parametrize("colour", ["plain", "async"])
def test_a_forked_child_that_comes_back_from_its_handler_ends(
    shop: Shop, prints: Prints, colour: str, how: str
) -> None:
    """It ran the jobs in line a second time, and its connections are the worker's."""
    pids: list[int] = []

    def work(n: int) -> int:
        if n in FORKS:
            if (pid := os.fork()) == 0:
                leave(how, prints)
                return -1
            pids.append(pid)
        prints.add(n)
        return n

    async def work_async(n: int) -> int:
        return work(n)

    kind = shop.app.job(name="work", processors=4)(work if colour == "plain" else work_async)
    jobs = kind.enqueue_many({"n": n} for n in range(JOBS))
    engine = shop.serve()
    shop.drained(engine)
    assert ended(pids) == [CODES[how]] * len(FORKS)
    assert sorted(prints.all) == sorted([*map(str, range(JOBS)), *["child"] * len(FORKS)])
    found = [shop.store.jobs.get(job.id) for job in jobs]
    assert [(job.state, job.result) for job in found] == [(State.COMPLETED, n) for n in range(JOBS)]


def test_a_forked_child_that_waits_on_the_workers_loop_ends(shop: Shop, prints: Prints) -> None:
    """The loop's copy has copies of all other jobs, which would go on in the child."""
    pids: list[int] = []

    @shop.app.job(name="wait", processors=20)
    async def wait(n: int) -> int:
        await asyncio.sleep(0.2)
        if n == 0:
            if (pid := os.fork()) == 0:
                await asyncio.sleep(0.01)
            else:
                pids.append(pid)
        else:
            await asyncio.sleep(0.2)
        prints.add(n)
        return n

    jobs = wait.enqueue_many({"n": n} for n in range(10))
    engine = shop.serve()
    shop.drained(engine)
    assert ended(pids) == [1]
    assert sorted(prints.all) == sorted(map(str, range(10)))
    assert {shop.store.jobs.get(job.id).state for job in jobs} == {State.COMPLETED}


@pytest.mark.parametrize("how", CODES)
def test_a_forked_child_of_a_jobs_own_process_tells_nothing(shop: Shop, how: str) -> None:
    """Its word came first, and was taken for the job's."""
    job = shop.app.job(name="fork", executor="process")(fork).enqueue(how=how)
    shop.drained(shop.serve())
    assert shop.job(job).result == f"child ended with {CODES[how]}"
