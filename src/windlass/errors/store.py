"""Errors of the database."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.errors.base import WindlassError


class StoreError(WindlassError):
    """The database refused an operation; the cause is chained."""

    code = "store"


class StoreUnreachableError(StoreError):
    """The database is unreachable, or the connection broke during a call. ``is_unsent`` means that nothing was sent."""

    code = "store_unreachable"

    def __init__(self, message: str, *, is_unsent: bool = False) -> None:
        super().__init__(message)
        self.is_unsent = is_unsent


class EnqueueUnknownError(StoreUnreachableError):
    """The reply to an enqueue was lost, and the check after it failed, too: all jobs are stored, or none. ``ids`` are their ids, in the
    order of the call. Repeating the call with these ids creates no second job."""

    code = "enqueue_unknown"

    def __init__(self, ids: Sequence[str], why: str) -> None:
        many = f"{len(ids)} jobs were" if len(ids) > 1 else f"job {ids[0]} was"
        super().__init__(
            f"whether {many} stored is unknown: the reply of the database was lost, and it could not be read again ({why}). Repeat the "
            "call with the same ids (`ids` of this error; the option `id`, or NewJob(id=...)): what is stored is not stored twice"
        )
        self.ids, self.why = tuple(ids), why


class StoreBusyError(StoreUnreachableError):
    """SQLite's one write lock was not available in time; nothing was written."""

    code = "store_busy"


class StoreInterruptedError(StoreError):
    """The server ended one call (a time-out, a lock, a deadlock, out of memory); nothing was written, and other calls continue."""

    code = "store_interrupted"


class SchemaError(StoreError):
    """The database's tables do not fit this release."""

    code = "schema"

    def __init__(self, message: str, *, found: int | None, expected: int) -> None:
        super().__init__(message)
        self.found, self.expected = found, expected


class StoreReadOnlyError(StoreError):
    """The database or file accepts no writes."""

    code = "store_read_only"


class StoreNotAllowedError(StoreError):
    """The database role lacks a privilege."""

    code = "store_not_allowed"


class StoreFullError(StoreError):
    """No space left; nothing of the failed call was written."""

    code = "store_full"


class StoreDamagedError(StoreError):
    """The file is damaged, is no database, or its disk fails."""

    code = "store_damaged"


FAULTS_OF_THE_STORE = (
    StoreUnreachableError,
    SchemaError,
    StoreReadOnlyError,
    StoreNotAllowedError,
    StoreFullError,
    StoreDamagedError,
)
"""Errors that no row of the call causes: the same call may work later."""
