"""The app that Django loads: finds the project's jobs, and keeps Windlass's tables up to date with ``migrate``."""

from __future__ import annotations

import sys
from functools import cached_property
from typing import Any

from django.apps import AppConfig
from django.db import connections
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules

from windlass.integrations.django.project import NAME, DjangoApp, read_settings
from windlass.store.migrate import migrate
from windlass.store.sqlite.migrate import migrate_connection


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


def _migrate(sender: WindlassConfig, using: str, verbosity: int = 1, stdout: Any = None, **_: Any) -> None:
    """After ``manage.py migrate``, and when a test database is made: bring Windlass's own tables up to date, too."""
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
