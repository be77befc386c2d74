"""The front door of migrations: ``migrate(url)`` and ``status(url)``, whichever database the URL names."""

from __future__ import annotations

from windlass.store.schema.migrations import CONNECT_TIMEOUT, PATIENCE, Status
from windlass.urls import dialect_of


def migrate(url: str, *, patience: float = PATIENCE) -> list[str]:
    """Bring the database a URL names up to date; returns the names of the migrations applied.

    Waits up to ``patience`` seconds for other migrators and for locks.
    """
    if dialect_of(url) == "sqlite":
        from windlass.store.sqlite.migrate import migrate_sqlite

        return migrate_sqlite(url, busy_timeout=patience)
    from windlass.store.postgres.migrate import migrate_postgres

    return migrate_postgres(url, patience=patience)


def status(url: str, *, timeout: float = CONNECT_TIMEOUT) -> Status:
    """Which migrations the database a URL names has and lacks; changes nothing. PostgreSQL must accept the connection within ``timeout`` seconds."""
    if dialect_of(url) == "sqlite":
        from windlass.store.sqlite.migrate import status_sqlite

        return status_sqlite(url)
    from windlass.store.postgres.migrate import status_postgres

    return status_postgres(url, timeout=timeout)
