"""An executor that cannot start jobs gives them back, says so, and is well again when it can."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.engine import process_handlers
from tests.engine.shop import Shop
from tests.waiting import PATIENCE
from windlass.engine.engine import Engine
from windlass.engine.executors.fault import REPORT_EVERY
from windlass.model import State
from windlass.observe import health

pytestmark = [pytest.mark.one_database, pytest.mark.timing]

LONG = 60.0  # children are started, which takes seconds on a busy machine


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Breaks what an executor needs to start a job, until ``monkeypatch.undo``."""
    real_start = threading.Thread.start

    def no_task(*_arguments: Any, **_options: Any) -> Any:
        raise TypeError("a coroutine was expected")

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith(("windlass-thread", "windlass-processes")):
            raise RuntimeError("can't start new thread")
        real_start(thread)

    def break_it(what: str) -> None:
        match what:
            case "loop":
                monkeypatch.setattr(asyncio, "Task", no_task)
            case "threads" | "supervisor":
                monkeypatch.setattr(threading.Thread, "start", start)
            case "processes":
                monkeypatch.setattr(sys, "executable", "/nowhere/python")

    return break_it


def defined(shop: Shop, executor: str) -> Any:
    if executor == "loop":

        @shop.app.job(processors=2)
        async def work(n: int) -> int:
            return n

    elif executor == "threads":

        @shop.app.job(processors=2)
        def work(n: int) -> int:
            return n

    else:
        return shop.app.job(name="work", processors=2, executor="process")(process_handlers.pid)
    return work


def part(engine: Engine, name: str) -> dict[str, str] | None:
    answer = json.loads(json.dumps(health.detailed(engine.report())))
    found: dict[str, str] | None = answer["parts"].get(name)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "executor", "told"),
    [
        ("loop", "loop", "TypeError: a coroutine was expected"),
        ("threads", "threads", "RuntimeError: can't start new thread"),
        ("supervisor", "processes", "RuntimeError: can't start new thread"),
    ],
)
def test_an_executor_that_cannot_start_jobs_gives_them_back_and_is_seen_in_health(
    shop: Shop,
    broken: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    what: str,
    executor: str,
    told: str,
) -> None:
    work = defined(shop, executor)
    jobs = work.enqueue_many([{} if executor == "processes" else {"n": n} for n in range(5)])
    broken(what)
    began = time.monotonic()
    engine = shop.serve()
    seen = shop.until(lambda: part(engine, f"executor {executor}"))
    assert seen["state"] == "degraded" and told in seen["seen"] and "executor.failed" in seen["advice"]
    assert health.status(engine.report()) == "degraded"
    # They are claimed, given back and left alone for a second: all of them are seen to wait, none with an attempt.
    shop.until(
        lambda: all((found.state, found.attempt) == (State.QUEUED, 0) for found in map(shop.job, jobs))
    )
    failed = [record for record in caplog.records if getattr(record, "event", "") == "executor.failed"]
    assert failed[0].levelno == logging.ERROR and told in failed[0].getMessage()
    assert len(failed) <= 1 + (time.monotonic() - began) / REPORT_EVERY, "now and then, not at every claim"
    assert failed[0].executor == executor and failed[0].jobs >= 1  # type: ignore[attr-defined]
    monkeypatch.undo()
    shop.drained(engine, LONG)
    assert [(shop.job(job).state, shop.job(job).attempt) for job in jobs] == [(State.COMPLETED, 1)] * 5
    shop.until(lambda: part(engine, f"executor {executor}") is None)


@pytest.mark.slow
def test_a_process_that_cannot_be_started_is_seen_in_health(
    shop: Shop, broken: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = defined(shop, "processes").enqueue()
    broken("processes")
    engine = shop.serve()
    seen = shop.until(lambda: part(engine, "executor processes"))
    assert "no process could be started: FileNotFoundError" in seen["seen"]
    shop.until(lambda: shop.job(job).state is State.SCHEDULED)
    monkeypatch.undo()
    shop.drained(engine, LONG)
    assert shop.job(job).state is State.COMPLETED and shop.job(job).result != os.getpid()
    shop.until(lambda: part(engine, "executor processes") is None)


def test_jobs_wait_for_the_threads_there_are_where_no_more_can_be_had(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To give them back would leave the threads there are without work."""
    real, started, go_on = threading.Thread.start, threading.Event(), threading.Event()

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith("windlass-thread") and started.is_set():
            raise RuntimeError("can't start new thread")
        real(thread)
        if thread.name.startswith("windlass-thread"):
            started.set()

    monkeypatch.setattr(threading.Thread, "start", start)

    @shop.app.job(processors=3)
    def work(n: int) -> int:
        assert go_on.wait(PATIENCE)
        return n

    jobs = work.enqueue_many({"n": n} for n in range(6))
    engine = shop.serve()
    seen = shop.until(lambda: part(engine, "executor threads"))
    assert "can't start new thread; " in seen["seen"] and "wait for a thread" in seen["seen"]
    go_on.set()
    shop.drained(engine)
    assert [(shop.job(job).state, shop.job(job).attempt) for job in jobs] == [(State.COMPLETED, 1)] * 6
    shop.until(lambda: part(engine, "executor threads") is None)
