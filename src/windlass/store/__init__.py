"""The only place that knows SQL: ``open_store(url)``, nothing else."""

from __future__ import annotations

from typing import Any

from windlass.store.store import Store


def open_store(url: str, **options: Any) -> Store:
    """Open the database a URL names: ``sqlite:///path/to/file.db`` or ``postgresql://user@host/name``.

    Nothing is created on PostgreSQL (``windlass db migrate`` does that); a SQLite file is created and migrated, because
    there is nobody else to do it. Options are those of the database: ``clock``, and for PostgreSQL ``pooled``,
    ``direct_url``, ``max_connections`` and ``auto_migrate``.
    """
    return Store.open(url, **options)


__all__ = ["Store", "open_store"]
