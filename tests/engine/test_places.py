"""The places that all who run jobs in a process share: none is taken that is not used, and who waits for one hears of it."""

from __future__ import annotations

import gc
import threading
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import windlass
from tests.app.test_build import config
from tests.engine.leases import lease
from tests.waiting import eventually
from windlass.engine.places import Places
from windlass.engine.workload import MAX_ISOLATED, Workload
from windlass.handlers.registry import Registry
from windlass.model import Flag
from windlass.settings import Settings


class Counted(threading.Semaphore):
    """Counts what is asked of it."""

    asked = 0

    def acquire(self, *args: Any, **options: Any) -> bool:
        self.asked += 1
        return super().acquire(*args, **options)


def workload(places: Places, **sizes: int) -> Workload:
    registry = Registry()
    for phase in sizes:
        registry.define(phase, lambda: None, injected=lambda annotation: False)
    return Workload(registry.phases, Settings(max_concurrent_calls=50, processors=sizes), places=places)


def test_whoever_listens_is_told_until_it_ends_that() -> None:
    places, told = Places(threading.Semaphore(3)), []
    forget = places.on_free(lambda: told.append("first"))
    places.on_free(lambda: told.append("second"))
    assert places.take(3) == 3
    places.leave()
    forget()
    forget()
    places.leave()
    assert told == ["first", "second", "second"]


def test_no_place_is_taken_for_a_job_that_has_no_processor() -> None:
    """Another worker that asks meanwhile would find none, and wait."""
    semaphore = Counted(50)
    busy = workload(Places(semaphore), a=1, b=5)
    busy.offer([lease("a"), lease("a")])
    assert len(busy.assign()) == 1 and semaphore.asked == 1
    assert busy.assign() == [] and semaphore.asked == 1, "what waits is of a, what is idle of b"


def test_a_place_that_a_suspect_gives_back_is_told_of() -> None:
    places, told = Places(threading.Semaphore(50)), []
    places.on_free(lambda: told.append(1))
    full = workload(places, a=20)
    full.offer(replace(lease("a"), flags=Flag.SUSPECT) for _ in range(MAX_ISOLATED + 2))
    assert len(full.assign()) == MAX_ISOLATED and len(told) == 2


def test_a_stopped_worker_is_told_no_more_and_can_go(tmp_path: Path) -> None:
    app = windlass.App()

    @app.job
    def work() -> None: ...

    @app.job
    def other() -> None: ...

    settings = config(tmp_path, "bounded", more={"runtime.max_concurrent_calls": 2})
    with windlass.build(settings, app=app) as bg:
        engine = bg.worker(phases=("other",))
        engine.start()
        asked: list[str] = []
        engine._duties.ask = lambda name: asked.append(name)  # type: ignore[method-assign]
        bg.process_request(bg.enqueue("work").id)
        assert "assign" in asked
        engine.stop()
        asked.clear()
        bg.process_request(bg.enqueue("work").id)
        assert asked == []
        gone = weakref.ref(engine)
        del engine

        def is_gone() -> bool:
            gc.collect()  # its threads may not have ended to the last line yet
            return gone() is None

        eventually(is_gone)
