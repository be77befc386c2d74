"""psycopg's errors as Windlass's own: what happened, and what to do next. Connection strings never appear in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors as pg

from windlass.errors import (
    SchemaError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreInterruptedError,
    StoreNotAllowedError,
    StoreReadOnlyError,
    StoreUnreachableError,
    WindlassError,
)
from windlass.urls import without_secrets

REPEATABLE = (pg.DeadlockDetected, pg.SerializationFailure)

_LOST = ("08", "53300", "57P", "25P03", "25P04")
"""SQLSTATEs (or their beginnings) with which the server ends or refuses a session: the statement is not the cause."""
_CUT_OFF = ("40", "53", "55", "57")
"""SQLSTATEs with which the server gives up one call, while the session goes on: time-outs, locks, deadlocks, cancels, limits."""
_OWN_SYSTEM = ("58",)


def translate(error: psycopg.Error) -> WindlassError:
    """The Windlass error for a driver's error."""
    # libpq quotes a connection string it cannot read, password and all.
    text = without_secrets((str(error).strip() or type(error).__name__).splitlines()[0])
    match error:
        case pg.ReadOnlySqlTransaction():
            return StoreReadOnlyError(
                f"PostgreSQL takes no writes ({text}); connect to the primary, or end the read-only setting"
            )
        case pg.DiskFull():
            return StoreFullError(
                f"PostgreSQL has no room left ({text}); nothing of this call was stored. Free space, then repeat it"
            )
        case pg.OutOfMemory():
            return StoreInterruptedError(
                f"PostgreSQL ran out of memory for this call ({text}); nothing of it was stored. Repeat it with less at a time, or give "
                "the server more (for shared memory: max_locks_per_transaction)"
            )
        case pg.UndefinedTable() | pg.InvalidSchemaName() | pg.UndefinedColumn() | pg.UndefinedFunction():
            return SchemaError(
                f"the database lacks what this release needs ({text}); run `windlass db migrate`",
                found=None,
                expected=0,
            )
        case pg.InsufficientPrivilege():
            return StoreNotAllowedError(
                f"PostgreSQL refused ({text}); grant the role what docs/guides/postgresql.md lists"
            )
    return _by_sqlstate(error, text)


def _by_sqlstate(error: psycopg.Error, text: str) -> WindlassError:
    """Classify by SQLSTATE: errors of a session are not caused by the call, errors of a call are. Without a SQLSTATE no server answered."""
    state = error.sqlstate or ""
    is_driver = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    if state.startswith("28") or (not state and is_driver and _is_login(text)):
        return StoreUnreachableError(
            f"PostgreSQL refused the login ({text}); check user and password in the URL"
        )
    if state == "3D000" or (not state and is_driver and "does not exist" in text):
        return StoreUnreachableError(
            f"PostgreSQL has no such database ({text}); create it, or correct the URL"
        )
    if state.startswith(_LOST) or (not state and is_driver):
        return StoreUnreachableError(
            f"PostgreSQL does not answer ({text}); check that it runs and that the URL is right, then repeat the call"
        )
    if state.startswith(_OWN_SYSTEM):
        return StoreDamagedError(
            f"PostgreSQL cannot read or write its own files ({text}); check the server's log and its disk"
        )
    if state.startswith(_CUT_OFF):
        return StoreInterruptedError(
            f"PostgreSQL gave this call up ({text}); nothing of it was stored. Repeat it; if it is given up each time, find the session that holds "
            "the locks (pg_stat_activity), or do less at a time"
        )
    return StoreError(f"PostgreSQL refused a statement ({text})")


def _is_login(text: str) -> bool:
    return "authentication" in text or ("role" in text and "does not exist" in text)


@contextmanager
def translated() -> Iterator[None]:
    """Raise Windlass's errors instead of the driver's, the cause chained."""
    try:
        yield
    except psycopg.ProgrammingError as error:
        if error.sqlstate is not None:
            raise translate(error) from error
        raise translate(error) from None  # a URL that cannot be read is quoted by the cause, password and all
    except psycopg.Error as error:
        raise translate(error) from error


def lacks_partition(error: psycopg.Error) -> bool:
    """Whether a row of history found no partition for its day."""
    return (
        isinstance(error, pg.CheckViolation)
        and error.diag.table_name == "job_done"
        and error.diag.constraint_name is None
    )
