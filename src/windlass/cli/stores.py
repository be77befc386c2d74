"""Opens the store of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.urls import dialect_of

if TYPE_CHECKING:
    from windlass.features import Store


def existing_store(url: str) -> Store:
    """Open a store whose tables are current. A missing SQLite file is an error: opening it would create it, and its name may be mistyped."""
    dialect = dialect_of(url)
    from windlass.features import open_store
    from windlass.store.migrate import status
    from windlass.store.schema.migrations import available, require_current

    cure = "run `windlass db migrate`, or correct the URL"
    require_current(status(url), len(available(dialect)), url, cure)
    return open_store(url)
