"""psycopg's errors as Windlass's own: what happened, and what to do next. Connection strings never appear in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors as pg

from windlass.errors import (
    SchemaError,
    StoreError,
    StoreFullError,
    StoreNotAllowedError,
    StoreReadOnlyError,
    StoreUnreachableError,
    WindlassError,
)
from windlass.urls import without_secrets

REPEATABLE = (pg.DeadlockDetected, pg.SerializationFailure)


def translate(error: psycopg.Error) -> WindlassError:
    """The Windlass error for a driver's error."""
    # libpq quotes a connection string it cannot read, password and all.
    text = without_secrets((str(error).strip() or type(error).__name__).splitlines()[0])
    match error:
        case pg.ReadOnlySqlTransaction():
            return StoreReadOnlyError(
                f"PostgreSQL takes no writes ({text}); connect to the primary, or end the read-only setting"
            )
        case pg.DiskFull() | pg.OutOfMemory():
            return StoreFullError(
                f"PostgreSQL has no room left ({text}); nothing of this call was stored. Free space, then repeat it"
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
        case psycopg.OperationalError() if "authentication" in text or (
            "role" in text and "does not exist" in text
        ):
            return StoreUnreachableError(
                f"PostgreSQL refused the login ({text}); check user and password in the URL"
            )
        case psycopg.OperationalError() if "does not exist" in text:
            return StoreUnreachableError(
                f"PostgreSQL has no such database ({text}); create it, or correct the URL"
            )
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return StoreUnreachableError(
                f"PostgreSQL does not answer ({text}); check that it runs and that the URL is right, then repeat the call"
            )
        case _:
            return StoreError(f"PostgreSQL refused a statement ({text})")


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
