"""Starting an engine twice, in vain, or not at all: refused or harmless, and nothing is left behind."""

from __future__ import annotations

import asyncio
import errno
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.engine.shop import Shop
from windlass.engine.processes.executor import ProcessExecutor
from windlass.errors import ConfigError, StoreUnreachableError, WindlassError
from windlass.model import State

pytestmark = [pytest.mark.one_database, pytest.mark.timing]


def threads() -> set[str]:
    """The engine's own threads; numbered ones may be another test's."""
    names = ("loop", "watchdog", "heartbeat", "listener", "step", "upkeep")
    return {
        thread.name for thread in threading.enumerate() if thread.name in {f"windlass-{n}" for n in names}
    }


def test_a_second_start_is_refused_and_the_first_goes_on(shop: Shop) -> None:
    @shop.app.job
    async def hello() -> str:
        return "hello"

    engine = shop.serve()
    before = engine.id
    with pytest.raises(
        WindlassError, match=r"is running, and an engine can be started only once.*app\.worker"
    ):
        engine.start()
    assert engine.id == before and len(shop.store.instances.list()) == 1
    job = hello.enqueue()
    shop.drained(engine)
    assert shop.job(job).state is State.COMPLETED
    engine.stop()
    with pytest.raises(WindlassError, match="is stopped, and an engine can be started only once"):
        engine.start()
    assert shop.store.instances.list() == []
    shop.until(lambda: not threads())


def test_an_engine_that_was_not_started_has_nothing_to_stop(shop: Shop) -> None:
    @shop.app.job
    async def hello() -> str:
        return "hello"

    engine = shop.app.worker()
    assert engine.id == "" and engine.report().state == "starting"
    engine.stop()
    engine.stop(grace=0)
    engine.start()
    job = hello.enqueue()
    shop.drained(engine)
    engine.stop()
    assert shop.job(job).state is State.COMPLETED and engine.state == "stopped"


@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
def test_a_start_that_fails_leaves_no_thread_and_no_instance(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    @shop.app.job
    async def hello() -> str:
        return "hello"

    engine = shop.app.worker()

    def refuse(*_: Any) -> None:
        raise StoreUnreachableError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(
            "windlass.upkeep.loop.UpkeepLoop.start" if late else "windlass.engine.duties.Duties.announce",
            refuse,
        )
        with pytest.raises(StoreUnreachableError):
            engine.start()
    assert shop.store.instances.list() == []
    shop.until(lambda: not threads())
    engine.stop()
    engine.start()  # the database is back
    job = hello.enqueue()
    shop.drained(engine)
    engine.stop()
    assert shop.job(job).state is State.COMPLETED


def no_files(patch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    patch.setitem(sys.modules, "uvloop", None)
    patch.setattr(asyncio, "new_event_loop", refuse)


def no_threads(patch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    patch.setattr(threading.Thread, "start", refuse)


def no_processes(patch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise ConfigError("open_store", "x", "what JSON can hold")

    patch.setattr(ProcessExecutor, "start", refuse)


@pytest.mark.parametrize(
    ("take", "told"),
    [
        (no_files, r"could not create an event loop .*Too many open files.*ulimit -n"),
        (no_threads, r"could not create a thread .*can't start new thread"),
        (no_processes, "open_store"),
    ],
    ids=["files", "threads", "processes"],
)
def test_a_start_without_room_for_the_loop_says_so_and_leaves_nothing(
    shop: Shop, take: Callable[[pytest.MonkeyPatch], None], told: str
) -> None:
    """It waited for ever for a thread that had died, and every stop waited with it."""

    @shop.app.job
    async def hello() -> str:
        return "hello"

    engine = shop.app.worker()
    with pytest.MonkeyPatch.context() as patch:
        take(patch)
        with pytest.raises(WindlassError, match=told):
            engine.start()
    assert shop.store.instances.list() == []
    shop.until(lambda: not threads())
    engine.stop()
    engine.start()  # there is room again
    job = hello.enqueue()
    shop.drained(engine)
    engine.stop()
    assert shop.job(job).state is State.COMPLETED
