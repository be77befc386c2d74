"""The app that Django loads: finds the project's jobs, keeps Windlass's tables up to date with ``migrate``, and empties them between tests."""

from __future__ import annotations

import sys
from functools import cached_property
from typing import Any

from django.apps import AppConfig
from django.db import connections, transaction
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules

from windlass.integrations.django.hosting import is_testing
from windlass.integrations.django.project import NAME, DjangoApp, read_settings
from windlass.store.migrate import migrate
from windlass.store.sqlite.migrate import migrate_connection

_TABLES = {
    "sqlite": (
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'windlass!_%' ESCAPE '!'",
        "windlass_migration",
    ),
    "postgresql": (
        """SELECT 'windlass.' || quote_ident(relname) FROM pg_class
        WHERE relnamespace = 'windlass'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition""",
        "windlass.migration",
    ),
}
"""How to find Windlass's tables, and the one that lists the migrations."""


class WindlassConfig(AppConfig):
    """The installed app."""

    name = NAME
    label = "windlass"
    verbose_name = "Windlass"

    @cached_property
    def windlass_app(self) -> DjangoApp:
        return DjangoApp()

    def ready(self) -> None:
        post_migrate.connect(_migrate, sender=self)
        autodiscover_modules(str(read_settings().get("JOBS", "jobs")))


def _migrate(
    sender: WindlassConfig, using: str, verbosity: int = 1, stdout: Any = None, **given: Any
) -> None:
    """After ``manage.py migrate``, and when a test database is made: bring Windlass's own tables up to date, too. In tests also empty them
    after ``flush``, which sends the same signal without a plan of migrations."""
    app = sender.windlass_app
    if using != app.alias or read_settings().get("URL"):
        return
    connection = connections[using]
    if connection.vendor == "sqlite" and connection.is_in_memory_db():
        connection.ensure_connection()
        applied = migrate_connection(connection.connection)  # only this connection leads to it
    else:
        applied = migrate(app.url)
    if verbosity > 0 and applied:
        (stdout or sys.stdout).write(f"  Windlass: {', '.join(applied)}\n")
    if is_testing() and "plan" not in given:
        _empty(connection)


def _empty(connection: Any) -> None:
    """Remove all jobs, and everything about them: a ``TransactionTestCase`` commits, and flushes only tables of models."""
    tables, migrations = _TABLES[connection.vendor]
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        cursor.execute(tables)
        for (table,) in cursor.fetchall():
            if table != migrations:
                cursor.execute(f"DELETE FROM {table}")  # noqa: S608  a name of the catalog
