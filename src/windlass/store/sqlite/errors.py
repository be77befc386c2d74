"""sqlite3's errors as Windlass's own: what happened, and what to do next."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from windlass.errors import (
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreInterruptedError,
    StoreReadOnlyError,
    StoreUnreachableError,
    WindlassError,
)


def translate(error: sqlite3.Error, path: str) -> WindlassError:
    """The Windlass error for a driver's error."""
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith("SQLITE_READONLY"):
        return StoreReadOnlyError(
            f"{path} takes no writes ({error}); check its permissions and those of its folder"
        )
    if name.startswith("SQLITE_FULL"):
        return StoreFullError(
            f"{path}: the disk is full; nothing of this call was stored. Free space, then repeat it"
        )
    if name.startswith("SQLITE_CANTOPEN"):
        return StoreUnreachableError(
            f"{path} cannot be opened ({error}); does its folder exist, and may you write there?"
        )
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return locked(path, "another connection, of this process or another one,")
    if name.startswith("SQLITE_INTERRUPT"):
        return StoreInterruptedError(
            f"{path}: this read took too long and was ended; nothing was changed. Ask for less: a state, a kind, a phase, or a shorter time"
        )
    if name.startswith("SQLITE_NOTADB"):
        return StoreDamagedError(f"{path} is not a SQLite database; choose another file")
    if name.startswith(("SQLITE_IOERR", "SQLITE_CORRUPT")):
        return StoreDamagedError(
            f"{path} is damaged or its disk fails ({error}); check the disk, then restore a backup"
        )
    if isinstance(error, sqlite3.ProgrammingError) and "closed database" in str(error):
        return StoreUnreachableError("this store is closed; open another one", is_unsent=True)
    return StoreError(f"{path}: SQLite refused a statement ({error})")


def locked(path: str, holder: str) -> StoreBusyError:
    """The error for a write that could not have the file's one write lock in time."""
    return StoreBusyError(
        f"{path} is locked: {holder} kept a write transaction open for too long; nothing was stored. "
        "If this thread itself has a write transaction open on the file, no wait can help: call enqueue_in(connection, ...), which writes "
        "in that transaction, or call after its commit. Otherwise make the other transaction shorter, or move to PostgreSQL",
        is_unsent=True,
    )


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Raise Windlass's errors instead of the driver's, the cause chained."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error, path) from error
