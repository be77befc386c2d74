"""Boards while people watch: instances publish every second, and with the heartbeat otherwise."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.servers.plugin import FreshPostgres
from tests.waiting import PATIENCE, eventually
from windlass import App
from windlass.control.actor import ADMIN
from windlass.engine.engine import Engine
from windlass.features import Store, open_store
from windlass.model.principal import Principal
from windlass.settings import Settings

pytestmark = pytest.mark.timing

QUIET = Settings(heartbeat=10 * PATIENCE, lease=40 * PATIENCE)
"""No timer of the instance saves the test."""


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    made = threading.Event()
    yield made
    made.set()


@pytest.fixture(params=["sqlite", "postgresql"])
def real_store(
    request: pytest.FixtureRequest, fresh_postgres: FreshPostgres, fresh_sqlite: Callable[[], str]
) -> Iterator[Store]:
    with open_store(fresh_sqlite() if request.param == "sqlite" else fresh_postgres()) as made:
        yield made


@contextmanager
def serving(app: App) -> Iterator[Engine]:
    with app:
        engine = app.worker(QUIET)
        engine.start()
        try:
            yield engine
        finally:
            engine.stop(0)


def busy(store: Store) -> int:
    return sum(board.facts["phases"]["work"]["busy"] for board in store.boards.read().values())


def test_boards_follow_within_seconds_while_people_watch(real_store: Store, gate: threading.Event) -> None:
    app = App(store=real_store)

    @app.job(processors=2)
    def work() -> None:
        assert gate.wait(PATIENCE)

    with serving(app):
        eventually(real_store.boards.read, "the board of the start")
        real_store.boards.watch(30)
        handle = work.enqueue()
        eventually(lambda: busy(real_store) == 1, real_store.boards.read)
        gate.set()
        handle.result(PATIENCE)
        real_store.boards.watch(30)
        eventually(lambda: busy(real_store) == 0, real_store.boards.read)


def test_without_a_watcher_nothing_is_published_between_heartbeats(
    real_store: Store, gate: threading.Event
) -> None:
    app = App(store=real_store)

    @app.job
    def work() -> None:
        assert gate.wait(PATIENCE)

    with serving(app) as engine:
        eventually(real_store.boards.read, "the board of the start")
        work.enqueue()
        eventually(lambda: any(state == "busy" for _, state, _, _ in engine.processors()))
        assert busy(real_store) == 0
        assert not engine._duties.board.is_watched
        gate.set()


def test_boards_say_how_long_jobs_waited_in_their_queue(real_store: Store) -> None:
    app = App(store=real_store)

    @app.job
    def work() -> None: ...

    metrics = app.acting_as(Principal("boss", roles=frozenset({ADMIN}))).metrics
    with serving(app) as engine, app.events():
        app.enqueue("work")
        expected = f'windlass_queue_wait_seconds_count{{phase="work",worker="{engine.id}"}} 1.0'
        eventually(lambda: expected in metrics.render().decode())
