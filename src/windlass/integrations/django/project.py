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
from django.conf import ENVIRONMENT_VARIABLE, settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from windlass.app.app import App
from windlass.arguments.asyncness import is_async
from windlass.engine.engine import Engine
from windlass.engine.processes.child.runtime import PRELOAD
from windlass.errors import ConfigError, did_you_mean
from windlass.integrations.django.atomic import HandlerRule, InAtomic
from windlass.integrations.django.hosting import DjangoTest, is_testing

NAME = "windlass.integrations.django"
SETTINGS_RULE = "the settings module of the project, for example project.settings"
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
        self.parts.registry.around = _with_good_connections
        own = "Django's WINDLASS['URL']"
        origin = own if self._given_settings.get("URL") else f"Django's DATABASES[{self.alias!r}]"
        self.parts.give_url(self._find_url, origin)
        self.parts.around_submitter = InAtomic(
            lambda: self.config["django.enqueue_in_atomic"], self._is_home
        ).wrap
        self.parts.registry.enqueue_rule = HandlerRule(self.parts)
        self._test = DjangoTest(self.alias, self._find_url)
        self.parts.test_host = self._find_test

    @property
    def alias(self) -> str:
        """The database that has the jobs, by its name in ``DATABASES``."""
        return str(self._given_settings.get("DATABASE", "default"))

    def _find_url(self) -> str:
        return str(self._given_settings.get("URL") or url_of(connections[self.alias].settings_dict))

    def _is_home(self, connection: Any) -> bool:
        """Whether a connection of Django's leads to the database that has the jobs."""
        return bool(connection.alias == self.alias and not self._given_settings.get("URL"))

    def _find_test(self) -> DjangoTest | None:
        """The connection of Django's tests while they run; none where jobs have a database of their own."""
        return self._test if is_testing() and not self._given_settings.get("URL") else None

    def worker(self, *args: Any, **changes: Any) -> Engine:
        os.environ[PRELOAD] = f"{NAME}.setup"  # children import handlers by name, and models need Django
        return super().worker(*args, **changes)


def current_app() -> DjangoApp:
    """The app of this process's project."""
    if not apps.apps_ready and not apps.loading:
        _set_up()
    try:
        found: DjangoApp = apps.get_app_config("windlass").windlass_app
    except LookupError as error:
        raise ImproperlyConfigured(f"add {NAME!r} to INSTALLED_APPS") from error
    return found


def _set_up() -> None:
    """``django.setup()``, with an error that names the variable if the project's settings are not found."""
    name = os.environ.get(ENVIRONMENT_VARIABLE)
    if not name and not settings.configured:
        raise ConfigError(ENVIRONMENT_VARIABLE, name, SETTINGS_RULE)
    try:
        django.setup()
    except ModuleNotFoundError as error:
        if not name or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise ConfigError(
            ENVIRONMENT_VARIABLE,
            name,
            f"{SETTINGS_RULE}; there is no module {error.name!r} here: start in the folder that holds it, or set PYTHONPATH",
        ) from error


def read_settings() -> Mapping[str, Any]:
    """The project's ``WINDLASS``, with nothing in it that would be overlooked."""
    given = getattr(settings, "WINDLASS", {})
    for key in given:
        if key not in KEYS:
            known = "; ".join(f"{name}: {about}" for name, about in KEYS.items())
            raise ImproperlyConfigured(
                f"WINDLASS[{key!r}] is unknown{did_you_mean(key, list(KEYS))}; there are {known}"
            )
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


def _close_old_connections() -> None:
    """As Django does it around requests; but the connection of a test that runs jobs in its own transaction stays."""
    for connection in connections.all(initialized_only=True):
        if not (is_testing() and connection.in_atomic_block):
            connection.close_if_unusable_or_obsolete()


def _with_good_connections(handler: Callable[..., Any]) -> Callable[..., Any]:
    """A handler that, like a request, begins and ends without connections that are broken or too old."""
    if is_async(handler):
        check = sync_to_async(_close_old_connections)

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
        _close_old_connections()
        try:
            return handler(*args, **kwargs)
        finally:
            _close_old_connections()

    return run
