"""Closing a store on SQLite while others still use it."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

from tests.waiting import PATIENCE, eventually
from windlass.store.sqlite.database import SqliteDatabase


def test_a_transaction_may_end_while_the_store_is_closed(tmp_path: Path) -> None:
    """The list of connections changed while it was walked: the close raised, and left the writer open."""
    database = SqliteDatabase(f"sqlite:///{tmp_path / 'jobs.db'}")
    connections = database._connections
    is_open, may_end, may_leave = threading.Event(), threading.Event(), threading.Event()
    reading = threading.Barrier(4)

    def have_a_transaction() -> None:
        with database.effect(PATIENCE):
            is_open.set()
            may_end.wait(PATIENCE)

    def read() -> None:
        with connections.reading():
            reading.wait(PATIENCE)
            may_leave.wait(PATIENCE)

    def end_the_transaction() -> None:
        eventually(lambda: connections._is_closed)
        may_end.set()
        transaction.join(0.5)  # it waits for the close, or it has ended beside it
        may_leave.set()

    transaction = threading.Thread(target=have_a_transaction)
    others = [threading.Thread(target=read) for _ in range(3)]
    transaction.start()
    assert is_open.wait(PATIENCE)
    with ExitStack() as stack:
        for thread in others:
            thread.start()
            stack.callback(thread.join, PATIENCE)
        reading.wait(PATIENCE)
        ender = threading.Thread(target=end_the_transaction)
        ender.start()
        stack.callback(ender.join, PATIENCE)
        database.close()
    transaction.join(PATIENCE)
    assert not transaction.is_alive()
