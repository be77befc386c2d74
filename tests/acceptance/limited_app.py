"""An app whose handlers write down when they run, for whoever wants to see how many ran at once.

The database is the one of the environment, and so is the table ``run``: a row when a handler begins, with the number of handlers of
its key that run at that moment (those of workers in ``dead`` left out), and the time when it ends. A worker is named by its session, which
the processes of suspect jobs share.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from typing import Any

import psycopg

from windlass import App
from windlass.retry import fixed

app = App()
_local = threading.local()

TABLES = (
    (
        "CREATE TABLE run (id {serial}, key TEXT NOT NULL, n INTEGER NOT NULL, pid INTEGER NOT NULL, beside INTEGER NOT NULL, "
        "began REAL NOT NULL, ended REAL)"
    ),
    "CREATE TABLE dead (pid INTEGER NOT NULL, at REAL NOT NULL)",
)


class Book:
    """A connection to the tables, one for each thread; times are the database machine's."""

    def __init__(self, url: str) -> None:
        self.is_sqlite = url.startswith("sqlite")
        self._connection: Any = (
            sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30, isolation_level=None)
            if self.is_sqlite
            else psycopg.connect(url, autocommit=True)
        )

    def run(self, sql: str, *values: object) -> list[Any]:
        """One statement; ``?`` is a value, ``{now}`` the time in seconds."""
        now = (
            "((julianday('now') - 2440587.5) * 86400.0)"
            if self.is_sqlite
            else "EXTRACT(EPOCH FROM clock_timestamp())::float8"
        )
        text = sql.format(now=now, serial="INTEGER PRIMARY KEY" if self.is_sqlite else "serial PRIMARY KEY")
        text = text.replace("REAL", "double precision") if not self.is_sqlite else text
        cursor = self._connection.execute(text if self.is_sqlite else text.replace("?", "%s"), values)
        return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        self._connection.close()


def book() -> Book:
    if not hasattr(_local, "book"):
        _local.book = Book(os.environ["WINDLASS_DATABASE_URL"])
    found: Book = _local.book
    return found


@app.job(limit=3, limit_key="args.key", processors=6, retry=fixed(9, wait=0.05))
def visit(key: str, n: int, seconds: float) -> None:
    """Runs for a while; some fail at first, so that places are freed by retries, too."""
    ((row,),) = book().run(
        "INSERT INTO run (key, n, pid, beside, began) SELECT ?, ?, ?, count(*), {now} FROM run WHERE key = ? AND ended IS NULL "
        "AND pid NOT IN (SELECT pid FROM dead) RETURNING id",
        key, n, os.getsid(0), key,
    )  # fmt: skip
    time.sleep(seconds)
    book().run("UPDATE run SET ended = {now} WHERE id = ?", row)
    if n % 10 == 3 and book().run("SELECT count(*) FROM run WHERE key = ? AND n = ?", key, n)[0][0] == 1:
        raise ConnectionError("once more")
