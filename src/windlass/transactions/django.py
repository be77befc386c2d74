"""Django: ``django.db.connection`` and ``connections[alias]``, inside ``transaction.atomic()``."""

from __future__ import annotations

from typing import Any

from windlass.errors import ConfigError
from windlass.store.database import Row
from windlass.transactions.placeholders import Style
from windlass.transactions.protocols import no_transaction

DIALECTS = {"postgresql": "postgres", "sqlite": "sqlite"}


class DjangoCaller:
    """A database of a Django project, as this thread is connected to it."""

    style = Style.FORMAT  # also on SQLite, where Django writes its own

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        vendor = getattr(connection, "vendor", None)
        if vendor not in DIALECTS:
            raise ConfigError(
                "transaction",
                f"Django's {vendor or type(connection).__name__}",
                "one on PostgreSQL or SQLite",
            )
        self.dialect = DIALECTS[vendor]

    def require_transaction(self) -> None:
        if not self._connection.in_atomic_block and self._connection.get_autocommit():
            raise no_transaction("a Django connection in autocommit mode", "`with transaction.atomic():`")

    def begin(self) -> None:
        """Django has begun: an atomic block does, and SQLite without autocommit is refused by Django itself."""

    def flush(self) -> None:
        """Nothing is kept back."""

    def execute(self, text: str, values: Any) -> list[Row] | None:
        with self._connection.cursor() as cursor:
            cursor.execute(text, values)
            return list(cursor.fetchall()) if cursor.description is not None else None
