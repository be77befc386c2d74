"""The front door of migrations: ``migrate(url)`` and ``status(url)``, whichever database the URL names."""

from __future__ import annotations

from windlass.store.migrations import Status


def migrate(url: str) -> list[str]:
    """Bring the database a URL names up to date; answers the names of the migrations applied."""
    if url.startswith("sqlite:"):
        from windlass.store.sqlite_migrate import migrate_sqlite

        return migrate_sqlite(url)
    from windlass.store.postgres_migrate import migrate_postgres

    return migrate_postgres(url)


def status(url: str) -> Status:
    """Where the database a URL names stands."""
    if url.startswith("sqlite:"):
        from windlass.store.sqlite_migrate import status_sqlite

        return status_sqlite(url)
    from windlass.store.postgres_migrate import status_postgres

    return status_postgres(url)
