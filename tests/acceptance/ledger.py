"""The table ``ran``, in which the jobs of batch_worker.py write that they ran."""

from __future__ import annotations

import sqlite3
from typing import Any

import psycopg


def ledger(url: str) -> Any:
    """A connection to the database, with the table on it."""
    book: Any = (
        sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        if url.startswith("sqlite")
        else psycopg.connect(url, autocommit=True)
    )
    book.execute("CREATE TABLE ran (job TEXT, what TEXT)")
    return book
