"""Django without a project: configured once per process, with a database for each test that wants one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

import django
from django.conf import settings

if not settings.configured:  # at import: threads of a test must not do it at the same time
    settings.configure(DATABASES={}, USE_TZ=True, INSTALLED_APPS=[])
    django.setup()


def database(url: str) -> dict[str, Any]:
    """The entry of ``DATABASES`` for a URL."""
    if url.startswith("sqlite:///"):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": url.removeprefix("sqlite:///")}
    parts = urlsplit(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.removeprefix("/"),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
    }


@contextmanager
def connected(url: str, alias: str) -> Iterator[Any]:
    """A Django connection to a database, under an alias of its own."""
    from django.db import connections

    connections.databases[alias] = connections.configure_settings({"default": {}, alias: database(url)})[
        alias
    ]
    connection = connections[alias]
    try:
        yield connection
    finally:
        connection.close()
        del connections[alias]
        del connections.databases[alias]
