"""Starting an engine twice, in vain, or not at all: refused or harmless, and nothing is left behind."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.engine.shop import Shop
from windlass.errors import StoreUnreachableError, WindlassError
from windlass.model import State


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
    with pytest.raises(WindlassError, match=r"is running, and one engine is started once.*app\.worker"):
        engine.start()
    assert engine.id == before and len(shop.store.instances.list()) == 1
    job = hello.enqueue()
    shop.drained(engine)
    assert shop.job(job).state is State.COMPLETED
    engine.stop()
    with pytest.raises(WindlassError, match="is stopped, and one engine is started once"):
        engine.start()
    assert shop.store.instances.list() == [] and not threads()


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
            "windlass.upkeep.caretaker.Caretaker.start" if late else "windlass.engine.duties.Duties.announce",
            refuse,
        )
        with pytest.raises(StoreUnreachableError):
            engine.start()
    assert shop.store.instances.list() == [] and not threads()
    engine.stop()
    engine.start()  # the database is back
    job = hello.enqueue()
    shop.drained(engine)
    engine.stop()
    assert shop.job(job).state is State.COMPLETED
