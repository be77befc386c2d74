"""The App of a Django project: its database is the project's, its handlers find connections that work."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import django
from asgiref.sync import sync_to_async
from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections, connections

from windlass.app.app import App
from windlass.arguments.asyncness import is_async
from windlass.engine.engine import Engine
from windlass.engine.processes.child.runtime import PRELOAD

NAME = "windlass.integrations.django"
KEYS = {
    "DATABASE": "which of DATABASES has the jobs; 'default'",
    "URL": "a database of their own instead; then enqueue_in does not work with Django's transactions",
    "CONFIG": "settings of Windlass by their dotted names",
    "JOBS": "the name of the modules that define jobs; 'jobs'",
}


class DjangoApp(App):
    """An App whose database is one of ``settings.DATABASES``, also while Django's test runner has put another in its place."""

    def __init__(self) -> None:
        self._given_settings = read_settings()
        super().__init__(config=self._given_settings.get("CONFIG"))
        self.registry.around = _with_good_connections

    @property
    def alias(self) -> str:
        """The database that has the jobs, by its name in ``DATABASES``."""
        return str(self._given_settings.get("DATABASE", "default"))

    @property
    def url(self) -> str:
        return str(self._given_settings.get("URL") or url_of(connections[self.alias].settings_dict))

    def worker(self, *args: Any, **changes: Any) -> Engine:
        os.environ[PRELOAD] = f"{NAME}.setup"  # children import handlers by name, and models need Django
        return super().worker(*args, **changes)


def current_app() -> DjangoApp:
    """The app of this process's project."""
    if not apps.apps_ready and not apps.loading:
        django.setup()
    try:
        found: DjangoApp = apps.get_app_config("windlass").windlass_app
    except LookupError as error:
        raise ImproperlyConfigured(f"add {NAME!r} to INSTALLED_APPS") from error
    return found


def read_settings() -> Mapping[str, Any]:
    """The project's ``WINDLASS``, with nothing in it that would be overlooked."""
    given = getattr(settings, "WINDLASS", {})
    for key in given:
        if key not in KEYS:
            known = "; ".join(f"{name}: {about}" for name, about in KEYS.items())
            raise ImproperlyConfigured(f"WINDLASS[{key!r}] is unknown; there are {known}")
    return dict(given)


def url_of(database: Mapping[str, Any]) -> str:
    """An entry of ``DATABASES`` as a URL."""
    engine, name = str(database.get("ENGINE", "")), str(database.get("NAME") or "")
    if "sqlite" in engine or engine.endswith("spatialite"):
        return f"sqlite:///{quote(name)}"
    if "postgresql" not in engine and not engine.endswith("postgis"):
        raise ImproperlyConfigured(
            f"WINDLASS: jobs need PostgreSQL or SQLite, not {engine or 'no engine'}; name another of DATABASES "
            "with WINDLASS['DATABASE'], or give WINDLASS['URL']"
        )
    known = _libpq_names()
    options = {key: str(value) for key, value in (database.get("OPTIONS") or {}).items() if key in known}
    for option, key in (("host", "HOST"), ("port", "PORT"), ("user", "USER"), ("password", "PASSWORD")):
        if database.get(key):
            options[option] = str(database[key])
    return f"postgresql:///{quote(name)}?{urlencode(options, quote_via=quote)}"


def _libpq_names() -> set[str]:
    """The options that a connection string may have; Django's OPTIONS have more, meant for Django and the driver."""
    from psycopg import pq

    return {item.keyword.decode() for item in pq.Conninfo.get_defaults()}


def _with_good_connections(handler: Callable[..., Any]) -> Callable[..., Any]:
    """A handler that, like a request, begins and ends without connections that are broken or too old."""
    if is_async(handler):
        check = sync_to_async(close_old_connections)

        @functools.wraps(handler)
        async def run_async(*args: Any, **kwargs: Any) -> Any:
            await check()
            try:
                return await handler(*args, **kwargs)
            finally:
                await check()

        return run_async

    @functools.wraps(handler)
    def run(*args: Any, **kwargs: Any) -> Any:
        close_old_connections()
        try:
            return handler(*args, **kwargs)
        finally:
            close_old_connections()

    return run
